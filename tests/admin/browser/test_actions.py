"""Every action, done by clicking, against a worker that runs; and what came of it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.admin.browser.operating import ADD, Operator
from tests.admin.browser.scene import LIVE_QUEUE
from tests.admin.routes import routes
from tests.servers import poll

if TYPE_CHECKING:
    import subprocess
    from typing import Any

    from django_qless.core import Client, WorkerCounts
    from tests.admin.browser.scene import Scene
    from tests.admin.browser.visitor import Visitor

pytestmark = pytest.mark.xdist_group("actions")

WORKER, SECOND = "live-worker", "second-worker"
HOLDS = "tests.admin.browser.live_app.jobs.holds"
TIDIES = "tests.admin.browser.live_app.jobs.tidies"
FAILING = "tests.jobs_app.jobs.failing"
MANY = 600
"""Jobs: more than two chunks of a bulk action."""

Make = Callable[..., Operator]


@pytest.fixture(scope="module")
def done() -> set[str]:
    """The names of the routes whose actions were done, in all tests."""
    return set()


@pytest.fixture(scope="module")
def ran() -> set[str]:
    """The names of the tests that ran."""
    return set()


@pytest.fixture(scope="module")
def second(scene: Scene) -> subprocess.Popen[bytes]:
    """Another worker, which a test may end."""
    return scene.manage(
        *("qless_worker", "second", "--name", SECOND, "--pool", "threads")
    )


@pytest.fixture
def operator_with(
    scene: Scene,
    visit: Callable[..., Visitor],
    second: subprocess.Popen[bytes],
    done: set[str],
    ran: set[str],
    request: pytest.FixtureRequest,
) -> Iterator[Make]:
    """Makes operators whose browsers have options; none may have seen a fault."""
    visitors = []

    def make(**options: Any) -> Operator:
        visitor = visit(**options)
        visitors.append(visitor)
        return Operator(visitor, scene.client, done)

    yield make
    ran.add(request.node.originalname)
    faults = [fault for visitor in visitors for fault in visitor.faults]
    assert not faults, "\n".join(faults)


@pytest.fixture
def operator(operator_with: Make) -> Operator:
    """Somebody who may do everything."""
    return operator_with()


@pytest.fixture
def client(scene: Scene) -> Client:
    """What the test looks at the server with."""
    return scene.client


# One job


def test_retry(operator: Operator, client: Client) -> None:
    """The worker runs it again; when it has failed again, that shows."""
    args = '"Boom","no"'
    jid = operator.put("retry", LIVE_QUEUE, args, FAILING, retries=0)

    def failures() -> int:
        # Counted: the times of failures are whole seconds, and these two may share one.
        job = client.get(jid)
        assert job is not None
        return sum(each["what"] == "failed" for each in job.history)

    poll(lambda: failures() == 1, what="fails")
    operator.go("job", jid)
    operator.press("Retry")
    operator.told(f"Job {FAILING} is back in queue {LIVE_QUEUE}.")
    poll(lambda: failures() == 2, what="it runs again and fails again")
    # By itself.
    expect(operator.button("Retry")).to_be_visible()


def test_a_refusal(operator: Operator, client: Client) -> None:
    """What has changed since the page was loaded is told, and nothing is done."""
    jid = operator.put_failed("refused", "elsewhere", "Boom")
    operator.go("job", jid)
    client.revive_each([jid])
    operator.press("Retry")
    operator.refused(409, "failed")
    assert operator.job(jid).state == "waiting"
    operator.press("Go back")
    expect(operator.button("Cancel…")).to_be_visible()
    expect(operator.button("Retry")).to_have_count(0)


def test_run(operator: Operator, client: Client) -> None:
    """A scheduled job is run by the worker now."""
    jid = operator.put("run", LIVE_QUEUE, delay=3600)
    operator.go("job", jid)
    operator.press("Run now")
    operator.told("is due now in queue live")
    poll(lambda: operator.job(jid).state == "complete", what="the worker runs it")


def test_move(operator: Operator, client: Client) -> None:
    """The worker finds it where it was moved to."""
    jid = operator.put("move", "elsewhere")
    operator.go("job", jid)
    operator.press("Move…")
    operator.fill(Queue=LIVE_QUEUE)
    operator.press("Move")
    operator.told("is in queue live now")
    poll(lambda: operator.job(jid).state == "complete", what="the worker runs it")


def test_priority(operator: Operator) -> None:
    """It has another one."""
    jid = operator.put("priority", "elsewhere")
    operator.go("job", jid)
    operator.press("Change priority…")
    operator.fill(Priority="7")
    operator.press("Change priority")
    operator.told(f"The priority of {operator.job(jid).klass} is 7; it was 0.")
    assert operator.job(jid).priority == 7


def test_tags(operator: Operator) -> None:
    """Tags come, and go by the cross on them."""
    jid = operator.put("tags", "elsewhere", tags=["old"])
    operator.go("job", jid)
    operator.press("Add tags…")
    operator.fill(Tags="new one\nanother")
    operator.press("Add tags")
    operator.told("carries new one, another.")
    assert operator.job(jid).tags == ("old", "new one", "another")
    operator.press("Remove tag old")
    operator.told("does not carry old any more.")
    assert operator.job(jid).tags == ("new one", "another")


def test_tracking(operator: Operator) -> None:
    """A job is tracked, and is not."""
    jid = operator.put("tracked", "elsewhere")
    operator.go("job", jid)
    operator.press("Track")
    operator.told("is tracked: its events are published.")
    assert operator.job(jid).tracked
    operator.press("Stop tracking")
    operator.told("is not tracked any more.")
    assert not operator.job(jid).tracked


def test_time_out_and_cancel(operator: Operator, client: Client) -> None:
    """What the worker runs is taken from it; and is cancelled as it runs again."""
    jid = operator.put("held", LIVE_QUEUE, "", HOLDS)

    def runs() -> bool:
        # Not only reserved: it has said something of itself.
        job = operator.job(jid)
        return job.state == "running" and job.progress is not None

    poll(runs, what="the worker runs it")
    client.pause(LIVE_QUEUE)
    try:
        operator.go("job", jid)
        operator.press("Time out…")
        operator.asks(f"Take {HOLDS} from its worker {WORKER}?")
        operator.press("Time out")
        operator.told(f"Job {HOLDS} was taken from {WORKER}")
        assert operator.job(jid).state == "waiting"
    finally:
        client.unpause(LIVE_QUEUE)
    poll(runs, what="the worker runs it again")
    operator.page.reload()
    operator.press("Cancel…")
    operator.asks("Its worker is told to stop working on it.")
    operator.press("Cancel the job")
    operator.told(f"Job {HOLDS} ({jid}) is cancelled.")
    assert client.get(jid).canceled
    assert not client.worker_jobs(WORKER).jobs


def test_cancel_with_dependents(operator: Operator, client: Client) -> None:
    """Those that wait for it go as well, if that is wanted."""
    jids = [operator.put("first", "elsewhere")]
    jids += [operator.put("next", "elsewhere", depends=["first"])]
    jids += [operator.put("last", "elsewhere", depends=["next"])]
    operator.go("job", "first")
    operator.press("Cancel…")
    operator.asks("1 job waits for it.")
    operator.main.get_by_label("Cancel the jobs that wait for it, too").check()
    operator.press("Cancel the job")
    operator.told("2 jobs that waited for it are cancelled, too.")
    assert [brief.state for brief in client.brief(jids)] == ["canceled"] * 3


def test_edit(operator: Operator, client: Client) -> None:
    """A job that failed for its data is put again with better ones; and another."""
    jid = operator.put("edit", LIVE_QUEUE, '"x",1', retries=0)
    poll(lambda: operator.job(jid).state == "failed", what="it fails")
    operator.go("job", jid)
    operator.press("Put again…")
    operator.fill(Data="no JSON")
    operator.press("Put again")
    operator.refused(409, "The data is no JSON")
    operator.fill(Data='{"v": 1, "args": [20, 3]}')
    operator.press("Put again")
    operator.told("is in queue live again.")
    poll(lambda: operator.job(jid).state == "complete", what="the worker runs it")
    job = client.get(jid)
    assert job is not None
    assert json.loads(job.data)["args"] == [20, 3]
    operator.go("job", jid)
    operator.press("Put again…")
    operator.field("Put").select_option("a new job like this: this one stays as it is")
    operator.fill(Queue="elsewhere", Priority="3")
    operator.press("Put again")
    operator.told("is in queue elsewhere: job")
    words = operator.page.locator("ul.messagelist").inner_text()
    new = operator.job(words.rpartition("job ")[2].strip(" .\n"))
    assert (new.queue, new.state, new.priority) == ("elsewhere", "waiting", 3)


def test_undepend(operator: Operator) -> None:
    """It waits no longer for one, then for none."""
    for name in ("one", "two", "three"):
        operator.put(name, "elsewhere")
    jid = operator.put("waits", "elsewhere", depends=["one", "two", "three"])
    operator.go("job", jid)
    operator.main.get_by_text("Stop waiting for one of them").click()
    operator.press("Stop waiting for tests.jobs_app.jobs.add two…")
    operator.press("Stop waiting")
    operator.told("does not wait for two.")
    assert operator.job(jid).state == "depends"
    operator.press("Stop waiting…")
    operator.press("Stop waiting")
    operator.told("does not wait for any other job.")
    assert operator.job(jid).state == "waiting"


def test_list_of_tracked_jobs(operator: Operator, client: Client) -> None:
    """A job is tracked by its id, and one that is gone is taken off the list."""
    jid = operator.put("followed", "elsewhere")
    operator.go("tracked")
    operator.fill(Id_of_the_job=jid)
    operator.press("Track")
    operator.told(f"Tracks the job {jid}.")
    assert operator.job(jid).tracked
    client.cancel([jid])
    client.redis.delete(f"{client.prefix}canceled:{jid}")  # as the server does in time
    operator.page.reload()
    operator.press(f"Stop tracking {jid}")
    operator.told(f"Stopped tracking the job {jid}.")
    assert jid not in client.tracked().expired


# Many jobs


@pytest.mark.parametrize(
    ("verb", "submit", "value", "told"),
    [
        ("Tag", "Tag", ("Tag", "red"), "2 jobs have the tag “red” now."),
        ("Untag", "Remove tag", ("Tag", "old"), "Removed the tag “old” from 2 jobs."),
        (
            *("Priority", "Change priority", ("Priority", "9")),
            "2 jobs have the priority 9 now.",
        ),
        ("Track", "Track", None, "Tracks 2 jobs."),
        ("Move", "Move", ("To the queue", "moved"), "Moved 2 jobs to the queue"),
        ("Cancel", "Cancel the jobs", None, "Canceled 2 jobs."),
        ("Retry", "Retry", None, "Retried 2 jobs."),
    ],
)
def test_selected_jobs(
    operator: Operator,
    client: Client,
    verb: str,
    submit: str,
    value: tuple[str, str] | None,
    told: str,
) -> None:
    """It is done to those that are ticked, and to no other."""
    queue = f"pick-{verb}"
    jids = [f"{verb}.{number}" for number in range(3)]
    for jid in jids:
        if verb == "Retry":
            operator.put_failed(jid, queue, "Picked")
        else:
            operator.put(jid, queue, tags=["old"])
    before = client.brief(jids[1:2])
    operator.go("job", query=f"?queue={queue}")
    for jid in (jids[0], jids[2]):
        operator.main.get_by_label(f"Select job {jid}").check()
    operator.press(verb)
    operator.asks("2 jobs")
    if value:
        operator.field(value[0]).fill(value[1])
    operator.press(submit)
    operator.told(told)
    first, last = client.brief([jids[0], jids[2]]) or (None, None)
    assert client.brief(jids[1:2]) == before
    for job in (first, last):
        assert job is not None
        assert {
            "Cancel": job.state == "canceled",
            "Tag": "red" in job.tags,
            "Untag": not job.tags,
            "Priority": job.priority == 9,
            "Track": job.tracked,
            "Move": job.queue == "moved",
            "Retry": job.state == "waiting",
        }[verb]


def put_many(client: Client, operator: Operator, queue: str) -> None:
    """Put many jobs."""
    from django_qless.core import Put

    data = '{"v":1,"args":[1]}'
    items = [
        Put(f"{queue}.{number}", queue, "tests.jobs_app.jobs.add", data)
        for number in range(MANY)
    ]
    client.put_many("", items)


def test_all_that_match(operator: Operator, client: Client) -> None:
    """It goes on by itself until all is done."""
    put_many(client, operator, "all")
    operator.go("job", query="?queue=all&state=waiting")
    operator.press("Move all…")
    operator.asks(f"Move {MANY} jobs?")
    operator.fill(To_the_queue="all-moved")
    operator.press("Move")
    operator.told(f"Moved {MANY} jobs to the queue “all-moved”.")
    assert client.queue_counts("all").waiting == 0
    assert client.queue_counts("all-moved").waiting == MANY


def test_stopping_it(operator: Operator, client: Client) -> None:
    """It keeps to its rate, shows how far it is, and can be stopped."""
    put_many(client, operator, "stopped")
    operator.go("job", query="?queue=stopped&state=waiting")
    operator.press("Cancel all…")
    operator.fill(Jobs_per_second="100")
    operator.press("Cancel the jobs")
    expect(operator.main).to_contain_text("Under way.")
    expect(operator.button("Continue")).to_be_hidden()
    bar = operator.main.get_by_role("progressbar")
    expect(bar).to_have_attribute("max", str(MANY))
    # By itself, a second later.
    expect(operator.main).not_to_contain_text("Canceled 100 jobs.")
    operator.press("Stop")
    expect(operator.main).to_contain_text("Stopped.")
    expect(operator.button("Stop")).to_have_count(0)
    left = client.queue_counts("stopped").waiting
    assert 0 < left < MANY - 100
    expect(operator.main).to_contain_text(f"Canceled {MANY - left} jobs.")
    operator.press("Go back")
    expect(operator.page).to_have_url(re.compile(r"\?.*queue=stopped"))


def test_all_that_match_without_scripts(operator_with: Make, client: Client) -> None:
    """A button does the same, four chunks at a time after the first."""
    operator = operator_with(java_script_enabled=False)
    put_many(client, operator, "plain")
    operator.go("job", query="?queue=plain&state=waiting")
    operator.press("Tag all…")
    operator.fill(Tag="seen")
    operator.press("Tag")
    expect(operator.main).to_contain_text("250 jobs have the tag")
    expect(operator.main).to_contain_text("Under way.")
    operator.press("Continue")
    operator.told(f"{MANY} jobs have the tag “seen” now.")
    assert "seen" in operator.job("plain.0").tags
    assert "seen" in operator.job(f"plain.{MANY - 1}").tags


def test_failures(operator: Operator, client: Client) -> None:
    """All of a group are retried; all of another one are cancelled."""
    for number in range(2):
        operator.put_failed(f"back.{number}", "failing", "Back")
        operator.put_failed(f"gone.{number}", "failing", "Gone")
    operator.go("failure")
    operator.press("Retry all of Back")
    operator.asks("Retry 2 jobs?")
    operator.press("Retry")
    operator.told("Retried 2 jobs.")
    assert operator.job("back.0").state == operator.job("back.1").state == "waiting"
    operator.press("Cancel all of Gone")
    operator.press("Cancel the jobs")
    operator.told("Canceled 2 jobs.")
    gone = client.brief(["gone.0", "gone.1"])
    assert [job.state for job in gone] == ["canceled", "canceled"]
    assert client.failed().keys().isdisjoint({"Back", "Gone"})


# Queues


def test_pausing_a_queue(operator: Operator, client: Client) -> None:
    """It is paused with a reason, and with another, and goes on."""
    operator.put("paused", "pausing")
    operator.go("queue")
    operator.press("Pause the queue pausing")
    operator.fill(Reason="the bank is closed")
    operator.press("Pause")
    operator.told("Paused the queue “pausing”: the bank is closed")
    counts = client.queue_counts("pausing")
    assert counts.pause is not None
    assert (counts.pause.reason, counts.pause.by) == ("the bank is closed", "demo")
    operator.go("queue", "pausing")
    operator.asks("the bank is closed")
    operator.press("Change the reason…")
    operator.fill(Reason="for ever")
    operator.press("Pause")
    operator.told("for ever")
    pause = client.queue_counts("pausing").pause
    assert pause is not None
    assert pause.reason == "for ever"
    operator.press("Resume")
    operator.told("Resumed the queue “pausing”.")
    assert not client.queue_counts("pausing").paused


def test_limits_of_a_queue(operator: Operator, client: Client) -> None:
    """They are set, and are as they were."""
    operator.put("limited", "narrow")
    operator.go("queue", "narrow")
    operator.main.locator("input[name$=concurrency]").fill("3")
    operator.press("Save limits")
    operator.told("→ 3.")
    assert client.config_get("narrow-max-concurrency") == "3"
    operator.main.locator("input[name$=concurrency]").fill("")
    operator.press("Save limits")
    operator.told("max-concurrency 3 →")
    assert client.config_get("narrow-max-concurrency") is None


def test_emptying_and_forgetting_a_queue(operator: Operator, client: Client) -> None:
    """All that waits is cancelled; then the queue is taken off the list."""
    for number in range(3):
        operator.put(f"drained.{number}", "draining")
    operator.go("queue", "draining")
    operator.press("Delete 3 waiting jobs…")
    operator.asks("Cancel 3 jobs?")
    operator.press("Cancel the jobs")
    operator.told("Canceled 3 jobs.")
    assert client.queue_counts("draining").waiting == 0
    operator.go("queue", "draining")
    operator.press("Forget…")
    operator.press("Forget")
    operator.told("Took the queue “draining” off the list.")
    assert all(each.name != "draining" for each in client.queues())


# Recurring jobs and options


def test_recurring(operator: Operator, client: Client) -> None:
    """It is run, paused, resumed, changed and removed."""
    client.schedule_set("clean", "elsewhere", ADD, '{"v":1,"args":[1]}', every=3600)

    def now() -> Any:
        return client.schedule_get("clean")

    operator.go("recurring")
    operator.press("Run now: clean")
    operator.told("Put the job ")
    assert now().count == 1
    operator.press("Pause clean")
    operator.told("Paused “clean”.")
    assert now().paused
    operator.page.get_by_role("link", name="clean", exact=True).click()
    operator.press("Resume clean")
    operator.told("Resumed “clean”.")
    assert not now().paused
    operator.press("Edit…")
    operator.fill(Every="15 min", Priority="4")
    operator.press("Save")
    operator.told("Changed “clean”")
    assert (now().every, now().priority) == (900, 4)
    operator.press("Edit…")
    operator.fill(Every="", Cron="0 6 * * mon-fri", Time_zone="Europe/Berlin")
    operator.press("Save")
    operator.told("Changed “clean”")
    assert (now().cron, now().timezone) == ("0 6 * * mon-fri", "Europe/Berlin")
    operator.press("Remove…")
    operator.press("Remove")
    operator.told("Removed “clean”.")
    assert now() is None


def test_resetting_what_recurs(operator: Operator, client: Client) -> None:
    """What the code declares comes back, changed or removed."""
    poll(lambda: client.schedule_get(TIDIES), what="the worker has made it known")

    def now() -> Any:
        return client.schedule_get(TIDIES)

    operator.go("recurring", TIDIES)
    operator.press("Edit…")
    operator.fill(Every="2 h")
    operator.press("Save")
    operator.told("Changed")
    assert (now().every, now().edited) == (7200, True)
    operator.press("Reset…")
    operator.press("Reset to what the code declares")
    operator.told("is what the code declares again.")
    assert (now().every, now().edited) == (86_400, False)
    operator.press("Remove…")
    operator.press("Remove")
    operator.told("Removed")
    assert now() is None
    operator.press(f"Reset {TIDIES}")
    operator.press("Reset to what the code declares")
    operator.told("is what the code declares again.")
    assert now().every == 86_400


def test_options(operator: Operator, client: Client) -> None:
    """An option is set, and gets its default back; nonsense is not taken."""
    operator.go("option")
    operator.page.get_by_role("link", name="grace-period", exact=True).click()
    usual = client.config_get("grace-period")
    operator.fill(Value="42")
    operator.press("Set")
    operator.told("The option grace-period is 42 now; it was 10.")
    assert client.config_get("grace-period") == "42"
    operator.press("Reset…")
    operator.press("Reset")
    operator.told("The option grace-period is 10 again; it was 42.")
    assert client.config_get("grace-period") == usual


# Workers: at last, as they end


def worker_of(client: Client, name: str) -> WorkerCounts | None:
    """Return what a worker says of itself."""
    return next((each for each in client.workers() if each.name == name), None)


def has_state(client: Client, name: str, state: str) -> bool:
    """Return whether a worker says that this is its state."""
    worker = worker_of(client, name)
    return worker is not None and (worker.info or {}).get("state") == state


def test_one_worker(operator: Operator, client: Client) -> None:
    """It takes no more jobs, takes them again, and shows what it does."""
    operator.go("worker")
    operator.page.get_by_role("link", name=WORKER, exact=True).click()
    operator.page.get_by_label("Refresh").select_option("every 2 s")
    operator.press("Quiet")
    operator.told(f"Asked worker {WORKER} to take no more jobs.")
    poll(lambda: has_state(client, WORKER, "quiet"), what="it is quiet")
    jid = operator.put("for a quiet one", LIVE_QUEUE)
    # The button changes by itself.
    operator.press("Resume")
    operator.told(f"Asked worker {WORKER} to take jobs again.")
    poll(lambda: operator.job(jid).state == "complete", what="the worker runs it")
    operator.press("Dump stacks")
    operator.told("they are shown here within seconds.")
    expect(operator.main.locator("pre")).to_contain_text("_bootstrap")
    assert client.stacks(WORKER)


def test_stopping_a_worker(
    operator: Operator, client: Client, second: subprocess.Popen[bytes]
) -> None:
    """It ends."""
    poll(lambda: has_state(client, SECOND, "running"), what="it runs")
    operator.go("worker", SECOND)
    operator.press("Stop")
    operator.asks(f"Have worker {SECOND} end?")
    operator.press("Stop")
    operator.told(f"Asked worker {SECOND} to end.")
    assert second.wait(20) == 0


def test_forgetting_a_worker(operator: Operator, client: Client) -> None:
    """One that is silent is taken off the list."""
    client.beat("silent", "", [])
    now = float(client.meta()["now"])
    client.redis.zadd(f"{client.prefix}workers", {"silent": now - 600})
    operator.go("worker", "silent")
    operator.press("Forget")
    operator.asks("Take worker silent off the list?")
    operator.press("Forget")
    operator.told("Took worker silent off the list.")
    assert worker_of(client, "silent") is None


def test_all_workers(operator: Operator, client: Client, scene: Scene) -> None:
    """All are quiet, go on, and end."""
    operator.go("worker")
    operator.press("Quiet all")
    operator.asks("They take no more jobs")
    operator.press("Quiet all")
    operator.told(": quiet all.")
    poll(lambda: has_state(client, WORKER, "quiet"), what="it is quiet")
    operator.press("Resume all")
    operator.asks("They take jobs again.")
    operator.press("Resume all")
    operator.told(": resume all.")
    poll(lambda: has_state(client, WORKER, "running"), what="it goes on")
    operator.press("Stop all")
    operator.asks("They end;")
    operator.press("Stop all")
    operator.told(": stop all.")
    assert scene.worker.wait(20) == 0


def test_no_action_is_left_out(
    done: set[str], ran: set[str], request: pytest.FixtureRequest
) -> None:
    """Each action that the resolver knows has been done above."""
    here = {name for name in vars(request.module) if name.startswith("test_")}
    here.remove(request.node.name)
    chosen = {item.name.partition("[")[0] for item in request.session.items}
    if missing := here - chosen:
        pytest.skip(f"says something of the whole file only: without {missing}")
    assert not here - ran, "ran elsewhere: run this file in one process"
    known = {each.name for each in routes("tests.admin.urls") if each.acts}
    assert known, "no action is known"
    left_out = sorted(known - done)
    assert not left_out
