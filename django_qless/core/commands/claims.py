"""Commands for unique keys that hold in several namespaces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from .. import arguments
from ..protocol import Argument
from ..request import Command, command


class Claim(NamedTuple):
    """A claim to make: the job is to be put in the namespace `home`."""

    key: str
    jid: str
    home: str
    #: Seconds for which the job keeps others out; None: as long as it counts.
    period: float | None = None
    #: The `since` of the claim whose place it takes.
    instead: str = ""


class ClaimReply(NamedTuple):
    """A claim that was made, or the one that is in the way."""

    since: str
    """When it was made: tells it from any other."""
    jid: str = ""
    """The job that has the key; "" if the claim was made."""
    home: str = ""
    """The namespace of that job."""
    lapsed: bool = False
    """True if only that namespace can say whether it still counts."""

    def of_put(self, claimed_in: str, home: str) -> str:
        """Return what the put of the job says of its claim."""
        return f"{self.since} {claimed_in}\n{home}"


class ClaimAnswer(NamedTuple):
    """What the namespace of a job says of its claim."""

    held: bool
    """True if the job holds the key, or may still be put."""
    state: str
    """The state of the job; "" if there is no job yet."""


class ClaimCommands:
    """Commands for unique keys that hold in several namespaces."""

    @command
    def claim(self, claims: Sequence[Claim], lease: float) -> Command[list[ClaimReply]]:
        """Claim keys, at most 1,000, for jobs that are put within `lease` seconds."""
        args: list[Argument] = [arguments.number("lease", lease)]
        for each in claims:
            period: Argument = ""
            if each.period is not None:
                period = arguments.number("period", each.period)
            args += (*_named(each.key, each.jid, each.home), period, each.instead)
        return Command("claim", tuple(args), "write", _read_claims)

    @command
    def release_claims(self, claims: Sequence[tuple[str, str, str]]) -> Command[int]:
        """Release claims, each by key, jid and home; return how many there were."""
        args = [part for each in claims for part in _named(*each)]
        return Command("claim.release", tuple(args), "drain")

    @command
    def check_claims(
        self, claims: Sequence[tuple[str, ClaimReply]]
    ) -> Command[list[ClaimAnswer]]:
        """Return whether jobs of this namespace hold their keys, each by key and claim.

        A job that does not is refused if it is put with this claim later.
        """
        args: list[Argument] = []
        for key, reply in claims:
            args += (
                arguments.name("key", key),
                arguments.existing("jid", reply.jid),
                reply.since,
                int(reply.lapsed),
            )
        return Command("claim.check", tuple(args), "write", _read_answers)


def _named(key: str, jid: str, home: str) -> tuple[Argument, ...]:
    return (
        arguments.name("key", key),
        arguments.existing("jid", jid),
        arguments.name("home", home),
    )


def _read_claims(reply: list[list[Any]]) -> list[ClaimReply]:
    return [_read_claim(*each) for each in reply]


def _read_claim(
    since: str, jid: str = "", home: str = "", lapsed: int = 0
) -> ClaimReply:
    return ClaimReply(since, jid, home, bool(lapsed))


def _read_answers(reply: list[str]) -> list[ClaimAnswer]:
    pairs = zip(reply[::2], reply[1::2], strict=True)
    return [ClaimAnswer(word == "held", state) for word, state in pairs]
