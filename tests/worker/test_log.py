"""One line per event, the same in its text and in its attributes."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

from django_qless.core import ConnectionLost, JobNotFound
from django_qless.worker import log


@pytest.fixture
def records(monkeypatch):
    """What has been logged since."""
    heard: list[logging.LogRecord] = []

    class Ear(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            heard.append(record)

    ear = Ear()
    monkeypatch.setattr(log, "_common", {})
    level = log.logger.level
    # (What is enabled is remembered until a level is set.)
    log.logger.setLevel(log.CALLS)
    log.logger.addHandler(ear)
    yield heard
    log.logger.removeHandler(ear)
    log.logger.setLevel(level)


def test_the_text_and_the_attributes_say_the_same(records):
    log.set_worker_name("w1")
    log.log_event(logging.INFO, "done", queue="mail", jid="a", seconds=0.123456789)
    (record,) = records
    assert record.getMessage() == "done worker=w1 queue=mail jid=a seconds=0.123457"
    assert record.action == "done"
    assert record.fields == {
        "worker": "w1",
        "queue": "mail",
        "jid": "a",
        "seconds": 0.123456789,
    }


def raised(kind):
    """Return such an error, with its traceback."""
    try:
        raise kind("odd")
    except Exception as error:  # noqa: BLE001
        return error


@pytest.mark.parametrize("kind", [TypeError, KeyError, UnboundLocalError])
def test_an_error_that_nobody_expects_is_shown_with_its_traceback(records, kind):
    log.log_event(logging.WARNING, "call failed", error=raised(kind))
    (record,) = records
    first, report, *rest = record.getMessage().splitlines()
    assert first.startswith("call failed error=")
    assert report == log.REPORT
    assert "in raised" in "".join(rest)
    assert rest[-1].startswith(f"{kind.__name__}: ")
    # Its frames would show arguments.
    assert record.exc_info is None


@pytest.mark.parametrize("kind", [ConnectionLost, JobNotFound, OSError, ValueError])
def test_an_error_of_a_server_or_a_system_is_a_line(records, kind):
    log.log_event(logging.WARNING, "call failed", error=raised(kind))
    (record,) = records
    assert "\n" not in record.getMessage()


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("two words", '"two words"'),
        ("", '""'),
        ("a=b", '"a=b"'),
        ('say "x"', r'"say \"x\""'),
        ("ä", "ä"),
        ("zwei ä", '"zwei ä"'),
        ("line\nINFO started worker=w2", r'"line\nINFO started worker=w2"'),
        ("\x1b[2J", r'"\u001b[2J"'),
        ("\udce9", r'"\udce9"'),
    ],
)
def test_no_value_breaks_out_of_its_line(records, value, shown):
    log.log_event(logging.INFO, "failed", klass=value)
    assert records[0].getMessage() == f"failed klass={shown}"


@pytest.mark.parametrize(
    ("verbosity", "heard"),
    [(0, "error"), (1, "error info"), (2, "error info debug"), (3, "all four")],
)
def test_the_verbosity_says_what_is_shown(verbosity, heard):
    code = (
        "import logging\n"
        "from django_qless.worker import log\n"
        f"log.configure_logging({verbosity})\n"
        "for level in (logging.ERROR, logging.INFO, logging.DEBUG, log.CALLS):\n"
        "    log.log_event(level, 'x')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    levels = [line.split()[3] for line in done.stderr.splitlines()]
    expected = ["ERROR", "INFO", "DEBUG", "CALL"] if heard == "all four" else None
    assert levels == (expected or heard.upper().split())


def test_what_the_project_has_configured_is_left_alone():
    code = (
        "import logging, sys\n"
        "from django_qless.worker import log\n"
        "logging.basicConfig(format='mine %(action)s', level='INFO')\n"
        "log.configure_logging(3)\n"
        "log.log_event(logging.INFO, 'started')\n"
        "log.log_event(logging.DEBUG, 'done')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stderr == "mine started\n"
