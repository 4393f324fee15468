"""The remedy for each error, without a server: tests answer each step themselves."""

from __future__ import annotations

from typing import Any, cast

import pytest
from redis import exceptions as theirs

from django_qless.core import exceptions as ours
from django_qless.core import retry
from django_qless.core.connection import pack_command
from django_qless.core.request import Command, Steps
from django_qless.core.retry import (
    code_of,
    is_lasting,
    note_not_sent,
    repeat_request,
    to_qless_error,
)
from django_qless.core.script import Library, Script

CALL: Command[Any] = Command("put", ("x",), "write")
LIBRARY = Library("return 1")


class Said:
    """A connection whose steps are yielded as they are, and not done."""

    def exchange(self, request: bytes) -> Steps[Any]:
        return (yield request)

    def pause(self, seconds: float) -> float:
        return seconds

    def __init__(self, *, is_of_cluster: bool = False) -> None:
        self.is_of_cluster = is_of_cluster

    def hang_up(self) -> str:
        return "hang up"

    leave = hang_up

    def follow(self, moved: Exception) -> str:
        return f"follow {moved}"


def conversation(error: Exception, seconds: float = 10) -> tuple[Script, Steps[Any]]:
    """Return a conversation that begins with this error."""
    script = Script("ql:", LIBRARY)
    return script, repeat_request(error, Said(), script, CALL, "me:7", seconds)


def finish(steps: Steps[Any], reply: Any) -> Any:
    """Give the last step its reply and return the conversation's result."""
    with pytest.raises(StopIteration) as end:
        steps.send(reply)
    return end.value.value


@pytest.mark.parametrize(
    ("error", "code", "raised"),
    [
        (theirs.ResponseError("BADARG put(): no"), "BADARG", ours.BadArgument),
        (theirs.ResponseError("NOJOB get(): x"), "NOJOB", ours.JobNotFound),
        (theirs.ResponseError("LOCKLOST x"), "LOCKLOST", ours.LockLost),
        (theirs.ResponseError("STATE x"), "STATE", ours.WrongState),
        (theirs.ResponseError("DEPENDENTS x"), "DEPENDENTS", ours.HasDependents),
        (theirs.ResponseError("CYCLE x"), "CYCLE", ours.DependencyCycle),
        (theirs.ResponseError("TOOBIG x"), "TOOBIG", ours.TooBig),
        (theirs.ResponseError("STALE x"), "STALE", ours.StaleRequest),
        (theirs.ResponseError("NOCOMMAND x"), "NOCOMMAND", ours.UnknownCommand),
        (theirs.ResponseError("FORMAT x"), "FORMAT", ours.UnsupportedFormat),
        (theirs.OutOfMemoryError("command not allowed"), "OOM", ours.ServerFull),
        (theirs.AuthenticationError("x"), "NOAUTH", ours.NotAuthenticated),
        (theirs.ResponseError("MISCONF disk"), "MISCONF", ours.CannotPersist),
        (theirs.ResponseError("WRONGPASS x"), "WRONGPASS", ours.NotAuthenticated),
        (theirs.MovedError("1 127.0.0.1:7000"), "MOVED", ours.ClusterRefused),
        (theirs.ClusterCrossSlotError("x"), "CROSSSLOT", ours.ClusterRefused),
        (theirs.ResponseError("user_function:3: boom"), "COREFAILED", ours.CoreFailed),
        (theirs.ResponseError("DB index is out of range"), "ERR", ours.ServerError),
    ],
)
def test_errors_that_would_be_the_same_next_time_are_raised(
    error: Exception, code: str, raised: type[ours.QlessError]
) -> None:
    assert code_of(error) == code
    _, steps = conversation(error)
    with pytest.raises(raised) as caught:
        next(steps)
    assert type(caught.value) is raised
    assert caught.value.__cause__ is error
    assert raised.explanation() in str(caught.value)


@pytest.mark.parametrize(
    "error",
    [
        theirs.ConnectionError("Connection closed by server."),
        theirs.TimeoutError("Timeout reading from socket"),
        theirs.BusyLoadingError("Redis is loading the dataset in memory"),
        theirs.ReadOnlyError("You can't write against a read only replica."),
        theirs.ResponseError("NOREPLICAS Not enough good replicas to write."),
        theirs.ResponseError("UNBLOCKED force unblock from blocking operation"),
        theirs.MasterDownError("Link with MASTER is down"),
        theirs.ClusterDownError("The cluster is down"),
        ConnectionResetError("reset"),
    ],
)
def test_a_lost_server_is_called_again_with_the_same_request(error: Exception) -> None:
    script, steps = conversation(error)
    assert next(steps) == "hang up"
    assert steps.send(None) == 0.0
    request = steps.send(None)
    assert request == script.request(CALL, "me:7")
    assert b"me:7" in request
    # The second failure is answered with a pause.
    assert steps.throw(error) == "hang up"
    assert 0 < steps.send(None) < 0.02
    assert steps.send(None) == request
    assert finish(steps, "reply") == "reply"


def test_in_a_cluster_the_same_request_goes_where_the_slot_is() -> None:
    script, moved = Script("ql:", LIBRARY), theirs.MovedError("1 a:7000")
    connection: Any = Said(is_of_cluster=True)
    steps = repeat_request(moved, connection, script, CALL, "me:7", 10)
    assert next(steps) == "follow 1 a:7000"
    assert steps.send(None) == 0.0
    assert steps.send(None) == script.request(CALL, "me:7")
    assert finish(steps, "reply") == "reply"


@pytest.mark.parametrize(
    "error",
    [
        theirs.ResponseError("BUSY Redis is busy running a script."),
        theirs.TryAgainError("Multiple keys request during rehashing"),
        theirs.AskError("1 127.0.0.1:7000"),
    ],
)
def test_a_server_that_is_not_ready_is_called_again(error: Exception) -> None:
    script, steps = conversation(error)
    assert next(steps) == 0.0
    assert steps.send(None) == script.request(CALL, "me:7")
    assert finish(steps, "reply") == "reply"


def test_pauses_grow_up_to_a_second_and_never_repeat_in_step() -> None:
    _, steps = conversation(theirs.ResponseError("BUSY x"), seconds=1e9)
    pauses = [next(steps)]
    for _ in range(12):
        steps.send(None)
        pauses.append(steps.throw(theirs.ResponseError("BUSY x")))
    assert pauses[0] == 0.0
    assert 0.5 <= pauses[-1] <= 1
    assert max(pauses) <= 1
    assert len(set(pauses[-4:])) == 4


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (theirs.ConnectionError("gone"), ours.ConnectionLost),
        (theirs.TimeoutError("slow"), ours.ConnectionLost),
        (theirs.BusyLoadingError("loading"), ours.ServerBusy),
        (theirs.ReadOnlyError("replica"), ours.ReadOnlyServer),
        (theirs.ResponseError("BUSY script"), ours.ServerBusy),
        (theirs.ResponseError("NOREPLICAS Not enough"), ours.TooFewReplicas),
    ],
)
def test_when_patience_ends_the_last_error_is_raised(
    error: Exception, raised: type[ours.QlessError]
) -> None:
    _, steps = conversation(error, seconds=-1)
    with pytest.raises(raised):
        next(steps)


def test_a_cluster_whose_nodes_do_not_agree_is_busy() -> None:
    """It is no mistake in the settings, which would keep a worker from starting."""
    script, moved = Script("ql:", LIBRARY), theirs.MovedError("1 a:7000")
    connection: Any = Said(is_of_cluster=True)
    steps = repeat_request(moved, connection, script, CALL, "me:7", -1)
    with pytest.raises(ours.ServerBusy, match="MOVED 1 a:7000"):
        next(steps)


@pytest.mark.parametrize(
    "last",
    [
        theirs.ClusterDownError("CLUSTERDOWN The cluster is down"),
        theirs.ReadOnlyError("replica"),
        theirs.MovedError("1 a:7000"),
    ],
)
def test_an_attempt_without_an_answer_is_not_forgotten(
    monkeypatch: pytest.MonkeyPatch, last: Exception
) -> None:
    """The last one wrote nothing, but the first may have been executed."""
    script, connection = Script("ql:", LIBRARY), Said(is_of_cluster=True)
    times = iter((0.0, 0.0, 100.0))
    monkeypatch.setattr(retry, "monotonic", lambda: next(times))
    lost: Any = theirs.ConnectionError("gone")
    steps = repeat_request(lost, cast("Any", connection), script, CALL, "me:7", 10)
    assert next(steps) == "hang up"
    assert steps.send(None) == 0.0
    assert steps.send(None) == script.request(CALL, "me:7")
    with pytest.raises(ours.ConnectionLost) as raised:
        steps.throw(last)
    assert type(raised.value) is ours.ConnectionLost


def test_a_missing_library_is_loaded_and_the_request_repeated() -> None:
    script, steps = conversation(theirs.ResponseError("Function not found"))
    assert next(steps) == pack_command("FUNCTION", "LOAD", LIBRARY.functions())
    assert steps.send(LIBRARY.name) == script.request(CALL, "me:7")
    assert finish(steps, "reply") == "reply"


def test_a_library_that_somebody_else_has_loaded_is_as_good() -> None:
    script, steps = conversation(theirs.ResponseError("Function not found"))
    next(steps)
    there = theirs.ResponseError(f"Library '{LIBRARY.name}' already exists")
    assert steps.throw(there) == script.request(CALL, "me:7")


@pytest.mark.parametrize(
    ("refusal", "raised"),
    [
        (theirs.NoPermissionError("User x has no permissions"), ours.NotPermitted),
        (theirs.ResponseError("unknown command 'FCALL'"), ours.ServerTooOld),
    ],
)
def test_who_may_not_call_functions_is_told_what_stands_in_the_way(
    refusal: Exception, raised: type[ours.QlessError]
) -> None:
    _, steps = conversation(refusal)
    with pytest.raises(raised):
        next(steps)


def test_a_core_that_vanishes_again_and_again_is_loaded_until_patience_ends() -> None:
    missing = theirs.ResponseError("Function not found")
    script, steps = conversation(missing)
    load = pack_command("FUNCTION", "LOAD", LIBRARY.functions())
    assert next(steps) == load
    steps.send(LIBRARY.name)
    for _ in range(5):
        assert isinstance(steps.throw(missing), float)
        assert steps.send(None) == load
        assert steps.send(LIBRARY.name) == script.request(CALL, "me:7")
    assert finish(steps, "reply") == "reply"


def test_an_error_during_loading_is_judged_like_any_other() -> None:
    script, steps = conversation(theirs.ResponseError("Function not found"))
    next(steps)
    assert steps.throw(theirs.ConnectionError("gone")) == "hang up"
    steps.send(None)
    assert steps.send(None) == script.request(CALL, "me:7")


def test_messages_name_what_happened_and_the_remedy() -> None:
    error = to_qless_error(theirs.ResponseError("NOJOB fail(): Job x does not exist"))
    assert error.detail == "fail(): Job x does not exist"
    assert str(error).startswith("fail(): Job x does not exist. The job was cancelled")
    assert str(ours.TooBig()) == ours.TooBig.explanation()
    assert str(ours.ServerFull("OOM", done=2)).endswith(
        "The 2 items before it were processed."
    )


def test_messages_are_sentences() -> None:
    class Plain(ours.QlessError):
        """It is plain."""

    assert str(Plain("what?")) == "what? It is plain."
    assert str(Plain("what! \n")) == "what! It is plain."
    assert str(Plain("and so on…")) == "and so on… It is plain."
    assert str(Plain("what.")) == "what. It is plain."
    assert str(Plain("what", done=1)) == (
        "what. It is plain. The 1 items before it were processed."
    )
    assert (Plain().done, Plain().detail) == (0, "")


@pytest.mark.parametrize(
    ("reads", "noted", "sent", "kind"),
    [
        (False, False, None, ours.ConnectionLost),
        (True, False, None, ours.ReadLost),
        (False, True, None, ours.NotReached),
        (True, True, None, ours.NotReached),
        (False, True, True, ours.ConnectionLost),
        (True, True, True, ours.ReadLost),
        (False, False, False, ours.NotReached),
    ],
)
def test_what_a_lost_connection_may_have_done(
    reads: bool, noted: bool, sent: bool | None, kind: type[ours.QlessError]
) -> None:
    for error in (theirs.ConnectionError("x"), theirs.TimeoutError("x"), OSError("x")):
        if noted:
            note_not_sent(error)
        assert type(to_qless_error(error, reads=reads, sent=sent)) is kind
    # Only of lost connections.
    assert (
        type(to_qless_error(theirs.BusyLoadingError("x"), sent=False))
        is ours.ServerBusy
    )


@pytest.mark.parametrize(
    ("error", "lasting"),
    [
        (theirs.NoPermissionError("x"), True),
        (theirs.AuthenticationError("x"), True),
        (theirs.ResponseError("WRONGPASS x"), True),
        (theirs.ResponseError("whatever"), True),
        (theirs.ResponseError("BUSY x"), False),
        (theirs.BusyLoadingError("x"), False),
        (theirs.MovedError("1 a:7000"), False),
        (theirs.ConnectionError("x"), False),
        (OSError("x"), False),
    ],
)
def test_which_errors_the_next_connection_would_meet_again(
    error: Exception, lasting: bool
) -> None:
    assert is_lasting(error) is lasting


def test_what_commands_begin_with_is_packed_once_but_for_the_clocks_of_tests() -> None:
    script = Script("ql:", LIBRARY)
    first = script.request(CALL, "me:1")
    assert list(script.starts) == [("put", "*", "write")]
    assert script.request(CALL, "me:1") == first
    script.now = 5.5
    assert script.request(CALL, "me:1") != first
    assert len(script.starts) == 1, "each time would be kept for good"
