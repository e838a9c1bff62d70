"""Routes to try the doors with: beside the real ones, one of each kind."""

from __future__ import annotations

from django.core.exceptions import PermissionDenied, SuspiciousOperation
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.urls import path
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from protoagent.core import errors
from protoagent.urls import handler400, handler403, handler404, handler500, urlpatterns
from protoagent.web import auth, bodies
from protoagent.web.htmx import render_panel

__all__ = ["handler400", "handler403", "handler404", "handler500"]

FAILURES = {
    "bad": errors.BadValue("this is bad"),
    "missing": errors.NotFound("no thing 7"),
    "conflict": errors.Conflict("changed meanwhile"),
    "form": errors.InvalidForm("mend it", {"name": "is missing"}),
    "often": errors.TooMany("slow down"),
    "http404": Http404("private text"),
    "denied": PermissionDenied("secret rule"),
    "suspicious": SuspiciousOperation("inner detail"),
    "boom": RuntimeError("secret detail"),
}


@csrf_exempt
def whoami(request: HttpRequest) -> JsonResponse:
    actor = auth.actor_of(request)
    user = getattr(request.user, "username", "")
    return JsonResponse({"name": actor.name, "scope": actor.scope.value, "user": user})


def fail(request: HttpRequest, kind: str) -> HttpResponse:
    raise FAILURES[kind]


@auth.judges_scope
def rpc(request: HttpRequest) -> JsonResponse:
    return JsonResponse({"scope": auth.actor_of(request).scope.value})


@auth.operator_only
def operators(request: HttpRequest) -> HttpResponse:
    return HttpResponse("for operators")


@auth.operator_only
async def operators_async(request: HttpRequest) -> HttpResponse:
    return HttpResponse("for operators")


@auth.watchers
def seen(request: HttpRequest) -> HttpResponse:
    return HttpResponse("a viewer may post this")


def zone(request: HttpRequest) -> HttpResponse:
    return HttpResponse(timezone.get_current_timezone_name())


def panel(request: HttpRequest) -> HttpResponse:
    return render_panel(request, "error.html", "_error.html", {"title": "T", "detail": "d"})


def body(request: HttpRequest) -> JsonResponse:
    return JsonResponse({"got": bodies.read_object(request)})


def post_only(request: HttpRequest) -> HttpResponse:
    return HttpResponse("posted")


urlpatterns = [
    *urlpatterns,
    path("page/", whoami),
    path("api/thing", whoami),
    path("api/inbox", whoami),
    path("a2a", whoami),
    path("v1/models", whoami),
    path("v1x", whoami),
    path("api/rpc", rpc),
    path("operators/", operators),
    path("operators/async/", operators_async),
    path("seen/", seen),
    path("zone/", zone),
    path("panel/", panel),
    path("api/body", body),
    path("api/post", require_POST(post_only)),
    path("post/", require_POST(post_only)),
    path("fail/<str:kind>/", fail),
    path("api/fail/<str:kind>", fail),
    path("healthz", lambda request: JsonResponse({"ok": True})),
]
