"""`manage.py qless_config`: the options of a namespace."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from django.core.management.base import CommandError

from django_qless import conf
from django_qless.core.options import OPTIONS, known
from django_qless.declared import MARKER, reset, set_by_operators
from django_qless.management.base import QlessCommand
from django_qless.management.words import table

if TYPE_CHECKING:
    from django.core.management.base import CommandParser


class Command(QlessCommand):
    help = "Shows and sets the options of a namespace."

    def add_arguments(self, parser: CommandParser) -> None:
        words = parser.add_subparsers(dest="word", required=True, metavar="word")
        self.add_word(words, "list", "all options: value, default, who set it, meaning")
        self.add_word(words, "get", "print an option").add_argument("option")
        setting = self.add_word(
            words, "set", "set an option; it wins over the settings"
        )
        setting.add_argument("option")
        setting.add_argument("value")
        setting.add_argument(
            "--new", action="store_true", help="also an option that nobody knows"
        )
        unset = self.add_word(words, "unset", "return options to the core's defaults")
        unset.add_argument("options", nargs="+", metavar="option")
        back = self.add_word(words, "reset", "return options to what QLESS declares")
        back.add_argument("options", nargs="*", metavar="option")
        back.add_argument("--all", action="store_true", help="all that operators set")

    def add_word(self, words: Any, word: str, text: str) -> Any:
        """Add one of the command's words, with the options that all have."""
        parser = words.add_parser(word, help=text)
        super().add_arguments(parser)
        return parser

    def act(self, **options: Any) -> None:
        getattr(self, f"do_{options['word']}")(options)

    def do_list(self, options: dict[str, Any]) -> None:
        """Print all options."""
        rows = self.rows()
        if options["json"]:
            self.print_json(rows)
            return
        head = ["option", "value", "default", "set by", "meaning"]
        self.say(table(head, [list(map(str, row.values())) for row in rows], ""))

    def rows(self) -> list[dict[str, Any]]:
        """Return what is to be said of each option that is known or set."""
        values = self.client.config_all()
        declared = conf.alias(self.alias).declared
        by_operators = set_by_operators(self.alias)
        names = [option.name for option in OPTIONS]
        names += sorted(set(values) - set(names) - {MARKER})
        rows = []
        for name in names:
            option = known(name)
            default = option.default if option else ""
            who = "operator" if name in by_operators else ""
            if not who and name in declared and isinstance(values.get(name), str):
                who = "QLESS"
            rows.append(
                {
                    "option": name,
                    "value": values.get(name, default),
                    "default": default,
                    "set by": who,
                    "meaning": option.meaning if option else "",
                }
            )
        return rows

    def do_get(self, options: dict[str, Any]) -> None:
        """Print an option."""
        name = options["option"]
        value = self.client.config_get(name)
        if value is None and (option := known(name)):
            value = option.default
        if value is None:
            raise CommandError(f"There is no option {name!r}{near(name)}")
        self.print_json(value) if options["json"] else self.say(str(value))

    def do_set(self, options: dict[str, Any]) -> None:
        """Set an option."""
        name = options["option"]
        if known(name) is None and not options["new"]:
            raise CommandError(
                f"There is no option {name!r}{near(name)}; --new sets it nevertheless"
            )
        self.client.config_set(name, options["value"])
        self.say(f"{name} is {options['value']}")

    def do_unset(self, options: dict[str, Any]) -> None:
        """Return options to the core's defaults."""
        for name in options["options"]:
            self.client.config_unset(name)
            self.say(f"{name} is {self.client.config_get(name) or 'unset'}")

    def do_reset(self, options: dict[str, Any]) -> None:
        """Return options to what QLESS declares."""
        names = options["options"]
        if bool(names) == options["all"]:
            raise CommandError("Give the names of options, or --all")
        names = names or sorted(set_by_operators(self.alias))
        if not names:
            self.say("nothing to do: no option was set by hand")
            return
        reset(names, self.alias)
        for name in names:
            self.say(f"{name} is {self.client.config_get(name) or 'unset'}")


def near(name: str) -> str:
    """Return a hint at the option that may have been meant, or nothing."""
    found = get_close_matches(name, [option.name for option in OPTIONS], n=1)
    return f" (did you mean {found[0]}?)" if found else ""
