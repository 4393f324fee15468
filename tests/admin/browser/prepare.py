"""Makes the tables and the users of a scene: a program of its own, run once."""

from __future__ import annotations

import sys

import django
from django.core.management import call_command


def main() -> None:
    """Migrate, and make a superuser with the name and password that are given."""
    django.setup()
    for alias in ("default", "other"):
        call_command("migrate", verbosity=0, database=alias)
    from django.contrib.auth.models import User

    User.objects.create_superuser(sys.argv[1], password=sys.argv[2])


if __name__ == "__main__":
    main()
