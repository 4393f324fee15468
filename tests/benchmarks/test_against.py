"""What is said of two builds, and that an earlier one can be measured at all."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING, cast

import pytest

from benchmarks import against, run
from benchmarks.against import ROOT, Ratio, compare, stages
from benchmarks.instructions import OUTPUT
from benchmarks.placement import Placement
from benchmarks.server import Server as Bench
from benchmarks.server import find_binary
from benchmarks.workload import WORK, measured

if TYPE_CHECKING:
    import benchmarks.server
    from tests.real_servers import Server

TEN = [1.0] * 10

in_a_checkout = pytest.mark.skipif(
    not (ROOT / ".git").exists() or shutil.which("git") is None,
    reason="commits are only to be had with git, in a checkout",
)


@pytest.mark.parametrize(
    ("name", "ratios", "verdict"),
    [
        ("server µs", [0.98, *[1.0] * 8, 1.02], "unchanged"),
        ("server µs", [0.5, *[1.0] * 8, 2.0], "unchanged"),
        ("server µs", [1.04] * 10, "worse"),
        ("server µs", [0.9] * 10, "better"),
        ("server µs", [0.9, 0.9, 0.9, *[1.0] * 4, 1.1, 1.1, 1.1], "repeat"),
        ("jobs/s", [0.96] * 10, "unchanged"),
        ("jobs/s", [0.9] * 10, "worse"),
        ("jobs/s", [1.2] * 10, "better"),
        ("commands", [1.01] * 10, "worse"),
    ],
)
def test_verdicts(name: str, ratios: list[float], verdict: str) -> None:
    assert verdict in Ratio(name, TEN, ratios).verdict


def test_ratios_are_taken_within_pairs() -> None:
    """The machine became half as fast in the midst of it."""
    ratio = Ratio("server µs", [10.0] * 5 + [20.0] * 5, [11.0] * 5 + [22.0] * 5)
    assert ratio.median == pytest.approx(1.1)
    assert ratio.spread == pytest.approx((1.1, 1.1))


@in_a_checkout
def test_each_stage_has_its_own_package() -> None:
    with stages("HEAD") as (old, new):
        assert (new / "django_qless").resolve() == ROOT / "django_qless"
        assert (old / "django_qless").resolve() != ROOT / "django_qless"
        assert (old / "django_qless" / "core" / "qless.lua").is_file()


@in_a_checkout
def test_an_unknown_commit_is_named() -> None:
    with pytest.raises(ValueError, match="no-such"), stages("no-such"):
        pass


@in_a_checkout
def test_a_workload_is_told_as_soon_as_it_is_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who ends the comparison early keeps what there is."""
    begun: list[str] = []

    def workload(name: str) -> against.Costs:
        begun.append(name)
        return {"commands": 1.0}

    monkeypatch.setattr(
        against,
        "WORKLOADS",
        {
            "first": lambda *_: workload("first"),
            "second": lambda *_: workload("second"),
        },
    )
    lines = compare(cast("benchmarks.server.Server", None), "HEAD", [], 1)
    told = [next(lines) for _ in range(3)]
    assert told[2].startswith("| first | commands |")
    assert begun == ["first", "first"]
    assert next(lines).startswith("| second | commands |")


@pytest.mark.parametrize(
    "options",
    [
        ["--against", "HEAD", "--only", "core"],
        ["--workload", "drain"],
        ["--against", "HEAD", "--instructions", "--workload", "drain"],
    ],
)
def test_a_choice_that_would_be_ignored_is_refused(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmarks.run", *options])
    with pytest.raises(SystemExit):
        run.main()
    assert "--workload" in capsys.readouterr().err


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="needs valgrind")
def test_instructions_of_the_server_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Twice the jobs execute twice the instructions: nothing of before is counted."""
    with (
        Placement(free=True) as placement,
        Bench(find_binary("auto"), placement, counting=True) as server,
    ):
        monkeypatch.setenv("BENCH_URL", server.url)
        monkeypatch.setenv(OUTPUT, str(server.counts))
        work = WORK["batches of 50"]()
        work(100)
        once, twice = measured(work, 100), measured(work, 200)
    assert "server µs" not in once
    assert once["instructions"] > 50_000
    assert twice["instructions"] == pytest.approx(once["instructions"], rel=0.3)


@pytest.mark.parametrize(
    "what", [what for what in WORK if what not in (".delay()", "enqueue_many")]
)
def test_workloads_complete_their_jobs(
    server: Server, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setenv("BENCH_URL", server.url)
    costs = measured(WORK[what](), 50)
    assert costs["commands"] > 3
    assert costs["bytes in"] > 50
    client = server.client()
    assert client.zcard("ql:completed") == 50
    assert client.zcard("ql:q:bench-work") == client.zcard("ql:q:bench-locks") == 0
