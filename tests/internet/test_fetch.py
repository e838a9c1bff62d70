"""Fetching one page: limits, character sets, failures."""

from __future__ import annotations

import asyncio
import gzip

import pytest

from protoagent.config import services
from protoagent.core.errors import BadValue, Blocked
from protoagent.internet import fetch as module
from protoagent.internet.fetch import fetch, policy
from protoagent.security.egress import USER_AGENT, EgressPolicy, FetchFailed

URL = "http://public.example/page"


async def read(web, url=URL, where=EgressPolicy()):  # noqa: B008 — frozen
    return await fetch(url, where, resolve=web.resolve, network=web)


async def test_a_page_is_read_as_text(web):
    web.page(URL, "<html><body><nav>n</nav><p>Hello</body></html>")

    page = await read(web)

    assert (page.status, page.text, page.is_cut) == (200, "Hello", False)
    assert web.seen[0].headers["user-agent"] == USER_AGENT
    assert USER_AGENT == "protoAgent/0.1 (+https://github.com/protoLabsAI/protoAgent)"


@pytest.mark.parametrize(
    ("content_type", "body", "text"),
    [
        ("application/json", '{"a": "<b>"}', '{"a": "<b>"}'),
        ("text/csv", "a,b\n1,2\n", "a,b\n1,2\n"),
        ("text/plain", "a\n  b", "a\n  b"),
        ("", "plain", "plain"),
        ("text/plain", "  <p>a<p>b", "a\nb"),
        ("application/xml", "<r><a>x</a></r>", "x"),
        ("application/xhtml+xml", "no tags", "no tags"),
        ("text/html", "no tags", "no tags"),
        ("text/plain", "bell\x07 esc\x1b[0m sep\x1e tab\tend", "bell esc[0m sep tab\tend"),
    ],
)
async def test_only_html_is_cleaned(web, content_type, body, text):
    web.page(URL, body, content_type=content_type)

    assert (await read(web)).text == text


@pytest.mark.parametrize(
    ("content_type", "body", "text"),
    [
        ("text/plain; charset=iso-8859-1", "é".encode("latin-1"), "é"),
        ("text/plain; charset=iso-8859-1", b"\x93x\x94", "“x”"),
        ('text/plain; charset="utf-8"', "é".encode(), "é"),
        ("text/plain; charset=shift_jis", "日本".encode("shift_jis"), "日本"),
        ("text/plain; charset=utf-16", "é".encode("utf-16"), "é"),
        ("text/plain; charset=utf-16le", "é".encode("utf-16-le"), "é"),
        ("text/plain; charset=nonsense", "é".encode(), "é"),
        ("text/plain; charset=punycode", b"abc-", "abc-"),
        ("text/plain; charset=unicode_escape", rb"\u0041", r"\u0041"),
        ("text/plain; charset=zip", b"abc", "abc"),
        ("text/plain; charset=idna", b"abc", "abc"),
        ("text/plain", b"a\xffb", "a\ufffdb"),
        ("text/plain", b"\xef\xbb\xbfbom", "bom"),
        ("text/plain", "bom".encode("utf-16"), "bom"),
        ("text/html", b"<meta charset=windows-1251><p>\xef\xf0", "пр"),
        ("text/html", b'<meta http-equiv=x content="text/html; charset=koi8-r"><p>\xd0', "п"),
        ("text/html; charset=utf-8", "<meta charset=koi8-r><p>é".encode(), "é"),
    ],
)
async def test_the_declared_character_set_is_used(web, content_type, body, text):
    web.page(URL, body, content_type=content_type)

    assert (await read(web)).text == text


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("image/png", b"\x89PNG"),
        ("application/pdf", b"%PDF-1.7"),
        ("application/octet-stream", b"ab\x00cd"),
        ("", b"\x00"),
    ],
)
async def test_what_is_no_text_is_refused_with_its_kind(web, content_type, body):
    web.page(URL, body, content_type=content_type)

    with pytest.raises(FetchFailed, match=r"http://public\.example/page is no text \("):
        await read(web)


async def test_an_svg_is_text(web):
    web.page(URL, "<svg><text>x</text></svg>", content_type="image/svg+xml")

    assert (await read(web)).text == ""


async def test_an_empty_answer_is_empty_text(web):
    web.page(URL, "", status=204, content_type="text/plain")

    page = await read(web)

    assert (page.status, page.text) == (204, "")


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 429, 500, 503])
async def test_an_error_status_is_an_error(web, status):
    web.page(URL, "sorry", status=status)

    with pytest.raises(FetchFailed, match=rf"^HTTP {status} for http://public\.example/page$"):
        await read(web)


async def test_a_redirect_without_location_is_an_answer(web):
    web.page(URL, "moved", status=302, content_type="text/plain")

    assert (await read(web)).text == "moved"


async def test_two_megabytes_are_read_and_no_more(web):
    sent = 0

    async def answer(request, reply):
        nonlocal sent
        reply.raw(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
        for _ in range(1000):
            await reply.writable()
            reply.raw(b"x" * 100_000)
            sent += 1
        reply.abort()

    web.pages[URL] = answer

    page = await read(web)

    assert (len(page.text), page.is_cut) == (2_000_000, True)
    assert sent < 500


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "raw deflate", "x-gzip"])
async def test_packed_pages_are_unpacked(web, encoding):
    import zlib

    text = b"hello " * 50_000
    raw = zlib.compressobj(wbits=-15)
    packed = {
        "gzip": gzip.compress(text),
        "x-gzip": gzip.compress(text[:100]) + gzip.compress(text[100:]) + b"\0\0padding",
        "deflate": zlib.compress(text),
        "raw deflate": raw.compress(text) + raw.flush(),
    }[encoding]
    headers = {"Content-Encoding": encoding.removeprefix("raw ")}
    web.page(URL, packed, content_type="text/plain", headers=headers)

    assert (await read(web)).text == text.decode()


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip", "compress"])
async def test_a_packing_that_was_not_asked_for_is_refused(web, encoding):
    web.page(URL, b"x", headers={"Content-Encoding": encoding})

    with pytest.raises(FetchFailed, match="fetch failed: the server packed its answer"):
        await read(web)
    assert web.seen[0].headers["accept-encoding"] == "gzip, deflate"


async def test_a_broken_packing_is_a_failure(web):
    web.page(URL, b"\x1f\x8bnonsense", headers={"Content-Encoding": "gzip"})

    with pytest.raises(FetchFailed, match="fetch failed: the packed answer is broken"):
        await read(web)


@pytest.mark.parametrize("kind", ["silent", "dripping", "no headers"])
async def test_a_slow_server_is_given_up(web, monkeypatch, kind):
    async def answer(request, reply):
        if kind != "no headers":
            reply.raw(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
        for _ in range(100):
            if kind == "dripping":
                reply.raw(b"x")
            await asyncio.sleep(0.05)

    web.pages[URL] = answer
    monkeypatch.setattr(module, "TIMEOUT_S", 0.3)

    with pytest.raises(FetchFailed, match=r"fetch failed: no answer within 0\.3 s"):
        await read(web)


async def test_a_connection_that_breaks_is_a_failure(web):
    web.pages[URL] = lambda request, reply: reply.abort()

    with pytest.raises(FetchFailed, match=r"^fetch failed: \w+"):
        await read(web)


async def test_no_connection_is_a_failure(web):
    web.unreachable = {"93.184.215.14"}

    with pytest.raises(FetchFailed, match=r"^fetch failed: "):
        await read(web)


async def test_cancelling_a_fetch_closes_its_connection(web):
    began, ended = asyncio.Event(), asyncio.Event()

    async def answer(request, reply):
        began.set()
        try:
            await asyncio.sleep(30)
        finally:
            ended.set()

    web.pages[URL] = answer
    task = asyncio.create_task(read(web))
    await began.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(ended.wait(), 2)


async def test_a_heavy_page_does_not_hold_up_the_event_loop(web):
    web.page(URL, "<div><p>text <b>x</b> " * 40_000)
    gaps = []

    async def watch():
        loop = asyncio.get_running_loop()
        while True:
            before = loop.time()
            await asyncio.sleep(0.001)
            gaps.append(loop.time() - before)

    watcher = asyncio.create_task(watch())
    began = asyncio.get_running_loop().time()
    await read(web)
    took = asyncio.get_running_loop().time() - began
    watcher.cancel()

    assert max(gaps) < took / 2


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://x/", "javascript:1", "x", ""])
async def test_other_schemes_are_refused(web, url):
    with pytest.raises(BadValue, match="url must start with http:// or https://"):
        await read(web, url)


async def test_an_upper_case_scheme_is_fine(web):
    web.page(URL, "x")

    assert (await read(web, "HTTP://public.example/page")).text == "x"


async def test_the_configured_policy_is_the_default(web, monkeypatch):
    monkeypatch.setenv("PROTOAGENT__EGRESS__ALLOWED_HOSTS", '["other.example"]')
    services.reload()

    with pytest.raises(Blocked, match=r"public\.example is not on the list .*other\.example"):
        await fetch(URL, resolve=web.resolve, network=web)


@pytest.mark.parametrize(
    ("listed", "base", "hosts"),
    [
        ("[]", "http://gateway.example:4000/v1", ()),
        ('["", " "]', "http://gateway.example:4000/v1", ()),
        ('["a.example"]', "http://gateway.example:4000/v1", ("a.example", "gateway.example")),
        ('["gateway.example"]', "http://gateway.example:4000/v1", ("gateway.example",)),
        ('["a.example"]', "", ("a.example",)),
    ],
)
def test_the_model_gateway_joins_a_list_but_starts_none(monkeypatch, listed, base, hosts):
    monkeypatch.setenv("PROTOAGENT__EGRESS__ALLOWED_HOSTS", listed)
    monkeypatch.setenv("PROTOAGENT__MODEL__API_BASE", base)
    services.reload()

    assert policy() == EgressPolicy(hosts)
