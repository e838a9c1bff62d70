"""Every WebSocket route."""

from __future__ import annotations

from channels.generic.websocket import AsyncWebsocketConsumer
from django.urls import URLPattern, re_path

from protoagent.api.chat_socket import ChatConsumer
from protoagent.console.link import LinkConsumer

NO_SUCH_SOCKET = 4404


class NoSuchSocket(AsyncWebsocketConsumer):
    """Accepts and closes with 4404, so that a client can read why."""

    async def connect(self) -> None:
        await self.accept()
        await self.close(NO_SUCH_SOCKET)


websocket_urlpatterns: list[URLPattern] = [
    re_path(r"^ws/$", LinkConsumer.as_asgi()),
    re_path(r"^ws/chat/(?P<session_key>[^/]+)/$", ChatConsumer.as_asgi()),
    re_path(r"", NoSuchSocket.as_asgi()),  # the last one: catches what no route knows
]
