"""A call that has been sent, and whose reply is read later.

The server works on it while the caller does something else, and the reply waits in the
socket. A lost reply is requested again when the result is read, as that of any call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from .calls import drive
from .retry import FAILURES, insist
from .waiting import single

if TYPE_CHECKING:
    from .calls import Request
    from .client import Client

T = TypeVar("T")


class PendingCall(Generic[T]):
    """A call of a Client, sent when this is made; read its `result()` once."""

    def __init__(self, client: Client, request: Request[T]) -> None:
        self._call = single(request)
        self._script, self._patience = client.script, client.patience
        self._connection = client.pool.take(client.patience)
        self._give_back = client.pool.giver()
        self._request_id = self._connection.next_request()
        self._error: BaseException | None = None
        #: Whether the request had to be sent again.
        self.was_repeated = False
        message = self._script.request(self._call, self._request_id)
        try:
            self._connection.send(message)
        except FAILURES as error:
            self._error = error
        except BaseException:
            self._give_back(self._connection)
            raise

    def result(self) -> T:
        """Wait for the reply and return the call's result; raise as Client.run does."""
        try:
            try:
                if self._error:
                    raise self._error
                reply = self._connection.receive()
            except FAILURES as error:
                self.was_repeated = True
                reply = drive(
                    insist(
                        *(error, self._connection, self._script),
                        *(self._call, self._request_id, self._patience),
                    )
                )
        finally:
            self._give_back(self._connection)
        decode = self._call.decode
        result: T = reply if decode is None else decode(reply)
        return result
