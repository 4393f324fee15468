"""The URLs for machines, as a project includes them."""

from __future__ import annotations

from django.urls import include, path

urlpatterns = [path("qless/", include("django_qless.urls"))]
