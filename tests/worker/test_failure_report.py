"""Failure groups and messages."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from django_qless.exceptions import Fail, JobTimeout
from django_qless.worker import failure_report
from django_qless.worker.failure_policy import retry_delay
from django_qless.worker.interrupt import ThreadScope


def raised(make: Any) -> BaseException:
    try:
        make()
    except BaseException as error:  # noqa: BLE001
        return error
    raise AssertionError("nothing was raised")


class TestFailureReport:
    def test_the_group_is_the_class_of_the_exception(self) -> None:
        assert failure_report.group_of(ValueError("x")) == "ValueError"
        assert failure_report.group_of(JobTimeout(3)) == "timeout"

    @pytest.mark.parametrize("group", [3, ""])
    def test_a_group_that_is_no_text_is_not_taken(self, group: object) -> None:
        error = ValueError()
        error.group = group  # type: ignore[attr-defined]
        assert failure_report.group_of(error) == "ValueError"

    def test_the_message_is_a_traceback(self) -> None:
        message = failure_report.message_of(raised(lambda: {}["key"]))
        assert message.startswith("Traceback (most recent call last):")
        assert message.endswith("KeyError: 'key'\n")

    def test_it_begins_with_the_users_code(self) -> None:
        def rule(attempt: int, error: BaseException) -> float:
            return 1 / 0

        error = raised(lambda: retry_delay(rule, 1, KeyError()))
        assert "in retry_delay" in failure_report.message_of(error)
        # Without our own two frames, the first is one of django_qless.
        error.__traceback__ = error.__traceback__.tb_next.tb_next  # type: ignore[union-attr]
        message = failure_report.message_of(error)
        assert "in retry_delay" not in message
        assert "in rule" in message

    def test_it_has_the_frames_of_a_job_that_ran_another_one(self) -> None:
        def inner() -> float:
            return 1 / 0

        def outer() -> float:
            return ThreadScope("2", None).run(inner)

        error = raised(lambda: ThreadScope("1", None).run(outer))
        message = failure_report.message_of(error)
        assert "in outer" in message
        assert "in inner" in message

    def test_a_long_message_keeps_its_end(self) -> None:
        message = failure_report.truncate("ä" * 100_000 + "the end")
        assert len(message.encode()) <= 64 * 1024
        assert message.startswith("[the beginning is left out]")
        assert message.endswith("äthe end")

    def test_what_utf8_cannot_carry_is_written_out(self) -> None:
        assert failure_report.truncate("\udce9") == "\\udce9"

    def test_an_exception_that_cannot_be_shown(self) -> None:
        class Hostile(Exception):
            def __str__(self) -> str:
                raise RuntimeError("no")

        assert "Hostile" in failure_report.message_of(raised(lambda: raise_(Hostile())))

    def test_a_request_has_the_text_of_its_cause(self) -> None:
        def fail() -> None:
            try:
                raise KeyError("key")
            except KeyError as error:
                raise Fail("group", "no file") from error

        message = failure_report.message_from_job(raised(fail))  # type: ignore[arg-type]
        assert message.startswith("no file\n\nTraceback (most recent call last):")
        assert message.endswith("KeyError: 'key'\n")

    @pytest.mark.parametrize(
        ("status", "words"),
        [
            (3, "exited with code 3"),
            (-signal.SIGSEGV, "signal 11 (SIGSEGV)"),
            (-signal.SIGKILL, "(SIGKILL). Out of memory?"),
            (-63, "killed by signal 63"),
        ],
    )
    def test_a_death_is_told(self, status: int, words: str) -> None:
        assert words in failure_report.crash_message(1234, status)


def raise_(error: BaseException) -> None:
    raise error
