"""URLs read by machines: include them to switch them on.

    path("qless/", include("django_qless.urls"))

The setting QLESS_TOKEN is what a reader sends: `Authorization: Bearer <token>`. Without
it, each request is answered by 404.
"""

from __future__ import annotations

from django.urls import path

from django_qless.monitoring import queues

urlpatterns = [path("queues.json", queues, name="qless-queues")]
