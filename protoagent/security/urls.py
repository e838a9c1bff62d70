"""The one reading of a web address that somebody else wrote.

What is checked is what is used: an address is taken apart once and built anew from its
parts, so that no second parser can see another host in it. Pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from urllib.parse import quote, urljoin

import idna

from protoagent.core.errors import BadValue, Blocked
from protoagent.core.text import one_line

MAX_CHARS = 8192
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_DEFAULT_PORTS = {"http": 80, "https": 443}
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\Z")
_NUMBER = re.compile(r"(0[xX][0-9a-fA-F]*|[0-9]+)\Z")
_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f-\x9f\\\u2028\u2029]")
_SAFE = "/?:@!$&'()*+,;=~-._%[]|"


@dataclass(frozen=True)
class WebAddress:
    """An http or https address in its one canonical form, without user name and fragment.

    `host` is lower case ASCII or the canonical text of an IP address (IPv6 without
    brackets); `path` begins with a slash and includes the query.
    """

    scheme: str
    host: str
    port: int
    path: str = "/"

    @property
    def origin(self) -> str:
        """Scheme, host and port, the port only where it is not the usual one."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == _DEFAULT_PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}"

    @property
    def url(self) -> str:
        """The whole address, ready to be requested."""
        return self.origin + self.path


def parse(text: str) -> WebAddress:
    """The address written in `text`.

    Raises BadValue for anything but a plain http or https address: other schemes, user
    names, control characters, backslashes, and hosts that are no host.
    """
    text = text.strip()
    if len(text) > MAX_CHARS:
        raise BadValue(f"url is longer than {MAX_CHARS:,} characters")
    match = re.match(r"(https?)://", text, re.IGNORECASE)
    if match is None:
        raise BadValue("url must start with http:// or https://")
    if _FORBIDDEN.search(text):
        raise BadValue("url must not contain control characters or backslashes")
    rest = text[match.end() :].partition("#")[0]
    end = re.search(r"[/?]", rest)
    authority = rest[: end.start()] if end else rest
    path = rest[end.start() :] if end else ""
    scheme = match[1].lower()
    host, port = _authority(authority, scheme)
    if not path.startswith("/"):
        path = "/" + path
    return WebAddress(scheme, host, port, quote(path, safe=_SAFE, errors="replace"))


def follow(base: WebAddress, location: str) -> WebAddress:
    """Where a redirect from `base` to `location` leads.

    Raises Blocked when it leaves http and https, and BadValue when it is unreadable.
    """
    location = location.strip()
    if len(location) > MAX_CHARS or _FORBIDDEN.search(location):
        raise BadValue("the server redirects to an unreadable address")
    match = _SCHEME.match(location)
    if match is not None:
        if match[1].lower() not in _DEFAULT_PORTS:
            raise Blocked(f"blocked: redirect to a non-http(s) address ({match[1].lower()}:)")
        return parse(location)
    if location.startswith("//"):
        return parse(f"{base.scheme}:{location}")
    # A relative reference cannot name a host, so joining changes the path only.
    return parse(urljoin(base.url, location))


def host_name(text: str) -> str:
    """The canonical form of one host: a name in lower-case ASCII, or an IP address.

    Numbers are read the way browsers and the C library read them: `0x7f.1`, `017700000001`
    and `2130706433` are 127.0.0.1. Raises BadValue when it is no host.
    """
    if text.startswith("["):
        return _ipv6(text)
    host = text if text.isascii() else _idna(text)
    host = host.lower().removesuffix(".")
    if _NUMBER.match(host.rpartition(".")[2]):
        return _ipv4(host)
    if not host or len(host) > 253 or not all(map(_LABEL.match, host.split("."))):
        raise _bad_host(text)
    return host


def _authority(text: str, scheme: str) -> tuple[str, int]:
    if "@" in text:
        raise BadValue("url must not contain a user name or password")
    match = re.match(r"(\[[^\]]*\]|[^:\[\]]*)(?::([0-9]{0,5}))?\Z", text)
    if match is None:
        raise _bad_host(text)
    port = int(match[2]) if match[2] else _DEFAULT_PORTS[scheme]
    if not 0 < port < 65536:
        raise BadValue(f"url has no usable port: {port}")
    return host_name(match[1]), port


def _idna(text: str) -> str:
    try:
        # UTS 46 is what browsers do: full-width digits and dots become plain ones *here*,
        # before the host is judged, and not later in a resolver.
        return idna.encode(text, uts46=True).decode("ascii")
    except (idna.IDNAError, UnicodeError):
        raise _bad_host(text) from None


def _ipv6(text: str) -> str:
    try:
        address = IPv6Address(text[1:-1] if text.endswith("]") else "")
    except AddressValueError:
        raise _bad_host(text) from None
    if address.scope_id:
        raise _bad_host(text)
    return str(address)


def _ipv4(text: str) -> str:
    parts = text.split(".")
    if len(parts) > 4 or not all(map(_NUMBER.match, parts)):
        raise _bad_host(text)
    try:
        *bytes_, last = (_number(part) for part in parts)
    except ValueError:
        raise _bad_host(text) from None
    # The last number fills all bytes that are not written out.
    if any(byte > 255 for byte in bytes_) or last >= 256 ** (4 - len(bytes_)):
        raise _bad_host(text)
    value = sum(byte << (24 - 8 * place) for place, byte in enumerate(bytes_)) + last
    return str(IPv4Address(value))


def _number(text: str) -> int:
    if text[:2] in ("0x", "0X"):
        return int(text[2:] or "0", 16)
    return int(text, 8 if len(text) > 1 and text.startswith("0") else 10)


def _bad_host(text: str) -> BadValue:
    return BadValue(f"url has no usable host: {one_line(text, 80)!r}")
