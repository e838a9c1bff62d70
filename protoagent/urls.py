"""Every HTTP route, floor by floor."""

from __future__ import annotations

from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path

from protoagent.api import health

urlpatterns: list[URLPattern | URLResolver] = [
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("", include("protoagent.console.access_urls")),  # before the admin: its sign-in is ours
    path("admin/", admin.site.urls),
    path("", include("protoagent.api.urls")),
    path("", include("protoagent.console.urls")),
]

handler400 = "protoagent.web.errors.bad_request"
handler403 = "protoagent.web.errors.permission_denied"
handler404 = "protoagent.web.errors.not_found"
handler500 = "protoagent.web.errors.server_error"
