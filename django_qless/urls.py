"""URLs for machines: metrics, health, status and lag, behind one token.

    path("qless/", include("django_qless.urls"))

They answer 404 unless QLESS_MONITORING_TOKEN is set. (The admin's pages need no URLs.)
"""

from __future__ import annotations

from django.urls import path

from django_qless.monitoring import views

app_name = "django_qless"

urlpatterns = [
    path("metrics", views.metrics, name="metrics"),
    path("timings", views.timings, name="timings"),
    path("health", views.health, name="health"),
    path("status", views.status, name="status"),
    path("lag", views.lag, name="lag"),
]
