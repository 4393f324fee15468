"""Opens the example in Django's admin, with a worker beside it.

    python open_admin.py             at http://127.0.0.1:8000/
    python open_admin.py --port 80

Shows what demo.py has left; without that, django_qless measures itself. Only this machine
can reach it: the password is known to everybody.
"""

from __future__ import annotations

import argparse
import os
import sys

import django


def main() -> int:
    """Shows the admin until it is interrupted, and returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="open_admin.py",
        description="Opens the example in Django's admin, with a worker beside it.",
    )
    parser.add_argument("--port", type=int, default=8000)
    port = parser.parse_args().port
    os.environ["DJANGO_SETTINGS_MODULE"] = "project.settings"
    django.setup()

    # What knows the models can be imported only now.
    from demonstration.opening import end_on_signals, open_admin
    from demonstration.steps import DemoFailed
    from django_qless import QlessError

    end_on_signals()
    try:
        open_admin(port)
    except (DemoFailed, QlessError) as error:
        print(f"The admin cannot be shown: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nEnded. The jobs are kept: make admin shows them again.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
