"""The console's pages and fragments."""

from __future__ import annotations

from protoagent.console import chat_urls, session_urls

app_name = "console"
urlpatterns = [
    *session_urls.urlpatterns,
    *chat_urls.urlpatterns,
]
