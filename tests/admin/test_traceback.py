"""Failure messages taken apart."""

from __future__ import annotations

import sysconfig

import pytest
from django.template.loader import render_to_string

from django_qless.admin.components.traceback import trace
from django_qless.admin.formatting import head, tail

STANDARD = sysconfig.get_path("stdlib")

CHAINED = f"""Traceback (most recent call last):
  File "/srv/shop/orders/jobs.py", line 87, in charge
    gateway.charge(order.card)
    ^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "{STANDARD}/json/decoder.py", line 5, in decode
    raise JSONDecodeError
  File "/venv/lib/python3.12/site-packages/requests/api.py", line 59, in request
    return session.request()
KeyError: 'card'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/srv/shop/orders/jobs.py", line 90, in charge
    raise Declined("no funds")
shop.payment.Declined: no funds:
two lines
"""


def test_a_chain_of_exceptions() -> None:
    found = trace(CHAINED)
    assert found.headline == "shop.payment.Declined: no funds:"
    frames = [section for section in found.sections if section.frames]
    assert [(each.is_own, len(each.frames)) for each in frames] == [
        (True, 1),
        (False, 2),
        (True, 1),
    ]
    first = frames[0].frames[0]
    assert (first.file, first.line, first.name) == (
        "/srv/shop/orders/jobs.py",
        "87",
        "charge",
    )
    assert first.code == ["gateway.charge(order.card)", "^" * 26]


def test_nothing_is_lost() -> None:
    found = trace(CHAINED)
    texts = []
    for section in found.sections:
        texts += section.lines
        for frame in section.frames:
            texts.append(f'  File "{frame.file}", line {frame.line}, in {frame.name}')
            texts += [f"    {line}" for line in frame.code]
    assert "\n".join(texts) == CHAINED.rstrip("\n")


@pytest.mark.parametrize(
    ("file", "is_own"),
    [
        ("/srv/shop/orders/jobs.py", True),
        ("C:\\shop\\jobs.py", True),
        (f"{STANDARD}/json/decoder.py", False),
        ("/venv/lib/python3.12/site-packages/requests/api.py", False),
        ("/usr/lib/python3/dist-packages/requests/api.py", False),
        ("C:\\venv\\Lib\\site-packages\\requests\\api.py", False),
        ("<frozen importlib._bootstrap>", False),
    ],
)
def test_whose_a_call_is(file: str, is_own: bool) -> None:
    [section] = trace(f'  File "{file}", line 1, in f\n    g()').sections
    assert section.frames[0].is_own is is_own


def test_of_a_thousand_calls_the_last_stay_as_they_are() -> None:
    calls = [f'  File "/srv/shop/tree.py", line {n}, in walk' for n in range(1000)]
    found = trace("\n".join([*calls, "RecursionError: too deep"]))
    assert sum(len(each.frames) for each in found.sections) == 600
    assert found.sections[-1].lines == [*calls[600:], "RecursionError: too deep"]
    assert found.headline == "RecursionError: too deep"


def test_many_calls_of_ones_own_are_folded() -> None:
    call = '  File "/srv/shop/tree.py", line {}, in walk\n    walk(child)\n'
    calls = "".join(call.format(number) for number in range(400))
    text = f"Traceback (most recent call last):\n{calls}RecursionError: too deep"
    found = trace(text)
    assert found.headline == "RecursionError: too deep"
    shown = [each for each in found.sections if each.frames]
    assert [(each.is_middle, len(each.frames)) for each in shown] == [
        *((False, 4), (True, 388), (False, 8)),
    ]
    assert [each.frames[0].line for each in shown] == ["0", "4", "392"]
    html = render_to_string(
        "admin/django_qless/parts/trace.html", {"trace": found, "message": head(text)}
    )
    assert "388 more calls</summary>" in html
    few = trace(text.replace(calls, calls[: len(calls) // 25]))
    assert [len(each.frames) for each in few.sections if each.frames] == [16]


def test_a_message_without_traceback() -> None:
    found = trace("\nThe gateway said no.\nTwice.")
    assert (found.headline, found.sections) == ("The gateway said no.", [])
    assert trace("").headline == ""


def test_a_group_of_exceptions() -> None:
    text = """  + Exception Group Traceback (most recent call last):
  |   File "/srv/shop/jobs.py", line 3, in gather
  |     raise ExceptionGroup("many", errors)
  | ExceptionGroup: many (1 sub-exception)
  +-+---------------- 1 ----------------
    | ValueError: a
    +------------------------------------"""
    (own,) = [section for section in trace(text).sections if section.frames]
    assert own.frames[0].name == "gather"


def test_texts_are_cut_by_what_they_take_as_html() -> None:
    assert head("abc", 10) == ("abc", False)
    assert head("<<<<", 10) == ("<<", True)
    assert tail("ab<<", 9) == ("b<<", True)
    assert tail("<<ab", 6) == ("ab", True)
    assert head("é" * 10, 5) == ("éé", True)
    assert head("\ud800", 100).text == "\ud800"
