"""The doors are tried on routes of their own."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _sample_routes(settings, clean_env):
    settings.ROOT_URLCONF = "tests.web.urls"
