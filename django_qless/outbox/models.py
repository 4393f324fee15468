"""The table of the outbox."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _


class Entry(models.Model):
    """A call to the server that enqueues, until it is known to be carried out."""

    id = models.BigAutoField(primary_key=True)
    delivery = models.CharField(max_length=80)
    """The id of the request: the server knows by it that it was delivered."""
    source = models.CharField(max_length=40)
    """The process that has written it. The order of one process is kept."""
    alias = models.CharField(max_length=100)
    """The alias of QLESS that it goes to."""
    created = models.DateTimeField(db_default=Now())
    """When it was written, by the database's clock."""
    jobs = models.PositiveIntegerField(default=1)
    """How many jobs it enqueues; 0 for a schedule."""
    summary = models.CharField(max_length=200)
    """What it enqueues, for people."""
    command = models.TextField()
    """The call: see `calls.py`."""

    class Meta:
        verbose_name = _("outbox entry")
        verbose_name_plural = _("outbox entries")
        default_permissions = ()
        # What a sweep asks for: the first of an alias.
        indexes = [models.Index(fields=["alias", "id"], name="qless_outbox_alias")]

    def __str__(self) -> str:
        return f"{self.summary} ({self.pk})"
