"""django_qless as a contender in a harness that compares job queues.

Copy this file into the harness as `contenders/django_qless_.py`. It is the adapter, the
settings module and the app of a Django project in one, so that nothing else is needed.
"""

from __future__ import annotations

import os

from contenders import MODE, ROLE, URL

NAME = "django_qless"
DISTS = ["django-qless", "Django", "redis", "hiredis"]
ENQUEUE, BULK = 20000, 100000
# What the worker is asked to be, and the jobs of its drain.
WORDS = {
    "prefork, 1 child": ("--concurrency", "1"),
    "prefork, 2 children": ("--concurrency", "2"),
    "fork, 1 job at a time": ("--pool", "fork"),
    "threads, 10": ("--pool", "threads", "--concurrency", "10"),
    "coroutines, 100": ("--pool", "coroutines", "--concurrency", "100"),
}
MODES = dict(zip(WORDS, (60000, 60000, 2500, 30000, 40000), strict=True))

ENV = {"DJANGO_SETTINGS_MODULE": "contenders.django_qless_"}

if ROLE:
    from django.apps import AppConfig

    SECRET_KEY, USE_TZ, DEBUG = "of-no-importance", True, False
    DATABASES = {
        "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}
    }
    INSTALLED_APPS = ["django_qless", "contenders.django_qless_.Harness"]
    QLESS = {"default": {"LOCATION": URL}}

    class Harness(AppConfig):
        """Makes the harness's functions jobs, in producers and workers alike."""

        name = "contenders"

        def ready(self):
            import jobs

            from django_qless import job

            self.noop, self.stamp = job(jobs.noop), job(jobs.stamp)
            self.anoop, self.astamp = job(jobs.anoop), job(jobs.astamp)


def producer():
    os.environ.update(ENV)
    import django
    from django.apps import apps

    django.setup()
    harness = apps.get_app_config("contenders")
    noop, stamp = harness.noop, harness.stamp
    if MODE.startswith("coroutines"):
        noop, stamp = harness.anoop, harness.astamp

    def put_many(count):
        noop.enqueue_many([noop.args(number) for number in range(count)])

    return noop.delay, stamp.delay, put_many


def worker(mode):
    import sys

    return [sys.executable, "-m", "django", "qless_worker", *WORDS[mode]], ENV


def pending(r):
    return r.zcard("ql:q:default-work") + r.zcard("ql:q:default-locks")
