"""The rounds of workers, as the machines make them: runs that end, jobs that are next."""

from __future__ import annotations

from typing import Any, NamedTuple

from hypothesis import strategies as st

from tests.core.caller import flat
from tests.core.keyed import settlement
from tests.core.machines.job import Job, Refused
from tests.core.machines.machine import Machine


class End(NamedTuple):
    """What is to become of a run: a verb of settle with its arguments."""

    jid: str
    token: str
    verb: tuple[Any, ...]

    def parts(self) -> list[Any]:
        """Return it as the wire has it."""
        texts = [flat({"": v})[1] if isinstance(v, list) else v for v in self.verb]
        return settlement(self.jid, self.token, *texts)


class Runner(Machine):
    """A machine that settles and reserves."""

    #: Draws a verb with its arguments.
    verbs: st.SearchStrategy[tuple[Any, ...]]

    def start(self) -> None:
        self.stale: list[tuple[str, str]] = []  # jid and token of former runs

    def running(self) -> list[Job]:
        return [job for job in self.model if job.state == "running"]

    def is_held(self, jid: str, token: str) -> bool:
        job = self.model.jobs.get(jid)
        return job is not None and (job.state, job.token) == ("running", token)

    def draw_end(self, data: st.DataObject) -> End:
        """Draw the end of a running job, sometimes by a former holder."""
        running = {job.jid: job.token for job in self.running()}
        held = list(running.items())
        if not held or (
            self.stale and data.draw(st.sampled_from([False] * 5 + [True]))
        ):
            again = [former for former in self.stale if former[0] in running]
            held = again or self.stale[-3:] or [("j0", "999")]
        jid, token = data.draw(st.sampled_from(held))
        return End(jid, token, data.draw(self.verbs))

    def round(self, ends: list[End], count: int, names: list[str], worker: str) -> None:
        """End runs and reserve jobs in one call."""

        def call() -> Any:
            parts = [end.parts() for end in ends]
            return self.wire.settle(parts, count, names, worker=worker)

        try:
            links = self.links_of_moves(ends)
        except Refused as refusal:
            self.refused(refusal.codes, call)
            return
        refused = self.end_runs(ends, links)
        settled = call()
        told = [(jid, code) for jid, code, _ in settled.refused]
        assert told == refused, f"refused {told} instead of {refused}"
        self.handed_out(names, count, worker, settled.jobs)

    def links_of_moves(self, ends: list[End]) -> list[list[str]]:
        """Return what the jobs will wait for that are moved: it is checked first."""
        planned, links = dict[str, list[str]](), list[list[str]]()
        for jid, _, verb in ends:
            links.append([])
            if verb[0] == "move":
                job = self.model.jobs.get(jid, Job(jid))
                others = verb[3] if len(verb) > 3 else []
                links[-1] = self.model.open(others, job.on_failure, old=False)
                planned[jid] = links[-1]
                self.model.refuse_cycle(planned)
        return links

    def end_runs(
        self, ends: list[End], links: list[list[str]]
    ) -> list[tuple[str, str]]:
        """End runs in the model; return which settlements are refused, and the codes.

        The record of an entity that is erased goes at the end of the call.
        """
        refused, complete, ended = [], [], set[str]()
        for (jid, token, verb), others in zip(ends, links, strict=True):
            try:
                job = self.model.held(jid, token=token)
            except Refused as refusal:
                refused.append((jid, "LOCKLOST" if jid in ended else refusal.codes[0]))
                continue
            if code := self.refusal(job, verb):
                refused.append((jid, code))
                continue
            self.stale.append((jid, token))
            ended.add(jid)
            self.end_run(job, verb, others)
            complete += [job] * (verb[0] == "complete")
        self.model.release(complete)
        return refused

    def refusal(self, job: Job, verb: tuple[Any, ...]) -> str | None:
        """Return the code with which this end of a run is refused, or None."""
        return None

    def end_run(self, job: Job, verb: tuple[Any, ...], links: list[str]) -> None:
        name, *given = verb
        if name == "complete":
            self.model.complete(job, *given[:1])
        elif name == "fail":
            self.model.fail(job, given[0])
        elif name == "retry":
            self.model.retry(job, *given[:2])
        elif name == "release":
            self.model.hand_back(job, given[0])
        elif name == "crash":
            self.model.crash(job, *given[:2])
        else:
            self.model.advance(job, *given[:2], links)

    def handed_out(
        self, names: list[str], count: int, worker: str, jobs: list[dict[str, str]]
    ) -> None:
        """See that these jobs are the next ones, and let them run."""
        self.hand_out(names, count, worker, [(j["jid"], j["token"]) for j in jobs])
        for told in jobs:
            job = self.model.jobs[told["jid"]]
            numbers = [float(told[n]) for n in ("retries", "remaining", "priority")]
            assert numbers == [job.retries, job.remaining, job.priority]
            assert (told["queue"], told["data"]) == (job.queue, self.told_data(job))

    def told_data(self, job: Job) -> str:
        """Return the data that a worker gets."""
        return job.data

    def hand_out(
        self, names: list[str], count: int, worker: str, told: list[tuple[str, str]],
        *, old: bool = False,
    ) -> None:  # fmt: skip
        for name in self.all_queues if names == ["*"] else names:
            if count:
                count -= self.model.take(name, count, worker, told, old=old)
        assert told == [], f"handed out for no reason: {told}"
