"""Results that have expired: their `result_ttl` has passed."""

from __future__ import annotations

import asyncio
import pickle

import pytest

from django_qless.conf.connections import connections
from django_qless.exceptions import JobGone, NoResult, ResultGone
from tests.jobs_app import flows, jobs
from tests.real_servers import poll


def wait_until_expired(redis_client, *handles) -> None:
    names = [f"ql:result:{handle.jid}" for handle in handles]
    poll(lambda: not redis_client.exists(*names), what="the end of the results")


def test_a_result_is_kept_for_an_hour(qless, work, redis_client) -> None:
    handle = jobs.add.delay(5)
    work()
    assert 3590 < redis_client.ttl(f"ql:result:{handle.jid}") <= 3600


def test_expired_result_is_gone(qless, work, redis_client) -> None:
    handle = jobs.add.using(result_ttl=1).delay(5)
    nothing = flows.silent.delay()
    work()
    assert handle.result() == 5
    wait_until_expired(redis_client, handle)
    assert handle.refresh().state == "complete"
    with pytest.raises(ResultGone, match="result_ttl") as caught:
        handle.result()
    with pytest.raises(ResultGone, match="result_ttl"):
        handle.result(timeout=1)
    assert isinstance(caught.value, NoResult)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    assert nothing.result() is None  # which is what it returned

    async def ask() -> None:
        with pytest.raises(ResultGone, match="result_ttl"):
            await handle.aresult()
        await connections.aclose()

    asyncio.run(ask())
    qless.config_set("jobs-history-count", 0)
    jobs.add.delay(7)
    work()
    with pytest.raises(JobGone):
        handle.result()


@pytest.mark.parametrize("gather", [flows.gather, flows.agather])
def test_expired_results_of_dependencies(qless, work, redis_client, gather) -> None:
    first = jobs.add.using(queue="first").delay(1)
    short = jobs.add.using(queue="first", result_ttl=1).delay(2)
    whole = gather.using(after=[first, short], retries=0).delay()
    none = flows.silent.using(queue="first").delay()
    instead = gather.using(after=[first, none, short]).delay(default=0)
    work("first")
    wait_until_expired(redis_client, short)
    work()
    failure = whole.refresh().failure
    assert f"ResultGone: This job depends on job {short.jid}, and" in failure.message
    assert "result_ttl" in failure.message
    assert instead.result() == {first.jid: 1, short.jid: 0}
