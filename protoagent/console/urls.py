"""The console's pages and fragments."""

from __future__ import annotations

from protoagent.console import session_urls

app_name = "console"
urlpatterns = [
    *session_urls.urlpatterns,
]
