"""Whom sentinels name, without servers: tests say what each of them answers."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from redis.exceptions import AuthenticationError, ResponseError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.sentinel import MasterNotFoundError

from django_qless.core.sentinel import AsyncSentinels, Sentinels

OLD, NEW = ("10.0.0.1", "6379"), ("10.0.0.2", "6380")
AWAY = RedisConnectionError("refused")
UNKNOWN = ResponseError("No such master with that name")
STRANGER = AuthenticationError("invalid username-password pair")


class Said:
    """A sentinel that gives one answer, or fails with one error."""

    def __init__(
        self,
        epoch: int = 1,
        address: tuple[str, str] = OLD,
        *,
        known: tuple[str, str] | None = None,
        flags: str = "master",
        others: int = 2,
        error: Exception | None = None,
    ) -> None:
        ip, port = known or address
        fields = {"ip": ip, "port": port, "flags": flags, "config-epoch": str(epoch)}
        fields["num-other-sentinels"] = str(others)
        self.master = [word for pair in fields.items() for word in pair]
        self.address = list(address)
        self.error = error
        self.asked: list[tuple[str, ...]] = []
        self.closed = 0
        self.connection_pool: Any = SimpleNamespace(
            connection_kwargs={"host": "s", "port": id(self)},
            disconnect=self.disconnect,
        )

    def execute_command(self, *words: str) -> Any:
        self.asked.append(words)
        if self.error:
            raise self.error
        return self.master if words[1] == "MASTER" else self.address

    def disconnect(self, *, inuse_connections: bool) -> None:
        assert not inuse_connections
        self.closed += 1


class AsyncSaid(Said):
    """The same for asyncio."""

    async def execute_command(self, *words: str) -> Any:
        return super().execute_command(*words)

    async def disconnect(self, *, inuse_connections: bool) -> None:
        super().disconnect(inuse_connections=inuse_connections)


def asking(*sentinels: Said, **options: Any) -> Sentinels:
    """Return what asks these sentinels."""
    manager = Sentinels([], **options)
    manager.sentinels = list(sentinels)
    return manager


def named(*sentinels: Said, **options: Any) -> tuple[str, int]:
    """Return the address that is found."""
    return asking(*sentinels, **options).discover_master("main")


def failing(error: Exception = AWAY) -> Said:
    return Said(error=error)


OLD_PLACE, NEW_PLACE = ("10.0.0.1", 6379), ("10.0.0.2", 6380)


def test_both_questions_are_about_the_service() -> None:
    sentinel = Said()
    assert named(sentinel) == OLD_PLACE
    assert sentinel.asked == [
        ("SENTINEL", "MASTER", "main"),
        ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main"),
    ]
    assert sentinel.closed == 1


@pytest.mark.parametrize(
    ("number", "enough"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (7, 4)]
)
def test_a_majority_is_asked_and_no_more(number: int, enough: int) -> None:
    sentinels = [Said() for _ in range(number)]
    assert named(*sentinels) == OLD_PLACE
    assert [bool(each.asked) for each in sentinels] == [
        place < enough for place in range(number)
    ]
    assert [each.closed for each in sentinels] == [
        int(place < enough) for place in range(number)
    ]


def test_those_that_do_not_answer_are_no_part_of_the_majority() -> None:
    sentinels = [failing(), Said(1, OLD), failing(), Said(2, NEW), Said(3, OLD)]
    assert named(*sentinels) == OLD_PLACE
    assert all(each.closed == 1 for each in sentinels)
    # Of a minority the latest counts, when no others answer.
    assert (
        named(failing(), Said(1, OLD), failing(), Said(2, NEW), failing()) == NEW_PLACE
    )


@pytest.mark.parametrize(
    ("sentinels", "place"),
    [
        ([Said(2, NEW), Said(1, OLD)], NEW_PLACE),
        ([Said(1, OLD), Said(2, NEW)], NEW_PLACE),
        ([Said(10, NEW), Said(9, OLD)], NEW_PLACE),
        # One has heard already how the failover ends.
        ([Said(2, NEW, known=OLD), Said(2, OLD)], NEW_PLACE),
        ([Said(2, OLD), Said(2, NEW, known=OLD)], NEW_PLACE),
        ([Said(2, NEW, known=(NEW[0], OLD[1])), Said(2, OLD)], NEW_PLACE),
        ([Said(2, NEW, known=(OLD[0], NEW[1])), Said(2, OLD)], NEW_PLACE),
        ([Said(2, NEW, known=OLD, flags="master,o_down"), Said(2, OLD)], NEW_PLACE),
        ([Said(1, OLD, known=NEW), Said(3, NEW)], NEW_PLACE),
        # Of equal ones the first, whatever else they say.
        ([Said(2, NEW, others=2), Said(2, NEW, others=3)], NEW_PLACE),
        ([Said(2, OLD), Said(2, NEW)], OLD_PLACE),
        ([Said(2, NEW), Said(2, OLD)], NEW_PLACE),
    ],
)
def test_the_latest_configuration_counts(
    sentinels: list[Said], place: tuple[str, int]
) -> None:
    assert named(*sentinels) == place


@pytest.mark.parametrize("flags", ["s_down,master", "master,o_down", "slave"])
def test_a_primary_that_is_down_is_not_named(flags: str) -> None:
    with pytest.raises(
        MasterNotFoundError, match=rf"'main' .*10.0.0.1:6379 is {flags}"
    ):
        named(Said(flags=flags))
    assert named(Said(flags=flags), Said(2, NEW)) == NEW_PLACE


def test_how_many_others_a_sentinel_must_know() -> None:
    assert named(Said(others=2), min_other_sentinels=2) == OLD_PLACE
    with pytest.raises(MasterNotFoundError):
        named(Said(others=1), min_other_sentinels=2)


def test_a_forced_address_keeps_the_port() -> None:
    manager = asking(Said())
    manager._force_master_ip = "127.0.0.9"
    assert manager.discover_master("main") == ("127.0.0.9", 6379)


def test_those_that_are_away_are_asked_last_the_next_time() -> None:
    first, second, third, fourth = failing(), failing(UNKNOWN), failing(), Said()
    manager = asking(first, second, third, fourth)
    assert manager.discover_master("main") == OLD_PLACE
    # One that answers, even that it knows of nothing, keeps its place.
    assert manager.sentinels == [second, fourth, first, third]
    manager = asking(second, fourth)
    manager.discover_master("main")
    assert manager.sentinels == [second, fourth]


def test_what_stood_in_the_way_is_told_of_each() -> None:
    away, silent = failing(), failing(OSError())
    with pytest.raises(MasterNotFoundError) as caught:
        named(away, silent, failing(UNKNOWN))
    assert f"s:{id(away)}: refused; s:{id(silent)}: OSError()" in str(caught.value)
    assert "No such master" in str(caught.value)
    with pytest.raises(AuthenticationError, match=r"Sentinel s:.*: invalid username"):
        named(failing(), failing(STRANGER))
    # Where another one lets us in, it does not matter.
    assert named(failing(STRANGER), Said()) == OLD_PLACE
    with pytest.raises(MasterNotFoundError, match="is slave"):
        named(failing(STRANGER), Said(flags="slave"))


def test_asyncio_asks_the_same() -> None:
    async def main() -> None:
        manager = AsyncSentinels([])
        away = AsyncSaid(error=AWAY)
        manager.sentinels = [away, AsyncSaid(1, OLD), AsyncSaid(2, NEW)]
        assert await manager.discover_master("main") == NEW_PLACE
        assert manager.sentinels[-1] is away
        assert [each.closed for each in manager.sentinels] == [1, 1, 1]

    asyncio.run(main())
