"""Production's settings with tools that leave a trace on disk; for servers that tests kill."""

from __future__ import annotations

from protoagent.settings import *  # noqa: F403
from protoagent.settings import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "tests.process.crash_tools.CrashTools"]
