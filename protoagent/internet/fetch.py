"""One page of the open internet as text: guarded, capped, decoded, cleaned."""

from __future__ import annotations

import asyncio
import codecs
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from protoagent.config import services
from protoagent.core.errors import BadValue
from protoagent.internet.readable import readable
from protoagent.security import egress, urls
from protoagent.security.egress import EgressPolicy, FetchFailed

TIMEOUT_S = 15.0
MAX_BYTES = 2_000_000
SNIFFED_BYTES = 8192
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# Python knows codecs that are no character sets; punycode takes quadratic time.
_CHARSETS = re.compile(
    r"(utf-(8|16|32)(-(le|be|sig))?|iso8859-\d+|cp\d+|koi8-\w|kz1048|mac-\w+|hp-roman8|ascii"
    r"|gb\w+|big5\w*|euc_\w+|shift_jis\w*|iso2022_\w+|johab|hz|tis-620)\Z"
)
# Browsers read these two as windows-1252, and so do the authors who name them.
_WESTERN = {"iso8859-1", "ascii"}
_META = re.compile(rb"<meta[^>]{0,500}?charset\s*=\s*[\"']?\s*([A-Za-z0-9_:.-]{1,40})", re.I)
_BINARY = re.compile(r"(image|audio|video|font)/(?!svg)|application/(pdf|zip|gzip|x-tar)\b", re.I)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")

# Apart from the other threads: a few heavy pages must not hold up the rest of the product.
_readers = ThreadPoolExecutor(max_workers=2, thread_name_prefix="page")


@dataclass(frozen=True)
class Page:
    """What came back. `text` is the cleaned text of HTML, and anything else as it was sent."""

    status: int
    content_type: str
    text: str
    is_cut: bool


def policy() -> EgressPolicy:
    """Where pages may come from, as the operator configured it.

    The model gateway joins a list of allowed hosts, but never turns an empty one into a list.
    """
    hosts = [str(host) for host in services.get("egress.allowed_hosts")]
    if any(host.strip() for host in hosts):
        hosts += _gateway()
    return EgressPolicy(tuple(hosts))


async def fetch(
    url: str,
    where: EgressPolicy | None = None,
    *,
    resolve: egress.Resolver = egress.system_resolver,
    network: egress.Network | None = None,
) -> Page:
    """Get `url` within fifteen seconds, redirects and two megabytes of content included.

    Raises BadValue for an unusable address, Blocked for a refused one, and FetchFailed when
    the server or the network fails, answers with an error or sends what is no text.
    """
    where = policy() if where is None else where
    try:
        async with (
            asyncio.timeout(TIMEOUT_S),
            egress.client(where, timeout_s=TIMEOUT_S, resolve=resolve, network=network) as http,
            egress.get(http, url) as response,
        ):
            if response.status_code >= 400:
                raise FetchFailed(f"HTTP {response.status_code} for {url}")
            content_type = response.headers.get("content-type", "")
            body = await egress.read_capped(response, MAX_BYTES)
    except (egress.HttpTimeout, TimeoutError):
        raise FetchFailed(f"fetch failed: no answer within {TIMEOUT_S:g} s") from None
    except egress.HttpFailed as error:
        raise FetchFailed(f"fetch failed: {str(error) or type(error).__name__}") from None
    loop = asyncio.get_running_loop()
    text = await loop.run_in_executor(_readers, _as_text, body.data, content_type, url)
    return Page(response.status_code, content_type, text, body.is_cut)


def _gateway() -> list[str]:
    try:
        return [urls.parse(str(services.get("model.api_base"))).host]
    except BadValue:
        return []


def _as_text(data: bytes, content_type: str, url: str) -> str:
    is_html = "html" in content_type.lower()
    charset = _charset(data, content_type, is_html=is_html)
    has_nul = b"\0" in data[:SNIFFED_BYTES] and not charset.startswith(("utf-16", "utf-32"))
    if has_nul or _BINARY.match(content_type):
        kind = content_type.partition(";")[0].strip() or "unknown kind"
        raise FetchFailed(f"{url} is no text ({kind})")
    text = data.decode(charset, "replace")
    if is_html or text.lstrip("\ufeff \t\r\n").startswith("<"):
        text = readable(text)
    return _CONTROL.sub("", text)


def _charset(data: bytes, content_type: str, *, is_html: bool) -> str:
    """The declared character set; UTF-8 when there is none that is known."""
    for mark, name in _MARKS:
        if data.startswith(mark):
            return name
    declared = re.search(r"charset\s*=\s*[\"']?\s*([\w:.-]+)", content_type, re.I)
    name = declared[1] if declared else ""
    if not name and is_html and (meta := _META.search(data[:SNIFFED_BYTES])):
        name = meta[1].decode("ascii")
    try:
        known = codecs.lookup(name).name if name else "utf-8"
    except (LookupError, ValueError):
        return "utf-8"
    if known in _WESTERN:
        return "cp1252"
    return known if _CHARSETS.match(known) else "utf-8"
