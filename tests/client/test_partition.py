"""A split network: what a primary on the smaller side acknowledges is lost later.

All that it acknowledges with REPLICAS is not. By night on each kind of server.
"""

from __future__ import annotations

import pytest
import redis

from django_qless.core import Client, NotReplicated, Put
from django_qless.core.replication import Replication
from tests.drawing import ALL
from tests.real_servers import available_kinds
from tests.sentinels import Watched

DURING = 30

LATE = Replication(1, 0.05)
PATIENT = Replication(1, 10)


@pytest.mark.parametrize("kind", available_kinds()[None if ALL else -1 :])
def test_a_split(kind: str) -> None:
    with (
        Watched(replicas=2, sentinels=3, kind=kind) as group,
        redis.Redis(port=group.primary.port) as server,
        Client(server, patience=5) as trusting,
        Client(server, patience=5, replication=PATIENT) as careful,
        Client(group.master(), patience=30, replication=PATIENT) as following,
    ):
        trusting.put("", "q", "before", "k", "{}")
        acknowledged = {careful.put("", "q", "before-too", "k", "{}")}
        acknowledged.add(following.put("", "q", "before-as-well", "k", "{}"))
        careful.replication = following.replication = LATE
        promoted = group.part()
        believed = set()
        errors: list[NotReplicated] = []
        for number in range(DURING):
            believed.add(trusting.put("", "q", f"trusting-{number}", "k", "{}"))
            try:
                acknowledged.add(careful.put("", "q", f"careful-{number}", "k", "{}"))
            except NotReplicated as error:
                errors.append(error)
        # One that asks the sentinels whenever it connects; it is connected.
        with pytest.raises(NotReplicated):
            following.put("", "q", "again", "k", "{}")
        batch = [Put(f"batch-{number}", "q", "k", "{}") for number in range(5)]
        with pytest.raises(NotReplicated):
            careful.put_many("", batch)
        group.heal()
        group.wait_for_link(group.primary)
        following.replication = PATIENT
        acknowledged.add(following.put("", "q", "again", "k", "{}"))
        # This is what REPLICAS is for.
        with promoted.client() as now, Client(now) as client:
            assert len(acknowledged) == 3
            assert {jid for jid in acknowledged if client.get(jid)} == acknowledged
            assert not any(map(client.get, believed))
            assert len(believed) == len(errors) == DURING
