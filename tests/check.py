"""`make check`: everything about the code that can be seen without running its tests.

Steps run two at a time; each prints its output as a whole when it has failed, and one
line when it has not. The exit code is the number of failed steps.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
PYTHON = [sys.executable, "-X", "utf8"]
# The slowest first, so that it does not run alone at the end.
STEPS = {
    "types": ["-m", "mypy"],
    "import contracts": ["-m", "tests.import_contracts"],
    "lint": ["-m", "ruff", "check", "."],
    "format": ["-m", "ruff", "format", "--check", "."],
    "django check": ["manage.py", "check", "--fail-level", "WARNING"],
    "migrations": ["manage.py", "makemigrations", "--check", "--dry-run"],
    "templates": ["-m", "djlint", "templates", "--lint", "--quiet"],
}


@dataclass(frozen=True)
class Outcome:
    """How one step went."""

    name: str
    code: int
    output: str
    seconds: float


def run(name: str, home: str) -> Outcome:
    """Run one step in the checkout, with a scratch instance home."""
    started = time.monotonic()
    result = subprocess.run(
        [*PYTHON, *STEPS[name]],
        cwd=CHECKOUT,
        env={**os.environ, "PROTOAGENT_HOME": home, "LOG_LEVEL": "WARNING", "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return Outcome(name, result.returncode, result.stdout, time.monotonic() - started)


def main(names: list[str]) -> int:
    """Run the named steps, or all; how many failed."""
    unknown = set(names) - set(STEPS)
    if unknown:
        sys.exit(f"unknown step {', '.join(sorted(unknown))}; there are: {', '.join(STEPS)}")
    failed = 0
    with tempfile.TemporaryDirectory() as home, ThreadPoolExecutor(2) as pool:
        for future in as_completed([pool.submit(run, name, home) for name in names or STEPS]):
            outcome = future.result()
            failed += outcome.code != 0
            verdict = "FAIL" if outcome.code else "ok  "
            print(f"{verdict} {outcome.name} ({outcome.seconds:.1f} s)")
            if outcome.code:
                print(outcome.output.strip() + "\n")
            sys.stdout.flush()
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
