"""The envelope that arguments travel in: how large it may be."""

from __future__ import annotations

import pytest

from django_qless.core.exceptions import TooBig
from django_qless.serialization import envelope

MIB = 1024 * 1024


@pytest.mark.parametrize("letter", ["x", "é"])
def test_arguments_have_16_mib_before_they_are_compressed(letter: str) -> None:
    room = 16 * MIB - len(envelope.encode("a.job", ("",), {}))
    size = len(letter.encode())
    most = letter * (room // size) + "x" * (room % size)
    assert len(envelope.encode("a.job", (most,), {}).encode()) == 16 * MIB
    with pytest.raises(TooBig, match=r"a\.job: .* 16,777,217 bytes .* 16,777,216"):
        envelope.encode("a.job", (f"{most}x",), {})


@pytest.mark.parametrize("letter", ["x", "é"])
def test_what_a_job_carries_is_half_a_mib(letter: str) -> None:
    most = letter * (MIB // 2 // len(letter.encode()))
    assert envelope.limited("a.job", most) == most
    with pytest.raises(TooBig, match=r"524,289 bytes .* 524,288"):
        envelope.limited("a.job", f"{most}x")
