"""Tests that were written and not yet seen green as a whole; TRIAL=1 runs them."""

from __future__ import annotations

import os

import pytest

unproven = pytest.mark.skipif(
    os.environ.get("TRIAL") != "1",
    reason="not yet seen green as a whole on a quiet machine; TRIAL=1 runs it",
)
