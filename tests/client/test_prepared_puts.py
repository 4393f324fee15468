"""A prepared put is the put that it stands for."""

from __future__ import annotations

from typing import Any

import pytest

from django_qless.core import BadArgument, Client, Put, TooBig
from django_qless.core.commands import Commands
from django_qless.core.put import PreparedPut

SHAPES = [
    Put("", "q", "k", ""),
    Put("", "quäue", "k", "", 60, 3, 1, ["a", "ü"], (), '{"x":1}', True),
    Put("", "q", "k", "", on_failure="run", unique="key", expires=60, conflict="take"),
]


@pytest.mark.parametrize("shape", SHAPES)
def test_it_sends_what_put_sends(client: Client, shape: Put) -> None:
    prepared = PreparedPut(shape).call("w", "job", '"ä"')
    plain: Any = Commands.put.build(
        *(client, "w", shape.queue, "job", shape.klass, '"ä"', shape.delay),
        priority=shape.priority,
        retries=shape.retries,
        tags=shape.tags,
        depends=shape.depends,
        context=shape.context,
        absent=shape.absent,
        on_failure=shape.on_failure,
        unique=shape.unique,
        conflict=shape.conflict,
        expires=shape.expires,
    )
    script = client.script
    assert script.request(prepared, "me:1") == script.request(plain, "me:1")
    assert client.run(prepared) == "job"
    job = client.get("job")
    assert job is not None
    assert (job.queue, job.data) == (shape.queue, '"ä"')


def test_the_shape_is_checked_once_and_the_rest_by_the_core(client: Client) -> None:
    with pytest.raises(BadArgument, match="queue"):
        PreparedPut(Put("", "q*", "k", ""))
    prepared = PreparedPut(SHAPES[0])
    with pytest.raises(BadArgument, match="jid"):
        client.run(prepared.call("w", "", "{}"))
    with pytest.raises(TooBig, match="data"):
        client.run(prepared.call("w", "job", '"' + "x" * 524_288 + '"'))
    assert client.queues() == []
