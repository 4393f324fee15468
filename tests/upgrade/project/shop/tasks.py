"""Tasks of Django's framework, in a project that is upgraded."""

from __future__ import annotations

import importlib

from tasks_of_django import FRAMEWORK

from shop.jobs import note

task = importlib.import_module(FRAMEWORK).task


@task(takes_context=True)
def count(context, number):
    note()
    return number + context.attempt
