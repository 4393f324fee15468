"""Errors in the user's language: by their class, and by the pattern of their words.

The core and its client speak English. What they say on pages is looked up here: a text
that is not known, such as that of the operating system, stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from django.utils.translation import gettext, gettext_noop
from django.utils.translation import gettext_lazy as _

from django_qless.admin import formatting
from django_qless.core import exceptions
from django_qless.exceptions import InvalidOption, UnserialisableArgument

if TYPE_CHECKING:
    from django.utils.functional import _StrOrPromise

#: What each class means, and the remedy: the docstrings of these classes.
EXPLANATIONS: dict[type[exceptions.QlessError], _StrOrPromise] = {
    exceptions.QlessError: _("The call failed."),
    exceptions.BadArgument: _("Nothing was written."),
    exceptions.TooBig: _(
        "Nothing was written. Split the call, or keep the value elsewhere and pass a "
        "reference to it."
    ),
    exceptions.JobNotFound: _(
        "The job was cancelled, has expired after its completion, or was never put."
    ),
    exceptions.ScheduleNotFound: _(
        "The schedule was removed, or was never made: nothing was changed. Check the "
        "id against the list of schedules."
    ),
    exceptions.WorkerNotFound: _(
        "No worker of this name has been seen lately: nothing was changed. Check the "
        "name against the list of workers."
    ),
    exceptions.LockLost: _(
        "The lock on the job has expired or was taken away, and another worker may "
        "hold it by now: nothing was changed. Stop working on it; heartbeats keep a "
        "lock."
    ),
    exceptions.WrongState: _(
        "Its present state does not allow this: nothing was changed. Look at it again "
        "before you decide what to do."
    ),
    exceptions.HasDependents: _(
        "Other jobs wait for this one and would wait for ever: nothing was changed. "
        "Name them in the same call, or free them with depends_off first."
    ),
    exceptions.DependencyCycle: _(
        "The job would wait for itself, directly or through others: nothing was "
        "changed."
    ),
    exceptions.DuplicateJob: _(
        "Another job holds the unique key: nothing was written. `jid` of this error is "
        'its id. With the conflict option (on_conflict of @job) "keep" its handle is '
        'returned, with "replace" it is overwritten.'
    ),
    exceptions.StaleRequest: _(
        "A newer request with the same client id has been answered already. One client "
        "id must have only one request under way."
    ),
    exceptions.UnknownCommand: _(
        "The Lua core on the server does not know this command. It is probably another "
        "version."
    ),
    exceptions.CoreFailed: _(
        "The Lua core failed with an internal error. This is a defect of django_qless: "
        "please report it with this text."
    ),
    exceptions.ServerError: _("The server refused the call."),
    exceptions.ConnectionLost: _(
        "The server did not answer. A change was made once, or not at all: it is not "
        "known which. Check that the server is running and that its address is right."
    ),
    exceptions.NotReached: _(
        "No connection to the server could be opened: nothing was sent, and nothing "
        "was changed. Check that the server is running and that its address is right."
    ),
    exceptions.ReadLost: _(
        "The server did not answer a call that only reads: nothing was changed. Check "
        "that the server is running and that its address is right."
    ),
    exceptions.ServerBusy: _(
        "The server was loading, failing over or running a script for too long. "
        "Nothing was written; try again later."
    ),
    exceptions.TooFewReplicas: _(
        "Fewer replicas follow the server than its min-replicas-to-write asks for: "
        "nothing was written. Bring the replicas back, or lower that number."
    ),
    exceptions.ReadOnlyServer: _(
        "The server is a read-only replica: nothing was written. Connect to the "
        "primary."
    ),
    exceptions.NotReplicated: _(
        "The job is there, and workers run it; but if the primary fails now, it may be "
        "lost. `repeat()` of this error sends the same request again and waits again; "
        "nothing is enqueued twice. Check that the replicas are connected."
    ),
    exceptions.ServerFull: _(
        "The server is out of memory: nothing was written. Raise its maxmemory, or let "
        "workers finish jobs, which is possible on a full server."
    ),
    exceptions.CannotPersist: _(
        "The server cannot save its data and refuses writes: nothing was written. Look "
        "at its disk and its log."
    ),
    exceptions.NotAuthenticated: _(
        "The server does not accept the user name or the password of the connection. "
        "Correct them in the server's address or in its options."
    ),
    exceptions.NotPermitted: _(
        "The server's ACL does not permit this: docs/permissions.md has all that its "
        "user needs."
    ),
    exceptions.ServerTooOld: _(
        "Redis 7.0, Valkey 8 or newer is needed; Redis 6.2 works with the engine "
        '"script".'
    ),
    exceptions.UnsupportedFormat: _(
        "What the namespace stores has a format that this version of django_qless "
        "cannot read: nothing was written. Upgrade what still runs an older version, "
        "or, where the format is too old, drain the namespace with the version that "
        "has written it."
    ),
    exceptions.ClusterRefused: _(
        "The server belongs to a cluster and another node holds these keys: name its "
        "nodes in CLUSTER. Or CLUSTER names a server that is not in cluster mode: use "
        "LOCATION."
    ),
    exceptions.PoolExhausted: _(
        "All connections are in use and none became free. Raise max_connections, or "
        "make fewer calls at the same time."
    ),
    InvalidOption: _("Nothing was enqueued."),
    UnserialisableArgument: _("Nothing was enqueued."),
}

#: What has happened, as the core, its client and the checks of values say it.
DETAILS = (
    gettext_noop("Job %(jid)s does not exist"),
    gettext_noop("Job %(jid)s exists already"),
    gettext_noop("Job %(jid)s has not failed: it is %(state)s"),
    gettext_noop("Job %(jid)s not running but %(state)s"),
    gettext_noop("Job %(jid)s is complete"),
    gettext_noop("Job %(jid)s is not in the depends state"),
    gettext_noop("Job %(jid)s would wait for itself: %(path)s"),
    gettext_noop(
        "%(jid)s is a dependency of %(dependent)s but is not mentioned to be canceled"
    ),
    gettext_noop(
        "The unique key %(key)s of job %(jid)s belongs to job %(other)s, which is "
        "%(state)s"
    ),
    gettext_noop("The unique key %(key)s of job %(jid)s belongs to job %(other)s"),
    gettext_noop("Schedule %(id)s does not exist"),
    gettext_noop("Schedule %(id)s: Its field %(field)s cannot be read: %(text)s"),
    gettext_noop("Worker %(worker)s is not known"),
    gettext_noop("Workflow %(id)s is being canceled"),
    gettext_noop("Queue %(queue)s is in use: %(found)s"),
    gettext_noop("Option or value is too long"),
    gettext_noop(
        "the namespace stores format %(format)s, this build of django_qless reads "
        "%(oldest)s to %(newest)s: upgrade the workers and web processes that still run "
        "this build"
    ),
    gettext_noop(
        "the namespace stores format %(format)s, this build of django_qless reads "
        "%(oldest)s to %(newest)s: let workers of the build before drain it first"
    ),
    gettext_noop("%(what)s must not be empty"),
    gettext_noop("%(what)s has more than %(most)s bytes: %(value)s"),
    gettext_noop("%(what)s has %(size)s bytes, at most %(most)s are allowed"),
    gettext_noop("%(number)s %(what)s given, at most %(most)s are allowed"),
    gettext_noop("%(what)s must be one of %(known)s, not %(value)s"),
    gettext_noop("queue must name one queue, without * and ?, not %(value)s"),
    gettext_noop("jid must not end in %(known)s: %(value)s"),
    gettext_noop("jid must be an id, or its beginning and a *, not %(value)s"),
    gettext_noop(
        "jobs of the group %(group)s have failed: none has the state %(state)s"
    ),
    gettext_noop(
        "a completed job is in no queue: leave out the queue %(queue)s, or look for the "
        "job's name"
    ),
    gettext_noop(
        "jobs that the worker %(worker)s holds are running or stalled: none has the "
        "state %(state)s"
    ),
    gettext_noop("state must be %(state)s to %(change)s jobs, not %(value)s"),
    gettext_noop(
        "canceled jobs are gone and nothing can %(change)s them: put one again on its "
        "own page"
    ),
    gettext_noop("an entity must be a text of 1 to %(most)s bytes, not %(value)s"),
    gettext_noop("%(number)s entities are selected, at most %(most)s can be"),
    gettext_noop("There is no job %(jid)s in alias %(alias)s"),
    gettext_noop(
        "%(whose)s: it is in alias %(alias)s, and QLESS_ROUTES has the queue %(queue)s in "
        "alias %(there)s. %(remedy)s"
    ),
    # Of schedules.
    gettext_noop("cron %(cron)s never ticks: there is no such day"),
    gettext_noop("cron %(cron)s never ticks: its months have no such day"),
    gettext_noop("cron %(cron)s cannot be read: its %(field)s is wrong"),
    gettext_noop("cron %(cron)s is none of %(known)s"),
    gettext_noop("cron has %(size)s characters, at most %(most)s"),
    gettext_noop(
        "cron %(cron)s has %(number)s fields, but five are needed: %(fields)s"
    ),
    gettext_noop(
        "time zone %(zone)s is unknown: name one such as 'Europe/Berlin' or 'UTC'"
    ),
    # Of calls: inspect.Signature says it.
    gettext_noop("missing a required argument: %(value)s"),
    gettext_noop("missing a required keyword-only argument: %(value)s"),
    gettext_noop("too many positional arguments"),
    gettext_noop("got an unexpected keyword argument %(value)s"),
    gettext_noop("multiple values for argument %(value)s"),
)

#: What comes before: the command of the core, the job or the schedule that it is about.
PREFIX = re.compile(r"[\w.]+\(\): |\S+\(.*?\): |\w+: ", re.DOTALL)

#: The end of NotPermitted.
ADDS = re.compile(r"(ACL SETUSER [^.]*) adds it\.$")

WORDS = {
    "queue": _("queue"),
    "tag": _("tag"),
    "tags": _("tags"),
    "minute": _("minute"),
    "hour": _("hour"),
    "day of the month": _("day of the month"),
    "day-of-month": _("day of the month"),
    "month": _("month"),
    "day of the week": _("day of the week"),
    "day-of-week": _("day of the week"),
}


def error_text(error: Exception) -> str:
    """Return what str(error) says, in the user's language."""
    if not isinstance(error, exceptions.QlessError):
        return detail_text(str(error))
    explanation, detail = type(error).explanation(), error.detail.rstrip()
    text = str(error)
    for english, translated in (
        (explanation, EXPLANATIONS.get(type(error), explanation)),
        (detail, detail_text(detail)),
        (
            f"The {error.done} items before it were processed.",
            gettext("The %(number)s items before it were processed.")
            % {"number": error.done},
        ),
    ):
        if english:
            text = text.replace(english, str(translated), 1)
    return ADDS.sub(lambda found: gettext("%s adds it.") % found[1], text)


def detail_text(text: str) -> str:
    """Return what has happened in the user's language, or as it is if it is not known."""
    prefix = PREFIX.match(text)
    before, said = ("", text) if prefix is None else (prefix[0], text[prefix.end() :])
    bare = said.removesuffix(".")
    for template, pattern in _patterns():
        if found := pattern.fullmatch(bare):
            values = {
                name: _VALUES.get(name, str)(value)
                for name, value in found.groupdict().items()
            }
            end = said[len(bare) :]
            return f"{before}{gettext(template) % values}{end}"
    return text


@cache
def _patterns() -> list[tuple[str, re.Pattern[str]]]:
    """Return each of DETAILS with the pattern of its texts."""
    return [
        (
            template,
            re.compile(
                re.sub(r"%\\\((\w+)\\\)s", r"(?P<\1>.+)", re.escape(template)),
                re.DOTALL,
            ),
        )
        for template in DETAILS
    ]


def _word(text: str) -> str:
    return str(WORDS.get(text, text))


def _in_use(text: str) -> str:
    """Return `2 waiting, 1 recurring` in the user's language."""
    parts = [part.partition(" ") for part in text.split(", ")]
    return ", ".join(f"{number} {_states(words)}" for number, _, words in parts)


def _state(text: str) -> str:
    if text == "waiting for other jobs":
        return gettext("waiting for other jobs")
    return formatting.state(text)


def _states(words: str) -> str:
    if words == "running or stalled":
        return gettext("running or stalled")
    if words == "dependent":
        return gettext("dependent")
    return formatting.state(words)


_VALUES: dict[str, Callable[[str], str]] = {
    "state": _state,
    "found": _in_use,
    "what": _word,
    "field": _word,
    "remedy": lambda text: gettext(f"{text}.").removesuffix("."),
    "fields": lambda text: ", ".join(map(_word, text.split(", "))),
}
