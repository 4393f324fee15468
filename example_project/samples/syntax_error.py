"""Somebody was called away in the middle of a line."""


def add(first, second):
    return first +
