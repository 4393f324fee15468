"""Entities run now, killed, deleted, brought back: one, those ticked, or all."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.admin.models import LogEntry

from django_qless import jobs
from django_qless.core import BadArgument, Put, WrongState
from django_qless.core.commands.entities import entity_jid
from django_qless.operations.bulk import CHANGES
from django_qless.operations.entity_run import EntityRun
from tests.admin.orders import QUEUE, die, push, retry, take, url
from tests.admin.reading import Page, read
from tests.admin.test_bulk import run_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.test import Client as Browser

    from django_qless.core import Client

pytestmark = pytest.mark.django_db


@pytest.fixture
def browser(qless: Client, as_user: Callable[[str], Browser]) -> Browser:
    """A browser of somebody who may see and act on jobs."""
    return as_user("view+act_on_jobs")


def change(browser: Browser, verb: str, *entities: str) -> str:
    """Ask for a change and confirm it; return what the page says then."""
    answer = browser.get(url("bulk", verb=verb, entity=entities))
    for _step in range(10):
        form = {"run": run_in(answer.content.decode())}
        answer = browser.post(url("bulk"), form)
        if answer.status_code == 302:
            return read(browser.get(answer["Location"])).text
    raise AssertionError(read(answer).text)


def counts(client: Client) -> tuple[int, ...]:
    """Return how many are fresh, retrying, and dead."""
    found = client.entity_counts([QUEUE])[0]
    return found.fresh, found.retries, found.dead


def dead_payloads(client: Client, entity: str) -> int:
    dead = client.entity(QUEUE, entity).dead
    return 0 if dead is None else int(dead["payloads"])


def test_one_entity(browser: Browser, qless: Client) -> None:
    retry(qless, "o-1")
    page = read(browser.get(url("bulk", verb="run", entity="o-1"))).text
    assert "Run 1 entity now?" in page
    assert "o-1" in page
    assert qless.brief([entity_jid(QUEUE, "o-1")])[0].state == "scheduled"
    assert "1 entity runs now." in change(browser, "run", "o-1")
    assert qless.brief([entity_jid(QUEUE, "o-1")])[0].state == "waiting"
    assert "Killed 1 entity." in change(browser, "kill", "o-1")
    assert counts(qless) == (0, 0, 1)
    assert "Brought back 1 entity." in change(browser, "revive", "o-1")
    assert counts(qless) == (0, 1, 0), "Its retry count is 0 then."
    assert "Deleted 1 entity." in change(browser, "delete", "o-1")
    assert counts(qless) == (0, 0, 0)


def test_the_dead_payloads_of_one(browser: Browser, qless: Client) -> None:
    die(qless, "o-1", "bad")
    push(qless, "o-1", "good")
    assert "of 1 entity" in change(browser, "delete-dead", "o-1")
    assert counts(qless) == (1, 0, 0)


def test_those_that_are_ticked(browser: Browser, qless: Client) -> None:
    for entity in ("a", "b", "c"):
        retry(qless, entity)
    ticked = {"verb": "kill", "entity": ["a", "c"]}
    asked = browser.post(url("bulk"), ticked).content.decode()
    assert "Kill 2 entities?" in asked
    assert counts(qless) == (0, 3, 0)
    done = browser.post(url("bulk"), {"run": run_in(asked)}, follow=True)
    assert "Killed 2 entities." in read(done).text
    assert counts(qless) == (0, 1, 2)


@pytest.mark.parametrize(
    ("verb", "says", "left"),
    [
        ("run", "2 entities run now.", (1, 2, 2)),
        ("kill", "Killed 2 entities.", (1, 0, 4)),
        ("delete", "Deleted 2 entities.", (1, 0, 2)),
        ("revive", "Brought back 2 entities.", (1, 4, 0)),
        ("delete-dead", "Deleted the dead payloads of 2 entities.", (1, 2, 0)),
    ],
)
def test_all(
    verb: str, says: str, left: tuple[int, ...], browser: Browser, qless: Client
) -> None:
    for entity in ("d-1", "d-2"):
        die(qless, entity)
    for entity in ("r-1", "r-2"):
        retry(qless, entity)
    push(qless, "f-1")
    assert counts(qless) == (1, 2, 2)
    assert says in change(browser, verb)
    assert counts(qless) == left
    assert verb != "run" or qless.queue_counts(QUEUE).scheduled == 0


def test_what_is_running_is_left_alone(browser: Browser, qless: Client) -> None:
    push(qless, "held")
    take(qless)
    push(qless, "free")
    said = change(browser, "kill", "held", "free")
    assert "Killed 1 entity. 1 needed no change, or is in a worker's hands." in said
    assert counts(qless) == (0, 0, 1)


def test_many_payloads_take_several_steps(browser: Browser, qless: Client) -> None:
    """A call moves a thousand of them; an entity counts once."""
    retry(qless, "a", *range(1_700))
    retry(qless, "b", *range(1_000), "last")
    run = EntityRun.on_all(qless, "kill", QUEUE)
    assert run.number == 2
    steps = 0
    while not run.ended:
        run = EntityRun(**json.loads(json.dumps(run.step(qless, 0).as_dict())))
        steps += 1
    assert steps >= 3
    assert run.done == 2
    assert (dead_payloads(qless, "a"), dead_payloads(qless, "b")) == (1_700, 1_001)
    assert "Brought back 2 entities." in change(browser, "revive")
    assert counts(qless)[2] == 0
    assert qless.entity(QUEUE, "a").job["payloads"] == 1_700  # type: ignore[index]


def test_another_job_in_the_way_is_passed_over(browser: Browser, qless: Client) -> None:
    for entity in ("a", "b", "c"):
        die(qless, entity)
    for entity in ("a", "b"):
        retried = qless.entity(QUEUE, entity)
        assert retried.job is None
        record = {"jid": retried.jid, "klass": "shop.other", "state": "waiting"}
        # Only a core that knew no entities may have put it.
        qless.redis.hset(f"{qless.prefix}j:{retried.jid}", mapping=record)
    run = EntityRun.on_all(qless, "revive", QUEUE)
    for _ in range(20):
        run = run.step(qless, 0)
    assert run.finished
    assert (run.done, run.passed) == (1, 2)
    assert counts(qless) == (0, 1, 2)
    chosen = EntityRun.on("revive", QUEUE, ["a", "b"])
    for _ in range(20):
        chosen = chosen.step(qless, 0)
    assert chosen.finished
    assert (chosen.done, chosen.left_alone) == (0, 2)


def test_a_run_on_all_ends_though_they_come_back(qless: Client) -> None:
    """What is brought back and dies again is not brought back again by the same run."""
    for entity in ("a", "b"):
        die(qless, entity)
    run = EntityRun.on_all(qless, "revive", QUEUE).step(qless, 0)
    assert run.finished
    die(qless, "a")
    assert run.step(qless, 0) is run
    assert counts(qless)[2] == 1


def test_nothing_to_do(browser: Browser, qless: Client) -> None:
    push(qless, "o-1")
    asked = read(browser.get(url("bulk", verb="revive"))).text
    assert "There is no such entity now: there is nothing to do." in asked
    answer = browser.post(url("bulk"), {"verb": "kill"}, follow=True)
    assert "No entity is selected: nothing was done." in read(answer).text


def test_bad_input(browser: Browser, qless: Client) -> None:
    push(qless, "o-1")
    many = [f"o-{number}" for number in range(251)]
    for form, words in (
        ({"verb": "explode", "entity": "o-1"}, "verb must be one of run, kill"),
        ({"verb": "kill", "entity": many}, "251 entities are selected, at most 250"),
        ({"verb": "kill", "entity": "o" * 256}, "must be a text of 1 to 255 bytes"),
        ({"run": "nonsense"}, "This form has expired"),
    ):
        answer = browser.post(url("bulk"), form)
        if answer.status_code == 200:
            answer = browser.post(url("bulk"), {"run": run_in(answer.content.decode())})
        assert words in Page(answer.content.decode()).text, form
    assert counts(qless) == (1, 0, 0)
    with pytest.raises(BadArgument, match="verb must be one of"):
        EntityRun.on("explode", QUEUE, ["o-1"])


def test_a_form_belongs_to_its_queue(browser: Browser, qless: Client) -> None:
    push(qless, "o-1")
    asked = browser.get(url("bulk", verb="kill", entity="o-1")).content.decode()
    form = {"run": run_in(asked)}
    for elsewhere in (url("bulk", "other"), "/admin/django_qless/job/bulk/"):
        assert browser.post(elsewhere, form).status_code == 400
    qless.put_many("", [Put("j", "plain", "shop.Send", "{}")])
    jobs = "/admin/django_qless/job/bulk/?verb=cancel&queue=plain&state=waiting"
    form = {"run": run_in(browser.get(jobs).content.decode())}
    assert browser.post(url("bulk"), form).status_code == 400
    assert counts(qless) == (1, 0, 0)


@pytest.mark.parametrize("kind", ["view", "view+view_data", "view+act_on_queues"])
def test_who_may_not(
    kind: str, qless: Client, as_user: Callable[[str], Browser]
) -> None:
    retry(qless, "o-1")
    browser = as_user(kind)
    form = {"verb": "kill", "entity": "o-1"}
    assert browser.post(url("bulk"), form).status_code == 403
    assert "Kill all failed" not in read(browser.get(url(tab="retrying"))).text


def test_the_log_says_what_was_done(browser: Browser, qless: Client) -> None:
    for entity in ("a", "b"):
        retry(qless, entity)
    change(browser, "kill", "a")
    change(browser, "kill")
    first, second = LogEntry.objects.order_by("pk")
    assert first.object_id == second.object_id == QUEUE
    assert "Kill (a): 1 of 1 done, 0 refused; finished." in first.change_message
    assert "Kill (all): 1 of 1 done, 0 refused; finished." in second.change_message
    assert "Kill (a)" in read(browser.get(url())).text


def test_a_script_carries_on(browser: Browser, qless: Client) -> None:
    """One step for each request, as bulk.js sends them."""
    retry(qless, "a", *range(1_500))
    asked = browser.get(url("bulk", verb="kill")).content.decode()
    run: Any = run_in(asked)
    headers = {"Accept": "application/json"}
    for _ in range(10):
        answer = browser.post(url("bulk"), {"run": run}, headers=headers)
        found = answer.json() if "json" in answer["Content-Type"] else {}
        if "location" in found:
            break
        run = run_in(found.get("html") or answer.content.decode())
    assert found["location"] == url()
    assert dead_payloads(qless, "a") == 1_500


def test_the_job_of_an_entity_neither_moves_nor_starts_again(
    admin_browser: Browser, qless: Client
) -> None:
    retry(qless, "o-1")
    jid = entity_jid(QUEUE, "o-1")
    job = f"/admin/django_qless/job/{jid}"
    labels = read(admin_browser.get(f"{job}/change/")).text
    for verb in ("move", "edit", "run"):
        assert f"{job}/{verb}/" not in admin_browser.get(f"{job}/change/").text
        page = read(admin_browser.get(f"{job}/{verb}/"), 404)
        assert "carries the entity “o-1”, which stays in its queue" in page.text
        assert admin_browser.post(f"{job}/{verb}/", {}).status_code == 404
    assert "Cancel" in labels
    moved = CHANGES["move"].apply(qless, [jid], "other")
    assert "carries an entity: push payloads to it" in moved.refused[jid]
    handle = jobs[jid]
    with pytest.raises(WrongState, match="carries an entity: push payloads to it"):
        handle.move("other")
    assert qless.entity(QUEUE, "o-1").waiting
