"""What is sent as a whole: a batch of jobs or payloads, a workflow, a change of a schedule."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from django_qless.conf.connections import connections
from django_qless.core.request import Steps, adrive, drive
from django_qless.outbox.delivery import parts_of
from django_qless.signals import job_enqueued

if TYPE_CHECKING:
    from django_qless.core import Put
    from django_qless.core.request import Command
    from django_qless.job_types.commit import AwaitsCommit
    from django_qless.job_types.handle import JobHandle
    from django_qless.outbox.delivery import Delivery


class Dispatchable:
    """Something that is sent by one request, now or on commit.

    A subclass says what it is, and implements `_request` and `_sending`.
    """

    #: The delivery that its calls are, if it comes out of an outbox.
    through: Delivery | None = None
    #: True if it can only be sent at once: it belongs to a run that goes on.
    needs_server: ClassVar[bool] = False

    @property
    def outbox(self) -> bool:
        """True if it waits for a commit in the outbox of its database."""
        raise NotImplementedError

    @property
    def alias(self) -> str:
        """The alias of QLESS that it goes to."""
        raise NotImplementedError

    @property
    def title(self) -> str:
        """What it is, for people."""
        raise NotImplementedError

    @property
    def handles(self) -> Sequence[JobHandle[Any]]:
        """The handles of its jobs, in their order; none for a schedule."""
        return []

    @property
    def awaiting(self) -> Sequence[AwaitsCommit]:
        """The handles of what waits for a commit until it is sent."""
        return self.handles

    def puts(self) -> list[Put]:
        """Return its jobs as Puts, as of now, in the order of the handles."""
        return []

    def commands(self) -> Iterable[Command[Any]]:
        """Return the calls that send it, as of now."""
        return parts_of(self._request())

    def send(self) -> None:
        """Send it; bring its handles up to date. Raises what the server refuses."""
        drive(self._sending(connections[self.alias], job_enqueued.send))

    async def asend(self) -> None:
        """Send it from asynchronous code."""
        client = connections.aclient(self.alias)
        await adrive(self._sending(client, job_enqueued.asend))

    def send_on_commit(self) -> None:
        """Send it on commit: the caller can no longer handle a refusal."""
        self.send()

    def mark_enqueued(self) -> None:
        """Note that its jobs are enqueued, each under the jid of its handle."""
        raise NotImplementedError

    def _request(self) -> Any:
        """Return the request that sends it, as of now."""
        raise NotImplementedError

    def _sending(self, client: Any, announce: Callable[..., Any]) -> Steps[None]:
        """Send it with a client; `announce` sends the signal that a job is enqueued."""
        raise NotImplementedError
