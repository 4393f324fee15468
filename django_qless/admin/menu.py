"""The tabs that all pages have, in the order in which an operator asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from django.utils.text import capfirst

from django_qless import models

if TYPE_CHECKING:
    from django.contrib.admin import AdminSite

    from django_qless.admin.links import Links

ORDER = (
    models.Overview,
    models.Queue,
    models.Job,
    models.Failure,
    models.Worker,
    models.Recurring,
    models.Tracked,
    models.Tag,
    models.Option,
)


class Tab(NamedTuple):
    """A tab of the menu."""

    text: str
    url: str
    is_current: bool


def menu(site: AdminSite, links: Links, current: str) -> list[Tab]:
    """Return the tabs that a site has; `current` is the model that the page is of."""
    return [
        Tab(
            capfirst(str(model._meta.verbose_name_plural)),
            links.url(f"{model._meta.model_name}_changelist"),
            model._meta.model_name == current,
        )
        for model in ORDER
        if site.is_registered(model)
    ]
