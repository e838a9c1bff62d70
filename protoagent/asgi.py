"""HTTP to Django, WebSockets to the consumers of `routing`."""

from __future__ import annotations

import os
from typing import Any

from channels.routing import ProtocolTypeRouter, URLRouter
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "protoagent.settings")
_django = get_asgi_application()

from protoagent.routing import websocket_urlpatterns  # noqa: E402 — consumers need the app registry
from protoagent.runtime import runner  # noqa: E402

_routes = ProtocolTypeRouter({"http": _django, "websocket": URLRouter(websocket_urlpatterns)})


async def application(scope: Any, receive: Any, send: Any) -> None:
    """The web role: whatever it serves, turns that are started here run on this event loop."""
    runner.attach()
    await _routes(scope, receive, send)
