"""Django settings of the test run: production's, in a scratch home, without the operator's own."""

from __future__ import annotations

import atexit
import os
import shutil

from tests import run_dir

_OURS = ("PROTOAGENT", "ALEPH_", "OPENAI_", "ANTHROPIC_", "OLLAMA_", "SCHEDULER_DISABLED")
for _name in [name for name in os.environ if name.startswith(_OURS)]:
    if not _name.startswith(run_dir.VARIABLE):
        del os.environ[_name]
os.environ.pop("REDIS_URL", None)

HOME = run_dir.root() / run_dir.worker()
os.environ["PROTOAGENT_HOME"] = str(HOME)
os.environ.setdefault("LOG_LEVEL", "WARNING")


def _remove_run_directory() -> None:
    if run_dir.is_owner():
        shutil.rmtree(run_dir.root(), ignore_errors=True)


atexit.register(_remove_run_directory)

from protoagent.settings import *  # noqa: E402, F403 — the environment above must be set first
from protoagent.settings import DATABASES  # noqa: E402

ALLOWED_HOSTS = ["localhost", "127.0.0.1", "[::1]", "testserver"]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

if DATABASES["default"]["ENGINE"].endswith("sqlite3"):
    # A file, not memory: threads, WAL and lock errors are then the same as in production.
    DATABASES["default"]["TEST"] = {"NAME": str(HOME / "test.sqlite3")}
else:
    # A connection that a thread keeps would hold locks against the emptying of tables.
    DATABASES["default"]["CONN_MAX_AGE"] = 0

(HOME / "static").mkdir(parents=True, exist_ok=True)

STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
WHITENOISE_USE_FINDERS = True
