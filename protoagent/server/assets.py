"""Static files under hashed names, so that browsers may keep them for a year."""

from __future__ import annotations

import fcntl
import hashlib
import sys
from pathlib import Path

import django
from django.conf import settings
from django.core.management import call_command
from whitenoise.storage import CompressedManifestStaticFilesStorage

from protoagent import __version__
from protoagent.config import paths


class HashedStorage(CompressedManifestStaticFilesStorage):
    """Rewrites the imports between our ES modules too: one module, one name, one instance.

    Only in our own folder: vendored scripts of packages import names that are no files.
    """

    patterns = (
        *CompressedManifestStaticFilesStorage.patterns,
        ("js/*.js", CompressedManifestStaticFilesStorage._js_module_import_aggregation_patterns[1]),
    )


def are_collected() -> bool:
    """Whether STATIC_ROOT holds what the checkout holds."""
    stamp = Path(settings.STATIC_ROOT) / ".stamp"
    return stamp.is_file() and stamp.read_text() == _signature()


def collect() -> None:
    """STATIC_ROOT holds what the checkout holds. Of two processes of a home one does the work."""
    with (paths.run_dir() / "static.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not are_collected():
            _collect()


def _collect() -> None:
    print("collecting static files …", file=sys.stderr, flush=True)
    call_command("collectstatic", interactive=False, verbosity=0, clear=True)
    (Path(settings.STATIC_ROOT) / ".stamp").write_text(_signature())


def _signature() -> str:
    """Changes with any file of ours and with the packages that bring their own."""
    digest = hashlib.sha256(f"{__version__} {django.VERSION}".encode())
    for folder in settings.STATICFILES_DIRS:
        for path in sorted(Path(folder).rglob("*")):
            if path.is_file():
                stat = path.stat()
                digest.update(f"{path}:{stat.st_size}:{stat.st_mtime_ns}".encode())
    return digest.hexdigest()
