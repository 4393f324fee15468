"""Says nothing about its encoding, so it is read as UTF-8; it is Latin-1."""


def greet():
    return "Grüße aus Köln"
