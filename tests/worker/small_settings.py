"""The smallest project: the jobs of the tests of workers, without a database."""

from __future__ import annotations

import json
import os

SECRET_KEY = "only for tests"
TIME_ZONE = "UTC"
INSTALLED_APPS = ["django_qless", "tests.worker"]
QLESS = {"default": json.loads(os.environ.get("QLESS_TEST_ALIAS", "{}"))}
QLESS_MODULES = ["jobs", "contract_jobs", "process_jobs"]
QLESS_MODULES += os.environ.get("QLESS_TEST_JOBS", "").split()
