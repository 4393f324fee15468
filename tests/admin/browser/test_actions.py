"""Every action, done by clicking, against a worker that runs; and what came of it.

Each test has its own queue and jobs, named after it, so that they pass in any order.
"""

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
from tests.real_servers import poll

if TYPE_CHECKING:
    from typing import Any

    from django_qless.core import Client
    from tests.admin.browser.scene import Scene
    from tests.admin.browser.visitor import Visitor

pytestmark = pytest.mark.xdist_group("actions")

WORKER = "live-worker"
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


@pytest.fixture
def operator_with(
    scene: Scene,
    visit: Callable[..., Visitor],
    done: set[str],
    ran: set[str],
    request: pytest.FixtureRequest,
) -> Iterator[Make]:
    """Makes operators whose browsers have options; none may have seen a fault."""
    visitors = []
    own = re.sub(r"\W+", "-", request.node.name.removeprefix("test_")).strip("-")

    def make(**options: Any) -> Operator:
        visitor = visit(**options)
        visitors.append(visitor)
        return Operator(visitor, scene.client, done, own)

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


def state_of(client: Client, name: str) -> str | None:
    """Return the state in a worker's report, or None without one."""
    found = (each for each in client.workers() if each.name == name)
    worker = next(found, None)
    return worker and (worker.info or {}).get("state")


def wait_for_state(client: Client, name: str, state: str) -> None:
    poll(lambda: state_of(client, name) == state, what=f"{name} is {state}")


@pytest.fixture
def worker(scene: Scene) -> str:
    """The name of a worker that runs the live queue; another test may have ended it."""
    if scene.worker.poll() is not None:
        scene.start_worker()
    wait_for_state(scene.client, WORKER, "running")
    return WORKER


def completes(operator: Operator, jid: str) -> None:
    poll(lambda: operator.job(jid).state == "complete", what="the worker runs it")


# One job


@pytest.mark.usefixtures("worker")
def test_retry(operator: Operator, client: Client) -> None:
    """The worker runs it again; when it has failed again, that shows."""
    jid = operator.put("", LIVE_QUEUE, '"Boom","no"', FAILING, retries=0)

    def failures() -> int:
        # Counted: the times of failures are whole seconds, and these two may share one.
        job = client.get(jid)
        assert job is not None
        return sum(each["what"] == "failed" for each in job.history)

    poll(lambda: failures() == 1, what="fails")
    operator.go("job", jid)
    operator.do("Retry", told=f"Job {FAILING} is back in queue {LIVE_QUEUE}.")
    poll(lambda: failures() == 2, what="it runs again and fails again")
    # By itself.
    expect(operator.button("Retry")).to_be_visible()


def test_a_refusal(operator: Operator, client: Client) -> None:
    """What has changed since the page was loaded is told, and nothing is done."""
    jid = operator.put_failed("refused", "Refused")
    operator.go("job", jid)
    client.revive_each([jid])
    operator.press("Retry")
    operator.refused(409, "failed")
    assert operator.job(jid).state == "waiting"
    operator.press("Go back")
    expect(operator.button("Cancel…")).to_be_visible()
    expect(operator.button("Retry")).to_have_count(0)


@pytest.mark.usefixtures("worker")
def test_run(operator: Operator) -> None:
    """A scheduled job is run by the worker now."""
    jid = operator.visit_job("", LIVE_QUEUE, delay=3600)
    operator.do("Run now", told="is due now in queue live")
    completes(operator, jid)


@pytest.mark.usefixtures("worker")
def test_move(operator: Operator) -> None:
    """The worker finds it where it was moved to."""
    jid = operator.visit_job()
    operator.do("Move…", "Move", told="is in queue live now", Queue=LIVE_QUEUE)
    completes(operator, jid)


def test_priority(operator: Operator) -> None:
    jid = operator.visit_job()
    told = f"The priority of {ADD} is 7; it was 0."
    operator.do("Change priority…", "Change priority", told=told, Priority="7")
    assert operator.job(jid).priority == 7


def test_tags(operator: Operator) -> None:
    """Tags come, and go by the cross on them."""
    jid = operator.visit_job(tags=["old"])
    told = f"Added to job {ADD}: new one, another."
    operator.do("Add tags…", "Add tags", told=told, Tags="new one\nanother")
    assert operator.job(jid).tags == ("old", "new one", "another")
    operator.do("Remove tag old", told="Removed the tag old from job")
    assert operator.job(jid).tags == ("new one", "another")


def test_tracking(operator: Operator) -> None:
    jid = operator.visit_job()
    operator.do("Track", told="is tracked: its events are published.")
    assert operator.job(jid).tracked
    operator.do("Stop tracking", told="is no longer tracked.")
    assert not operator.job(jid).tracked


def test_time_out_and_cancel(operator: Operator, client: Client, worker: str) -> None:
    """What the worker runs is taken from it; and is canceled as it runs again."""
    jid = operator.put("", LIVE_QUEUE, "", HOLDS)

    def runs() -> bool:
        # Not only reserved: it has reported progress.
        job = operator.job(jid)
        return job.state == "running" and job.progress is not None

    poll(runs, what="the worker runs it")
    client.pause(LIVE_QUEUE)
    try:
        operator.go("job", jid)
        asks, told = f"Take {HOLDS} from its worker", f"Job {HOLDS} was taken from"
        operator.do(
            "Time out…", "Time out", asks=f"{asks} {worker}?", told=f"{told} {worker}"
        )
        assert operator.job(jid).state == "waiting"
    finally:
        client.unpause(LIVE_QUEUE)
    poll(runs, what="the worker runs it again")
    operator.page.reload()
    operator.do(
        *("Cancel…", "Cancel the job"),
        asks="Its worker stops working on it.",
        told=f"Job {HOLDS} ({jid}) is canceled.",
    )
    assert client.get(jid).canceled
    assert jid not in client.worker_jobs(worker).jobs


def test_cancel_with_dependents(operator: Operator, client: Client) -> None:
    """Those that wait for it go as well, if that is wanted."""
    first = operator.put("first")
    following = operator.put("next", depends=[first])
    last = operator.put("last", depends=[following])
    operator.go("job", first)
    operator.press("Cancel…")
    operator.asks("1 job waits for it.")
    operator.main.get_by_label("Also cancel the jobs that wait for it").check()
    told = "2 jobs that waited for it are canceled, too."
    operator.do("Cancel the job", told=told)
    states = [brief.state for brief in client.brief([first, following, last])]
    assert states == ["canceled"] * 3


@pytest.mark.usefixtures("worker")
def test_edit(operator: Operator, client: Client) -> None:
    """A job that failed for its data is enqueued with better ones; and another."""
    jid = operator.put("", LIVE_QUEUE, '"x",1', retries=0)
    poll(lambda: operator.job(jid).state == "failed", what="it fails")
    operator.go("job", jid)
    operator.press("Enqueue again…")
    operator.fill(Data="no JSON")
    operator.press("Enqueue again")
    operator.refused(409, "The data is not JSON")
    operator.fill(Data='{"v": 1, "args": [20, 3]}')
    operator.do("Enqueue again", told="is in queue live again.")
    completes(operator, jid)
    job = client.get(jid)
    assert job is not None
    assert json.loads(job.data)["args"] == [20, 3]
    operator.go("job", jid)
    operator.press("Enqueue again…")
    choice = "a new job like this: this one stays as it is"
    operator.field("Enqueue").select_option(choice)
    operator.fill(Queue=operator.own, Priority="3")
    operator.do("Enqueue again", told=f"is in queue {operator.own}: job")
    words = operator.page.locator("ul.messagelist").inner_text()
    new = operator.job(words.rpartition("job ")[2].strip(" .\n"))
    assert (new.queue, new.state, new.priority) == (operator.own, "waiting", 3)


def test_undepend(operator: Operator) -> None:
    """It waits no longer for one, then for none."""
    others = [operator.put(name) for name in ("one", "two", "three")]
    jid = operator.visit_job("waits", depends=others)
    operator.main.get_by_text("Stop waiting for one of them").click()
    two = others[1]
    told = f"no longer waits for {two}."
    operator.do(f"Stop waiting for {ADD} {two}…", "Stop waiting", told=told)
    assert operator.job(jid).state == "depends"
    told = "no longer waits for other jobs."
    operator.do("Stop waiting…", "Stop waiting", told=told)
    assert operator.job(jid).state == "waiting"


def test_list_of_tracked_jobs(operator: Operator, client: Client) -> None:
    """A job is tracked by its id, and one that is gone is taken off the list."""
    jid = operator.put()
    operator.go("tracked")
    operator.fill(Id_of_the_job=jid)
    operator.do("Track", told=f"Now tracking the job {jid}.")
    assert operator.job(jid).tracked
    client.cancel([jid])
    client.redis.delete(f"{client.prefix}canceled:{jid}")  # as the server does in time
    operator.page.reload()
    operator.do(f"Stop tracking {jid}", told=f"Stopped tracking the job {jid}.")
    assert jid not in client.tracked().expired


# Many jobs


@pytest.mark.parametrize(
    ("button", "submit", "fields", "told", "is_done"),
    [
        (
            *("Tag", "Tag", {"Tag": "red"}, "Added the tag “red” to 2 jobs."),
            lambda job: "red" in job.tags,
        ),
        (
            *("Untag", "Remove tag", {"Tag": "old"}),
            *("Removed the tag “old” from 2 jobs.", lambda job: not job.tags),
        ),
        (
            *("Priority", "Change priority", {"Priority": "9"}),
            *("Changed the priority of 2 jobs to 9.", lambda job: job.priority == 9),
        ),
        ("Track", "Track", {}, "Now tracking 2 jobs.", lambda job: job.tracked),
        (
            *("Move", "Move", {"To_the_queue": "moved"}),
            *("Moved 2 jobs to the queue", lambda job: job.queue == "moved"),
        ),
        (
            *("Cancel", "Cancel the jobs", {}, "Canceled 2 jobs."),
            lambda job: job.state == "canceled",
        ),
        ("Retry", "Retry", {}, "Retried 2 jobs.", lambda job: job.state == "waiting"),
    ],
    ids=["tag", "untag", "priority", "track", "move", "cancel", "retry"],
)
def test_selected_jobs(
    operator: Operator,
    client: Client,
    button: str,
    submit: str,
    fields: dict[str, str],
    told: str,
    is_done: Callable[[Any], bool],
) -> None:
    """It is done to those that are ticked, and to no other."""
    names = ["0", "1", "2"]
    if button == "Retry":
        group = f"Picked {operator.own}"
        first, other, last = (operator.put_failed(name, group) for name in names)
        operator.go("job", query=f"?group={group}")
    else:
        first, other, last = (operator.put(name, tags=["old"]) for name in names)
        operator.go("job", query=f"?queue={operator.own}")
    before = client.brief([other])
    for jid in (first, last):
        operator.main.get_by_label(f"Select job {jid}").check()
    operator.do(button, submit, asks="2 jobs", told=told, **fields)
    assert client.brief([other]) == before
    assert [is_done(job) for job in client.brief([first, last])] == [True, True]


@pytest.fixture
def many(operator_with: Make, client: Client) -> Callable[..., Operator]:
    """Enqueues many jobs; returns an operator on the page of all that match."""

    def make(**options: Any) -> Operator:
        operator = operator_with(**options)
        jids = [f"{operator.own}.{number}" for number in range(MANY)]
        operator.put_many(jids, operator.own)
        operator.go("job", query=f"?queue={operator.own}&state=waiting")
        return operator

    return make


def test_all_that_match(many: Make, client: Client) -> None:
    """It goes on by itself until all is done."""
    operator = many()
    told = f"Moved {MANY} jobs to the queue “all-moved”."
    operator.press("Move all…")
    operator.asks(f"Move {MANY} jobs?")
    operator.fill(To_the_queue="all-moved")
    operator.do("Move", told=told)
    assert client.queue_counts(operator.own).waiting == 0
    assert client.queue_counts("all-moved").waiting == MANY


def test_stopping_it(many: Make, client: Client) -> None:
    """It keeps to its rate, shows how far it is, and can be stopped."""
    operator = many()
    operator.press("Cancel all…")
    operator.fill(Jobs_per_second="100")
    operator.press("Cancel the jobs")
    operator.asks("In progress.")
    expect(operator.button("Continue")).to_be_hidden()
    bar = operator.main.get_by_role("progressbar")
    expect(bar).to_have_attribute("max", str(MANY))
    # By itself, a second later.
    expect(operator.main).not_to_contain_text("Canceled 100 jobs.")
    operator.press("Stop")
    operator.asks("Stopped.")
    expect(operator.button("Stop")).to_have_count(0)
    left = client.queue_counts(operator.own).waiting
    assert 0 < left < MANY - 100
    operator.asks(f"Canceled {MANY - left} jobs.")
    operator.press("Go back")
    expect(operator.page).to_have_url(re.compile(rf"\?.*queue={operator.own}"))


def test_all_that_match_without_scripts(many: Make) -> None:
    """A button does the same, four chunks at a time after the first."""
    operator = many(java_script_enabled=False)
    operator.press("Tag all…")
    operator.fill(Tag="seen")
    operator.press("Tag")
    operator.asks("Added the tag “seen” to 250 jobs.")
    operator.asks("In progress.")
    operator.do("Continue", told=f"Added the tag “seen” to {MANY} jobs.")
    for number in (0, MANY - 1):
        assert "seen" in operator.job(f"{operator.own}.{number}").tags


def test_failures(operator: Operator, client: Client) -> None:
    """All of a group are retried; all of another one are canceled."""
    back = [operator.put_failed(f"back{number}", "Back") for number in range(2)]
    gone = [operator.put_failed(f"gone{number}", "Gone") for number in range(2)]
    operator.go("failure")
    asks = "Retry 2 jobs?"
    operator.do("Retry all of Back", "Retry", asks=asks, told="Retried 2 jobs.")
    assert [job.state for job in client.brief(back)] == ["waiting"] * 2
    operator.do("Cancel all of Gone", "Cancel the jobs", told="Canceled 2 jobs.")
    assert [job.state for job in client.brief(gone)] == ["canceled"] * 2
    assert client.failed().keys().isdisjoint({"Back", "Gone"})


# Queues


def test_pausing_a_queue(operator: Operator, client: Client) -> None:
    """It is paused with a reason, and with another, and resumed."""
    operator.put()
    queue, reason = operator.own, "the bank is closed"
    operator.go("queue")
    told = f"Paused the queue “{queue}”: {reason}"
    operator.do(f"Pause the queue {queue}", "Pause", told=told, Reason=reason)
    pause = client.queue_counts(queue).pause
    assert pause is not None
    assert (pause.reason, pause.by) == (reason, "demo")
    operator.go("queue", queue)
    operator.asks(reason)
    operator.do("Change the reason…", "Pause", told="for ever", Reason="for ever")
    pause = client.queue_counts(queue).pause
    assert pause is not None
    assert pause.reason == "for ever"
    operator.do("Resume", told=f"Resumed the queue “{queue}”.")
    assert not client.queue_counts(queue).paused


def test_limits_of_a_queue(operator: Operator, client: Client) -> None:
    """They are set, and are as they were."""
    operator.put()
    option = f"{operator.own}-max-concurrency"
    operator.go("queue", operator.own)
    for value, told in (("3", "→ 3."), ("", "max-concurrency 3 →")):
        operator.main.locator("input[name$=concurrency]").fill(value)
        operator.do("Save limits", told=told)
        assert client.config_get(option) == (value or None)


def test_emptying_and_forgetting_a_queue(operator: Operator, client: Client) -> None:
    """All that waits is canceled; then the queue is taken off the list."""
    for number in range(3):
        operator.put(str(number))
    queue = operator.own
    operator.go("queue", queue)
    operator.do(
        *("Cancel 3 waiting jobs…", "Cancel the jobs"),
        asks="Cancel 3 jobs?",
        told="Canceled 3 jobs.",
    )
    assert client.queue_counts(queue).waiting == 0
    operator.go("queue", queue)
    told = f"Removed the queue “{queue}” from the list."
    operator.do("Forget…", "Forget", told=told)
    assert all(each.name != queue for each in client.queues())


# Recurring jobs and options


def test_recurring(operator: Operator, client: Client) -> None:
    """It is run, paused, resumed, changed and removed."""
    client.schedule_set("clean", operator.own, ADD, '{"v":1,"args":[1]}', every=3600)

    def now() -> Any:
        return client.schedule_get("clean")

    operator.go("recurring")
    operator.do("Run now: clean", told="Enqueued the job ")
    assert now().count == 1
    operator.do("Pause clean", told="Paused “clean”.")
    assert now().paused
    operator.page.get_by_role("link", name="clean", exact=True).click()
    operator.do("Resume clean", told="Resumed “clean”.")
    assert not now().paused
    changed = "Changed “clean”"
    operator.do("Edit…", "Save", told=changed, Every="15 min", Priority="4")
    assert (now().every, now().priority) == (900, 4)
    cron = {"Every": "", "Cron": "0 6 * * mon-fri", "Time_zone": "Europe/Berlin"}
    operator.do("Edit…", "Save", told=changed, **cron)
    assert (now().cron, now().timezone) == ("0 6 * * mon-fri", "Europe/Berlin")
    operator.do("Remove…", "Remove", told="Removed “clean”.")
    assert now() is None


@pytest.mark.usefixtures("worker")
def test_resetting_what_recurs(operator: Operator, client: Client) -> None:
    """What the code declares comes back, changed or removed."""
    poll(lambda: client.schedule_get(TIDIES), what="the worker has made it known")
    reset, told = "Reset to the declaration", f"Reset “{TIDIES}” to its declaration"

    def now() -> Any:
        return client.schedule_get(TIDIES)

    operator.go("recurring", TIDIES)
    operator.do("Edit…", "Save", told="Changed", Every="2 h")
    assert (now().every, now().edited) == (7200, True)
    operator.do("Reset…", reset, told=told)
    assert (now().every, now().edited) == (86_400, False)
    operator.do("Remove…", "Remove", told="Removed")
    assert now() is None
    operator.do(f"Reset {TIDIES}", reset, told=told)
    assert now().every == 86_400


def test_options(operator: Operator, client: Client) -> None:
    """An option is set, and gets its default back."""
    operator.go("option")
    operator.page.get_by_role("link", name="grace-period", exact=True).click()
    usual = client.config_get("grace-period")
    operator.fill(Value="42")
    operator.do("Set", told="The option grace-period is 42 now; it was 10.")
    assert client.config_get("grace-period") == "42"
    told = "The option grace-period is 10 again; it was 42."
    operator.do("Reset…", "Reset", told=told)
    assert client.config_get("grace-period") == usual


# Workers


def test_one_worker(operator: Operator, client: Client, worker: str) -> None:
    """It takes no more jobs, takes them again, and shows what it does."""
    operator.go("worker")
    operator.page.get_by_role("link", name=worker, exact=True).click()
    operator.page.get_by_label("Refresh").select_option("every 2 s")
    operator.do("Quiet", told=f"Asked worker {worker} to take no more jobs.")
    wait_for_state(client, worker, "quiet")
    jid = operator.put("", LIVE_QUEUE)
    # The button changes by itself.
    operator.do("Resume", told=f"Asked worker {worker} to take jobs again.")
    completes(operator, jid)
    operator.do("Dump stacks", told="they appear here within seconds.")
    expect(operator.main.locator("pre")).to_contain_text("_bootstrap")
    assert client.stacks(worker)


def test_stopping_a_worker(operator: Operator, client: Client, scene: Scene) -> None:
    """It ends."""
    name = "to-be-stopped"
    process = scene.manage(
        *("qless_worker", operator.own, "--name", name, "--pool", "threads")
    )
    wait_for_state(client, name, "running")
    operator.go("worker", name)
    told = f"Asked worker {name} to stop."
    operator.do("Stop", "Stop", asks=f"Stop worker {name}?", told=told)
    assert process.wait(20) == 0


def test_forgetting_a_worker(operator: Operator, client: Client) -> None:
    """One that is silent is taken off the list."""
    client.beat("silent", "", [])
    now = float(client.meta()["now"])
    client.redis.zadd(f"{client.prefix}workers", {"silent": now - 600})
    operator.go("worker", "silent")
    told = "Removed worker silent from the list."
    operator.do("Forget", "Forget", asks="Remove worker silent", told=told)
    assert all(each.name != "silent" for each in client.workers())


def test_all_workers(
    operator: Operator, client: Client, scene: Scene, worker: str
) -> None:
    """All are quiet, are resumed, and end."""
    operator.go("worker")
    for button, asks, state in (
        ("Quiet all", "They take no more jobs", "quiet"),
        ("Resume all", "They take jobs again.", "running"),
        ("Stop all", "They stop;", None),
    ):
        operator.do(button, button, asks=asks, told=f": {button.lower()}.")
        if state is not None:
            wait_for_state(client, worker, state)
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
