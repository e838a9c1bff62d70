"""Whether the database has the schema that this code expects."""

from __future__ import annotations

from django.db import connection
from django.db.migrations.executor import MigrationExecutor

_is_current = False


def unapplied() -> list[str]:
    """The migrations that this code has and the database has not, as `app.name`, in order.

    Once there are none, a process is not asked again: its code does not change any more.
    """
    global _is_current
    if _is_current:
        return []
    executor = MigrationExecutor(connection)
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    _is_current = not plan
    return [f"{migration.app_label}.{migration.name}" for migration, _ in plan]
