"""Run import-linter; its console script is not a module."""

from __future__ import annotations

import sys

from importlinter.cli import lint_imports_command

if __name__ == "__main__":
    sys.argv = ["lint-imports", "--no-cache"]
    lint_imports_command()
