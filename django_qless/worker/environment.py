"""What a worker asks of the world in which its jobs run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from django_qless.core import Client, Reserved
    from django_qless.current import CurrentJob
    from django_qless.registry import JobType


class Environment(Protocol):
    """The one place where a running job meets its framework.

    The worker knows queues, processes and time; an environment knows what a job's name
    stands for, how its arguments are read, and what has to be tidy around it.
    """

    def at_start(self) -> None:
        """Prepare the namespace for the worker that begins; the server has answered."""

    def resolve(self, klass: str) -> JobType | None:
        """Return the job type of this name, or None if it is unknown here."""

    def run(self, job_type: JobType, reserved: Reserved, current: CurrentJob) -> object:
        """Run the job's function; return its result, raise what it raises."""

    def encode_result(self, value: object) -> str:
        """Return the result as JSON text, "" for None; raise TypeError if it is none."""

    def client(self, alias: str) -> Client:
        """Return this process's client of the namespace called `alias`."""

    def before_fork(self) -> None:
        """Close what two processes must not share: database and Redis connections."""

    def after_fork(self) -> None:
        """Forget, in the new process, what belongs to the old one."""
