"""Numbers on a command line: read, or refused with what to write instead."""

from __future__ import annotations

from argparse import ArgumentTypeError


def whole(text: str, *, least: int = 1, most: int | None = None) -> int:
    """Return a whole number from `least` to `most`."""
    remedy = f"give a whole number from {least}" + (f" to {most}" if most else "")
    try:
        number = int(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is no whole number: {remedy}") from None
    if number < least:
        raise ArgumentTypeError(f"{number} is less than {least}: {remedy}")
    if most is not None and number > most:
        raise ArgumentTypeError(f"{number} is more than {most}: {remedy}")
    return number


def seconds(text: str) -> float:
    """Return a number of seconds; 0 is one."""
    number = _number(text)
    if not 0 <= number < float("inf"):
        raise ArgumentTypeError(f"{text!r} is no time: give seconds, from 0")
    return number


def some_seconds(text: str) -> float:
    """Return a number of seconds above 0."""
    number = _number(text)
    if not 0 < number < float("inf"):
        raise ArgumentTypeError(f"{text!r} is no time: give seconds, more than 0")
    return number


def megabytes(text: str) -> int:
    """Return the bytes of so many megabytes, of which there must be some."""
    number = _number(text)
    if not 1 <= number < 2**40:
        raise ArgumentTypeError(f"{text!r} is no size: give megabytes, from 1")
    return int(number * 1024 * 1024)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")
