"""Loaded at the start of every server that a test starts, so that it has no network either."""

from tests import netguard

netguard.install()
