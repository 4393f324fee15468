"""django_qless as a contender in a harness that compares job queues.

Copy this file into the harness as `contenders/django_qless_.py`. It is the adapter, the
settings module and the app of a Django project in one, so that nothing else is needed.
"""

from __future__ import annotations

import os

from contenders import ROLE, URL

NAME = "django_qless"
DISTS = ["django-qless", "Django", "redis", "hiredis"]
ENQUEUE, BULK = 20000, 100000
MODES = {"prefork, 1 child": 60000}

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
        """Makes the harness's two functions jobs, in producers and workers alike."""

        name = "contenders"

        def ready(self):
            import jobs

            from django_qless import job

            self.noop, self.stamp = job(jobs.noop), job(jobs.stamp)


def producer():
    os.environ.update(ENV)
    import django
    from django.apps import apps

    django.setup()
    noop = apps.get_app_config("contenders").noop
    stamp = apps.get_app_config("contenders").stamp

    def put_many(count):
        noop.enqueue_many([noop.args(number) for number in range(count)])

    return noop.delay, stamp.delay, put_many


def worker(mode):
    import sys

    words = ["qless_worker", "--concurrency", mode.split()[1]]
    return [sys.executable, "-m", "django", *words], ENV


def pending(r):
    return r.zcard("ql:q:default-work") + r.zcard("ql:q:default-locks")
