"""Names this server answers to, proxies it believes, and origins it accepts. Pure functions."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterable

from protoagent.core.errors import BadValue, Forbidden

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
WILDCARDS = ("0.0.0.0", "::")  # noqa: S104 — recognised, not bound
_ORIGIN = re.compile(r"(https?)://(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?\Z")
_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?\Z")
_DEFAULT_PORTS = {"http": "80", "https": "443"}


def allowed(bind: str, extra: str) -> list[str]:
    """The host names that requests may name: loopback, the bind, and `extra` (comma-separated).

    A server bound to every address also answers to its own host name and addresses.
    Raises BadValue for a pattern that would allow every name: then any web page could
    reach the console by pointing a name of its own at this machine.
    """
    names = ["localhost", "127.0.0.1", "[::1]"]
    names += _own_names() if bind in WILDCARDS else [bracketed(bind)]
    for name in (part.strip() for part in extra.split(",")):
        if "*" in name or name == ".":
            raise BadValue("PROTOAGENT_ALLOWED_HOSTS takes host names; * would allow every one")
        if name:
            names.append(bracketed(name))
    return list(dict.fromkeys(names))


def bracketed(host: str) -> str:
    """`host` as it stands in a URL: an IPv6 address gets brackets."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def _own_names() -> list[str]:
    names = [socket.gethostname().lower()]
    for family, elsewhere in (
        (socket.AF_INET, ("192.0.2.1", 9)),
        (socket.AF_INET6, ("2001:db8::1", 9)),
    ):
        try:
            # Connecting a datagram socket sends nothing; it only picks the own address.
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect(elsewhere)
                names.append(bracketed(probe.getsockname()[0]))
        except (OSError, RuntimeError):
            continue
    return names


def parse_proxies(text: str) -> tuple[Network, ...]:
    """The networks in a comma-separated list. Raises BadValue for one that is none."""
    networks: list[Network] = []
    for part in (part.strip() for part in text.split(",")):
        if not part:
            continue
        try:
            networks.append(ipaddress.ip_network(part, strict=False))
        except ValueError:
            raise BadValue(
                f"PROTOAGENT_TRUSTED_PROXIES has addresses like 10.0.0.0/8, not {part!r}"
            ) from None
    return tuple(networks)


def is_trusted(address: str, proxies: Iterable[Network]) -> bool:
    """Whether `address` belongs to a proxy whose forwarding headers are believed."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped is not None:
        ip = ip.ipv4_mapped
    return any(ip in network for network in proxies)


def client_address(peer: str, forwarded_for: str, proxies: tuple[Network, ...]) -> str:
    """Who asks: the peer, or, behind trusted proxies, the last address they did not add.

    What stands further to the left was written by the client and may be anything.
    """
    address = peer
    for hop in reversed([part.strip() for part in forwarded_for.split(",") if part.strip()]):
        if not is_trusted(address, proxies):
            return address
        try:
            address = str(ipaddress.ip_address(hop))
        except ValueError:
            return address
    return address


def check_origin(origin: str, host: str, *, is_secure: bool) -> None:
    """The page at `origin` came from this very host and port, or Forbidden is raised.

    `host` is the request's Host header, which the caller has checked to be an allowed
    name. A look-alike, another port, `null` and anything that is no plain origin are foreign.
    """
    page, here = _ORIGIN.match(origin), _HOST.match(host)
    if page is None or here is None:
        raise Forbidden("this origin may not connect")
    scheme, name, port = page.groups()
    if is_secure and scheme != "https":
        raise Forbidden("this origin may not connect")
    default = _DEFAULT_PORTS[scheme]
    if (name.lower(), port or default) != (here[1].lower(), here[2] or default):
        raise Forbidden("this origin may not connect")
