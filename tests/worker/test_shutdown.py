"""The stages of a shutdown, and the signals that control a worker."""

from __future__ import annotations

import time

import pytest

from django_qless.worker.shutdown import (
    GRACE,
    SIGNALS,
    ControlCommand,
    Shutdown,
    Stage,
    signals_help,
)


class TestShutdown:
    def over(self, shutdown: Shutdown) -> None:
        """Let the time of the present stage be over."""
        assert shutdown.deadline is not None
        shutdown.deadline = time.monotonic()
        shutdown.advance()

    def test_first_drain_then_stop(self) -> None:
        shutdown = Shutdown(timeout=30)
        shutdown.request_stop()
        assert shutdown.stage is Stage.DRAINING
        assert shutdown.deadline is not None
        shutdown.request_stop()
        assert shutdown.stage is Stage.STOPPING

    def test_a_drain_has_its_time_then_jobs_are_told_then_killed(self) -> None:
        shutdown = Shutdown(timeout=30)
        shutdown.drain()
        shutdown.advance()
        assert shutdown.stage is Stage.DRAINING
        self.over(shutdown)
        assert shutdown.stage is Stage.INTERRUPTING
        assert shutdown.deadline is not None
        assert shutdown.deadline - time.monotonic() == pytest.approx(GRACE, abs=1)
        self.over(shutdown)
        assert shutdown.stage is Stage.STOPPING

    def test_the_grace_is_no_longer_than_the_timeout(self) -> None:
        shutdown = Shutdown(timeout=0.5)
        shutdown.drain()
        self.over(shutdown)
        assert shutdown.deadline is not None
        assert shutdown.deadline - time.monotonic() <= 0.5

    def test_without_time_it_stops_at_once(self) -> None:
        shutdown = Shutdown(timeout=0)
        shutdown.drain()
        shutdown.advance()
        assert shutdown.stage is Stage.STOPPING

    def test_a_drain_of_a_drain_changes_nothing(self) -> None:
        shutdown = Shutdown(timeout=30)
        shutdown.drain()
        deadline = shutdown.deadline
        shutdown.drain()
        shutdown.reload()
        assert (shutdown.stage, shutdown.deadline) == (Stage.DRAINING, deadline)
        assert not shutdown.reexec

    @pytest.mark.parametrize("limit", [None, 60.0])
    def test_a_reload_has_a_time_of_its_own(self, limit: float | None) -> None:
        shutdown = Shutdown(timeout=0, reload_timeout=limit)
        shutdown.reload()
        shutdown.reload()
        shutdown.advance()
        assert shutdown.stage is Stage.DRAINING
        assert (shutdown.deadline is None) == (limit is None)
        assert shutdown.reexec

    def test_a_reload_that_takes_too_long_is_one_all_the_same(self) -> None:
        shutdown = Shutdown(timeout=0, reload_timeout=0)
        shutdown.reload()
        shutdown.advance()
        assert shutdown.stage is Stage.STOPPING
        assert shutdown.reexec

    def test_who_wants_an_end_during_a_reload_gets_it(self) -> None:
        shutdown = Shutdown(timeout=30)
        shutdown.reload()
        shutdown.request_stop()
        assert (shutdown.stage, shutdown.reexec) == (Stage.DRAINING, False)
        assert shutdown.deadline is not None
        assert shutdown.deadline - time.monotonic() == pytest.approx(30, abs=1)
        shutdown.request_stop()
        assert shutdown.stage is Stage.STOPPING

    def test_who_wants_an_end_after_a_long_reload_gets_it_at_once(self) -> None:
        shutdown = Shutdown(timeout=30, reload_timeout=0)
        shutdown.reload()
        shutdown.advance()
        assert shutdown.stage is Stage.INTERRUPTING
        shutdown.request_stop()
        assert (shutdown.stage, shutdown.reexec) == (Stage.STOPPING, False)
        assert shutdown.deadline is None

    def test_its_state_in_a_word(self) -> None:
        shutdown = Shutdown(timeout=0.5)
        words = [shutdown.state]
        shutdown.quiet = True
        words.append(shutdown.state)
        shutdown.request_stop()
        words.append(shutdown.state)
        self.over(shutdown)
        words.append(shutdown.state)
        assert words == ["running", "quiet", "draining", "stopping"]

    def test_the_table_is_shown(self) -> None:
        lines = signals_help().splitlines()
        for known, order in SIGNALS.items():
            (line,) = [line for line in lines if known.name.removeprefix("SIG") in line]
            assert len(line.split(maxsplit=1)) == 2
            assert order in ControlCommand
