"""Fixtures of the tests of embedded servers: a folder, and processes that use it."""

from __future__ import annotations

import pytest

from django_qless.servers import embedded
from tests.servers.users import User, log_of


@pytest.fixture
def directory(tmp_path):
    directory = tmp_path / ".qless"
    yield directory
    if directory.exists():
        embedded.stop(directory)


@pytest.fixture
def user(directory):
    """A function that starts a user and waits until it has its server."""
    users = []

    def start(**options):
        users.append(User(directory, **options))
        socket = users[-1].answer()
        assert socket, log_of(directory)
        return users[-1]

    yield start
    for each in users:
        each.clear_away()
