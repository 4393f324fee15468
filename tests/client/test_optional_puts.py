"""Commands of a large batch keep optional jobs together with those that need them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_qless.core import Put
from django_qless.core.put import batches

if TYPE_CHECKING:
    from django_qless.core import Client


def group(name: str, optional: int, data: str = "{}") -> list[Put]:
    jids = [f"{name}{n}" for n in range(optional + 1)]
    return [
        Put(jid, "q", "k", data, depends=jids[n - 1 : n], optional=n < optional)
        for n, jid in enumerate(jids)
    ]


def test_a_group_is_not_split() -> None:
    items = [each for n in range(500) for each in group(f"{n}.", 2)]
    assert [number for number, _ in batches(items)] == [999, 501]
    # By their size, too: 1 MiB in a command.
    items = [each for n in range(4) for each in group(f"{n}.", 1, f'"{"x" * 200_000}"')]
    assert [number for number, _ in batches(items)] == [4, 4]


def test_optional_ones_at_the_end_are_a_group() -> None:
    items = [*group("a", 1), *group("b", 3)[:3]]
    assert [number for number, _ in batches(items)] == [5]


def test_skipped_jobs_and_duplicates(client: Client) -> None:
    client.put("", "q", "held", "k", "{}", unique="key")
    first, second, last = group("a", 2)
    result = client.put_many("", [first, second._replace(unique="key"), last])
    assert result.skipped == [first.jid]
    assert result.duplicates == {second.jid: "held"}
    assert list(client.get(last.jid).dependencies) == ["held"]
