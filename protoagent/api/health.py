"""Whether the process answers, and whether the instance can do its work. Public, no secrets."""

from __future__ import annotations

from django.db import DatabaseError, connection
from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from protoagent.core import migrations
from protoagent.journal.services import processes

Failing = dict[str, str]


@require_safe
@never_cache
def healthz(request: HttpRequest) -> JsonResponse:
    """The process answers; nothing else is looked at."""
    return JsonResponse({"ok": True})


@require_safe
@never_cache
def readyz(request: HttpRequest) -> JsonResponse:
    """200 when turns can run, else 503 with one sentence for each part that fails."""
    failing = failing_database() or failing_roles()
    if not failing:
        return JsonResponse({"ok": True})
    response = JsonResponse({"ok": False, "failing": failing}, status=503)
    # An expected answer to a probe that asks every few seconds, not an error to be logged.
    response._has_been_logged = True  # type: ignore[attr-defined]
    return response


def failing_database() -> Failing:
    """The database answers and has every migration of this code."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
            cursor.fetchone()
        missing = migrations.unapplied()
    except DatabaseError:
        # The reason names hosts and users; it belongs to the log and to `doctor`.
        return {"database": "does not answer"}
    if missing:
        return {"migrations": f"{len(missing)} not applied, the first is {missing[0]}"}
    return {}


def failing_roles() -> Failing:
    """A worker and a ticker have said within 15 s that they work."""
    sentence = f"no sign of life for {processes.STALE_AFTER_S:g} s"
    return {role: sentence for role in ("worker", "ticker") if not processes.is_alive(role)}
