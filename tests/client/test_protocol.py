"""What is packed is cut into batches that one command may have."""

from __future__ import annotations

from django_qless.core.protocol import Packed, batches


def test_batches_keep_the_order_and_both_limits() -> None:
    items = [(1, 1, b"%d" % number) for number in range(7)]
    assert list(batches(items, 3)) == [
        (3, Packed(3, b"012")),
        (3, Packed(3, b"345")),
        (1, Packed(1, b"6")),
    ]
    large = [(1, 2, bytes(400 * 1024))] * 5
    assert [number for number, _ in batches(large, 1_000)] == [2, 2, 1]
    assert list(batches([], 3)) == []
