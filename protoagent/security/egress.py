"""The one way out: every HTTP request of the product leaves through a client made here.

Each connection resolves its host once, judges every address, and connects to one of the
judged addresses, so that a name cannot point elsewhere between the check and the use.
Certificates, SNI and the Host header still carry the name. Proxies of the environment are
ignored: behind one, the address that is really contacted could not be judged.
"""

from __future__ import annotations

import asyncio
import functools
import re
import socket
import ssl
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, ClassVar

import httpcore
import httpx

from protoagent.core.errors import AgentError, BadValue, Blocked
from protoagent.security import urls
from protoagent.security.addresses import OWN_NETWORK, Reach, reach
from protoagent.security.urls import WebAddress

USER_AGENT = "protoAgent/0.1 (+https://github.com/protoLabsAI/protoAgent)"
MAX_REDIRECTS = 5

# What the rest of the product needs of httpx, which it must not import.
AsyncClient = httpx.AsyncClient
Response = httpx.Response
HttpFailed = httpx.HTTPError
HttpTimeout = httpx.TimeoutException
HttpConnectFailed = httpx.ConnectError
Network = httpcore.AsyncNetworkBackend


class FetchFailed(AgentError):
    """An address that could not be read to its end."""

    code: ClassVar[str] = "fetch_failed"
    status: ClassVar[int] = 502


Resolver = Callable[[str, int], Awaitable[Sequence[str]]]

_MAX_ADDRESSES = 8
# Trying one of several addresses takes at most this long before the next one gets its turn.
_ATTEMPT_S = 3.0
_PIECE = 64 * 1024
_PACKINGS = {"gzip": zlib.MAX_WBITS | 16, "x-gzip": zlib.MAX_WBITS | 16, "deflate": zlib.MAX_WBITS}
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
# Marks a request whose Location only the parser in `urls` may read; httpx would read it too.
_LOCATION = "protoagent.location"
# What may follow a redirect to another host. Everything else may be a credential.
_HARMLESS_HEADERS = frozenset({"accept", "accept-language", "accept-encoding", "user-agent"})


@dataclass(frozen=True)
class EgressPolicy:
    """Where connections may go.

    With `allowed_hosts` only these: `*.example.com` is example.com and everything below
    it, any other entry exactly one host. Listing a host says that it may be on the own
    network. Without a list every public host is allowed, and with `allow_private` loopback
    and private networks too. Link-local, metadata, multicast, reserved and unspecified
    addresses are refused under every policy.
    """

    allowed_hosts: tuple[str, ...] = ()
    allow_private: bool = False

    def __post_init__(self) -> None:
        entries = (_entry(text) for text in self.allowed_hosts)
        object.__setattr__(self, "allowed_hosts", tuple(filter(None, dict.fromkeys(entries))))

    def check_host(self, host: str) -> None:
        """Raise Blocked when there is a list and `host` is not on it."""
        if self.allowed_hosts and not self.lists(host):
            listed = ", ".join(self.allowed_hosts[:20])
            raise Blocked(
                f"blocked: {host} is not on the list of allowed hosts ({listed}); "
                "the setting egress.allowed_hosts decides"
            )

    def check_address(self, host: str, address: str) -> None:
        """Raise Blocked when `host` may not be contacted at `address`."""
        where = reach(ip_address(address))
        if where is Reach.PUBLIC:
            return
        if where in OWN_NETWORK and (self.allow_private or self.lists(host)):
            return
        link = "is" if host == address else "resolves to"
        raise Blocked(f"blocked: {host} {link} a {where} address")

    def lists(self, host: str) -> bool:
        """Whether `allowed_hosts` has an entry for `host`, which is in canonical form."""
        return any(
            host == entry or (entry.startswith("*.") and f".{host}".endswith(entry[1:]))
            for entry in self.allowed_hosts
        )


@dataclass(frozen=True)
class Body:
    """The beginning of a response's content, and whether there is more of it."""

    data: bytes
    is_cut: bool


async def system_resolver(host: str, port: int) -> Sequence[str]:
    """What the operating system says about `host`, in its order of preference."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


def client(
    policy: EgressPolicy,
    *,
    timeout_s: float = 30.0,
    keep_alive_s: float = 5.0,
    headers: Mapping[str, str] | None = None,
    resolve: Resolver = system_resolver,
    network: Network | None = None,
) -> httpx.AsyncClient:
    """An HTTP client that cannot leave `policy`. The caller closes it.

    It follows no redirect by itself; use `get` for that. Under `allow_private` a redirect
    to another origin raises Blocked: an operator's own server must not lead elsewhere.
    `resolve` and `network` are the walls that tests replace.
    """
    backend = _CheckedNetwork(policy, resolve, network or httpcore.AnyIOBackend())
    return httpx.AsyncClient(
        transport=_CheckedTransport(policy, backend, keep_alive_s),
        timeout=timeout_s,
        trust_env=False,
        follow_redirects=False,
        headers={"User-Agent": USER_AGENT, "Accept-Encoding": "gzip, deflate", **(headers or {})},
        event_hooks={"response": [_refuse_foreign_redirect] if policy.allow_private else []},
    )


@asynccontextmanager
async def get(
    http: httpx.AsyncClient, url: str, *, headers: Mapping[str, str] | None = None
) -> AsyncIterator[httpx.Response]:
    """The final response to a GET of `url`, its body still to be read.

    Follows at most five redirects, each judged like the first address. `headers` that are
    not plainly harmless stay behind when a redirect leaves the origin.

    Raises BadValue for an unusable address, Blocked for a refused one, HttpFailed when the
    network fails.
    """
    here, sent = urls.parse(url), dict(headers or {})
    for _ in range(MAX_REDIRECTS + 1):
        request = _request(http, here, sent)
        response = await http.send(request, stream=True)
        try:
            location = response.extensions[_LOCATION]
            if location is None or response.status_code not in _REDIRECTS:
                yield response
                return
            there = urls.follow(here, location)
        finally:
            await response.aclose()
        if there.origin != here.origin:
            sent = {name: sent[name] for name in sent if name.lower() in _HARMLESS_HEADERS}
        here = there
    raise FetchFailed(f"too many redirects (more than {MAX_REDIRECTS}) fetching {url}")


async def read_capped(response: httpx.Response, max_bytes: int) -> Body:
    """At most `max_bytes` of the unpacked content; the rest is never read."""
    data = bytearray()
    async for piece in response.aiter_bytes():
        data += piece
        if len(data) > max_bytes:
            return Body(bytes(data[:max_bytes]), is_cut=True)
    return Body(bytes(data), is_cut=False)


def _request(http: httpx.AsyncClient, address: WebAddress, headers: dict[str, str]) -> Any:
    try:
        request = http.build_request(
            "GET", address.url, headers=headers, extensions={_LOCATION: True}
        )
    except httpx.InvalidURL:
        raise BadValue("url cannot be requested") from None
    if request.url.raw_host.decode("ascii") != address.host:
        raise BadValue(f"url has no usable host: {address.host!r}")
    return request


def _entry(text: str) -> str:
    """One line of the list in canonical form.

    What can be no host stays as it is and matches nothing: dropping it could empty the
    list, and an empty list allows everything.
    """
    text = str(text).strip().lower()
    rest = re.sub(r"\Ahttps?://", "", text)
    prefix = "*." if rest.startswith("*.") else ""
    if rest.count(":") > 1 and not rest.startswith("["):
        rest = f"[{rest}]"
    try:
        return prefix + urls.parse(f"http://{rest.removeprefix(prefix)}").host
    except BadValue:
        return text


async def _refuse_foreign_redirect(response: httpx.Response) -> None:
    if not response.has_redirect_location:
        return
    here = response.request.url
    try:
        there = here.join(response.headers["location"])
        is_same = (there.scheme, there.host, there.port) == (here.scheme, here.host, here.port)
    except httpx.InvalidURL:
        is_same = False
    if not is_same:
        raise Blocked(f"blocked: {here.host} redirects elsewhere; set the address it leads to")


@functools.cache
def _tls() -> ssl.SSLContext:
    """One context for all clients: building it reads every certificate of the trust store.

    SSL_CERT_FILE and SSL_CERT_DIR are honoured, so that an operator can add a private authority.
    """
    return httpx.create_ssl_context()


class _CheckedTransport(httpx.AsyncHTTPTransport):
    """Refuses hosts before they are looked up, and unpacks bodies piece by piece."""

    def __init__(self, policy: EgressPolicy, backend: Network, keep_alive_s: float) -> None:
        self._policy = policy
        # The public constructor has no place for a network backend.
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=_tls(),
            max_connections=200,
            max_keepalive_connections=50,
            keepalive_expiry=keep_alive_s,
            network_backend=backend,
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.scheme not in ("http", "https"):
            raise Blocked(f"blocked: {request.url.scheme}: is neither http nor https")
        self._policy.check_host(request.url.raw_host.decode("ascii").lower())
        response = await super().handle_async_request(request)
        if _LOCATION in request.extensions:
            response.extensions[_LOCATION] = response.headers.pop("location", None)
        if "content-encoding" in response.headers:
            try:
                return _unpacked(response)
            except httpx.DecodingError:
                await response.aclose()
                raise
        return response


class _CheckedNetwork(httpcore.AsyncNetworkBackend):
    """Connects to judged addresses only."""

    def __init__(self, policy: EgressPolicy, resolve: Resolver, inner: Network) -> None:
        self._policy = policy
        self._resolve = resolve
        self._inner = inner

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        clock = asyncio.get_running_loop().time
        deadline = None if timeout is None else clock() + timeout
        addresses = await self._judged(host, port, timeout)
        failed: Exception | None = None
        for position, address in enumerate(addresses, 1):
            left = None if deadline is None else max(0.0, deadline - clock())
            if position < len(addresses):
                left = min(_ATTEMPT_S, _ATTEMPT_S if left is None else left)
            try:
                return await self._inner.connect_tcp(
                    address, port, left, local_address, socket_options
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failed = error
        raise failed or httpcore.ConnectError(f"{host} has no address")

    async def sleep(self, seconds: float) -> None:
        await self._inner.sleep(seconds)

    async def _judged(self, host: str, port: int, timeout: float | None) -> list[str]:
        """The addresses of `host`; one forbidden among them forbids them all."""
        try:
            found = [str(ip_address(host))]
        except ValueError:
            found = await self._look_up(host, port, timeout)
        for address in found:
            self._policy.check_address(host, address)
        return found[:_MAX_ADDRESSES]

    async def _look_up(self, host: str, port: int, timeout: float | None) -> list[str]:
        try:
            async with asyncio.timeout(timeout):
                found = await self._resolve(host, port)
            addresses = [str(ip_address(text)) for text in dict.fromkeys(found)]
        except TimeoutError:
            raise httpcore.ConnectTimeout(f"looking up {host} took too long") from None
        except (OSError, ValueError):
            addresses = []
        if addresses:
            return addresses
        if self._policy.allow_private or self._policy.lists(host):
            raise httpcore.ConnectError(f"{host} cannot be resolved")
        raise Blocked(f"blocked: {host} cannot be resolved, so it cannot be checked")


def _unpacked(response: httpx.Response) -> httpx.Response:
    """The same response without its compression.

    httpx unpacks each network read at once and in as many layers as the server says, so a
    few kilobytes can become gigabytes; here no piece is larger than 64 KiB.
    """
    names = [name.strip().lower() for name in response.headers["content-encoding"].split(",")]
    names = [name for name in names if name not in ("", "identity")]
    if len(names) > 1 or (names and names[0] not in _PACKINGS):
        raise httpx.DecodingError(f"the server packed its answer as {', '.join(names)[:80]!r}")
    headers = [
        (name, value)
        for name, value in response.headers.raw
        if name.lower() not in (b"content-encoding", b"content-length")
    ]
    stream = response.stream
    if names and isinstance(stream, httpx.AsyncByteStream):
        stream = _Unpacked(stream, _PACKINGS[names[0]])
    return httpx.Response(
        response.status_code, headers=headers, stream=stream, extensions=response.extensions
    )


class _Unpacked(httpx.AsyncByteStream):
    def __init__(self, packed: httpx.AsyncByteStream, window: int) -> None:
        self._packed = packed
        self._window = window
        self._unpacker = zlib.decompressobj(window)
        self._has_begun = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for data in self._packed:
            for piece in self._pieces(data):
                yield piece

    async def aclose(self) -> None:
        await self._packed.aclose()

    def _pieces(self, data: bytes) -> Iterable[bytes]:
        while True:
            if self._unpacker.eof:
                data = self._unpacker.unused_data + data
                if not data.startswith(b"\x1f\x8b"):  # no further gzip member: padding
                    return
                self._unpacker = zlib.decompressobj(self._window)
            piece = self._unpack(data)
            data = self._unpacker.unconsumed_tail
            if piece:
                yield piece
            # A full piece may have left more inside the unpacker, even without input.
            if len(piece) < _PIECE and not data and not self._unpacker.unused_data:
                return

    def _unpack(self, data: bytes) -> bytes:
        try:
            piece = self._unpacker.decompress(data, _PIECE)
        except zlib.error as error:
            if self._has_begun or self._window != zlib.MAX_WBITS:
                raise httpx.DecodingError(f"the packed answer is broken ({error})") from None
            # "deflate" is sent with and without the zlib header.
            self._window = -zlib.MAX_WBITS
            self._unpacker = zlib.decompressobj(self._window)
            return self._unpack(data)
        self._has_begun = True
        return piece
