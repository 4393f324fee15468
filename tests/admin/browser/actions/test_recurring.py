"""What is done to recurring jobs and to options, by clicking."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.admin.browser.actions.conftest import TIDIES
from tests.admin.browser.operating import ADD
from tests.real_servers import poll

if TYPE_CHECKING:
    from typing import Any

    from django_qless.core import Client
    from tests.admin.browser.operating import Operator

pytestmark = pytest.mark.xdist_group("actions")


def test_recurring(operator: Operator, client: Client) -> None:
    """It is run, paused, resumed, changed and removed."""
    # Its first tick does not come while the test runs: workers put ticks of any queue.
    data, rhythm = '{"v":1,"args":[1]}', {"every": 3600, "offset": 3600}
    client.schedule_set("clean", operator.own, ADD, data, **rhythm)

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
