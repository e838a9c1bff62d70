"""Production's settings, with an app whose tools answer, fail and log secrets."""

from __future__ import annotations

from protoagent.settings import *  # noqa: F403
from protoagent.settings import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "tests.security.leaks.apps.LeaksConfig"]
