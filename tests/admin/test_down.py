"""Pages of a server that is down: what they say of what was changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.test import override_settings

from django_qless.core import Client, ConnectionLost
from tests.admin.reading import read

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from django.test import Client as Browser

APP = "/admin/django_qless/"

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("path", ["queue/", "job/", "job/j1/change/", "overview/"])
def test_a_page_says_that_nothing_was_changed(
    as_user: Callable[[str], Browser], tmp_path: Path, path: str
) -> None:
    gone = {"default": {"LOCATION": f"unix://{tmp_path}/nowhere.sock"}}
    with override_settings(QLESS=gone):
        text = read(as_user("superuser").get(APP + path)).text
    assert "othing was changed" in text
    assert "not known which" not in text


def test_an_action_says_what_is_known_of_it(
    qless: Client, as_user: Callable[[str], Browser], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its reply is lost; what the page asks of the server then only reads."""
    qless.queue("mail").put("j1", "shop.Send", "{}")

    def lose(*args: Any, **options: Any) -> None:
        raise ConnectionLost("no answer")

    monkeypatch.setattr(Client, "pause", lose)
    text = read(as_user("superuser").post(f"{APP}queue/mail/pause/")).text
    assert "not known which" in text
    assert "othing was changed" not in text
