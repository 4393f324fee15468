"""A file without mistakes, small enough to check its figures by counting.

# this is text, not a comment, and the line above is text, not a blank line
"""


def days_in_month(month, leap):
    # complexity 4: the if, the or, the conditional expression, and one
    if month == 2 or month is None:
        return 29 if leap else 28
    return 30 + (month + month // 8) % 2


class Calendar:
    """Two methods, and a function inside one of them."""

    def __init__(self, names):
        self.names = [name for name in names if name]

    def longest(self):
        def length(name):
            return len(name)

        return max(self.names, key=length, default="")
