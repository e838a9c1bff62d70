"""One scratch directory per test run, shared by the run's xdist workers."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

VARIABLE = "PROTOAGENT_TEST_RUN"


def root() -> Path:
    """The directory of the whole run; the first process that asks makes it, its children use it."""
    known = os.environ.get(VARIABLE)
    if known and Path(known).is_dir():
        return Path(known)
    # Open to other users because PostgreSQL refuses to run as root and needs a data directory here.
    path = Path(tempfile.mkdtemp(prefix="protoagent-test-"))
    path.chmod(0o711)
    os.environ[VARIABLE] = str(path)
    os.environ[f"{VARIABLE}_OWNER"] = str(os.getpid())
    return path


def owner() -> int:
    """The process that made the directory: the run is over when it ends."""
    return int(os.environ[f"{VARIABLE}_OWNER"])


def is_owner() -> bool:
    """Whether this process made the directory and so removes it."""
    return os.environ.get(f"{VARIABLE}_OWNER") == str(os.getpid())


def worker() -> str:
    """The name of this xdist worker, or `main` without xdist."""
    return os.environ.get("PYTEST_XDIST_WORKER", "main")
