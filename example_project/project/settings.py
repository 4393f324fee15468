"""Settings of the example: SQLite, an embedded Valkey, the admin, two apps."""

from __future__ import annotations

from pathlib import Path

BASE_DIR = Path(__file__).resolve().parent.parent

SECRET_KEY = "an example keeps no secrets"
DEBUG = True
TIME_ZONE = "UTC"
USE_TZ = True
ROOT_URLCONF = "project.urls"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "django_qless",
    "codebase",
    "shop",
]

QLESS = {
    "default": {
        # Jobs run here, in a private server whose data is in BASE_DIR/.qless.
        "EMBEDDED": True,
        "COMPRESSION": "zlib",
        "QUEUES": {
            "measurements": {"heartbeat": 30, "weight": 2},
            "publishing": {"max_concurrency": 1},
            # Its jobs outlive the worker.
            "archives": {"heartbeat": 60, "detached_limit": 1},
        },
    }
}

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": BASE_DIR / "db.sqlite3",
        # Several worker processes write at once. With a write-ahead log readers and the
        # writer do not disturb each other; a transaction that takes its lock when it
        # begins waits for its turn, where one that asks later would be refused.
        "OPTIONS": {
            "timeout": 30,
            "transaction_mode": "IMMEDIATE",
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL",
        },
    }
}

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    }
]

STATIC_URL = "static/"
