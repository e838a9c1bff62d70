"""Network off: connecting anywhere but to this machine raises, for the whole test run."""

from __future__ import annotations

import ipaddress
import socket
from typing import Any

_LOCAL_NAMES = {"localhost", "localhost.localdomain", "ip6-localhost", ""}


class NetworkIsOff(RuntimeError):
    """A test tried to leave the machine. Use a fake from tests/fakes instead."""


def is_local(host: Any) -> bool:
    """Whether `host` is this machine by name or by a loopback or wildcard address."""
    if host is None:
        return True
    text = host.decode() if isinstance(host, bytes) else str(host)
    if text.lower() in _LOCAL_NAMES:
        return True
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


def _check(address: Any) -> None:
    # Unix sockets have a path instead of a tuple.
    if isinstance(address, tuple) and not is_local(address[0]):
        raise NetworkIsOff(f"the test run has no network; something connected to {address!r}")


def install() -> None:
    """Refuse foreign connections, datagrams and name look-ups in this process from now on."""
    if getattr(socket, "_protoagent_guard", False):
        return
    socket._protoagent_guard = True  # type: ignore[attr-defined]
    connect, connect_ex, sendto = (
        socket.socket.connect,
        socket.socket.connect_ex,
        socket.socket.sendto,
    )
    look_up = socket.getaddrinfo

    def guarded_connect(self: socket.socket, address: Any) -> None:
        _check(address)
        connect(self, address)

    def guarded_connect_ex(self: socket.socket, address: Any) -> int:
        _check(address)
        return connect_ex(self, address)

    def guarded_sendto(self: socket.socket, *args: Any) -> int:
        _check(args[-1])
        return sendto(self, *args)

    def guarded_look_up(host: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_local(host) and not _is_address(host):
            raise NetworkIsOff(f"the test run has no network; something looked up {host!r}")
        return look_up(host, *args, **kwargs)

    socket.socket.connect = guarded_connect  # type: ignore[method-assign]
    socket.socket.connect_ex = guarded_connect_ex  # type: ignore[method-assign]
    socket.socket.sendto = guarded_sendto  # type: ignore[method-assign,assignment]
    socket.getaddrinfo = guarded_look_up


def _is_address(host: Any) -> bool:
    """An address literal asks no name server, so looking it up leaves nothing."""
    try:
        ipaddress.ip_address(host.decode() if isinstance(host, bytes) else str(host))
    except ValueError:
        return False
    return True
