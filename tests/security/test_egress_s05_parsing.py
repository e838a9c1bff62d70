"""S05: one reading of an address. What is judged is what is contacted."""

from __future__ import annotations

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protoagent.core.errors import BadValue, Blocked
from protoagent.security import egress, urls
from protoagent.security.egress import EgressPolicy

REFUSED = [
    "",
    "example.com",
    "//example.com/",
    "ftp://example.com/",
    "file:///etc/passwd",
    "javascript:alert(1)",
    "http:/example.com/",
    "http:example.com",
    "http:\\\\example.com\\",
    "http://",
    "http:///path",
    "http://a@127.0.0.1#@b/",
    "http://user:password@example.com/",
    "http://example.com@127.0.0.1/",
    "http://example.com:80@127.0.0.1/",
    "http://example.com%40127.0.0.1/",
    "http://example.com\\@127.0.0.1/",
    "http://127.0.0.1\\.example.com/",
    "http://exa\tmple.com/",
    "http://exa\nmple.com/",
    "http://example.com/\r\nHost: evil",
    "http://example.com\x00.evil/",
    "http://exam ple.com/",
    "http://example.com:port/",
    "http://example.com:0/",
    "http://example.com:65536/",
    "http://example.com:-1/",
    "http://example.com:80:80/",
    "http://%31%32%37.0.0.1/",
    "http://example..com/",
    "http://.example.com/",
    "http://example.com../",
    "http://-example.com/",
    "http://1.2.3.4.5/",
    "http://256.0.0.1/",
    "http://0x100000000/",
    "http://08.0.0.1/",
    "http://[::1",
    "http://::1/",
    "http://[::1]x/",
    "http://[fe80::1%25eth0]/",
    "http://[fe80::1%eth0]/",
    "http://[127.0.0.1]/",
    "http://xn--\u00e9.\ud800/",
    "http://" + "a" * 64 + ".com/",
    "http://" + "a." * 127 + "com/",
    "http://example.com/" + "a" * 9000,
    "http://" + "9" * 5000 + "/",
]


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_no_plain_web_address_is_refused(text):
    with pytest.raises(BadValue):
        urls.parse(text)


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("http://example.com", "http://example.com/"),
        ("HTTP://EXAMPLE.COM:80/Path?Q=1#part", "http://example.com/Path?Q=1"),
        ("https://example.com:443/", "https://example.com/"),
        ("https://example.com:80/", "https://example.com:80/"),
        ("http://example.com:/", "http://example.com/"),
        ("  https://example.com/a b  ", "https://example.com/a%20b"),
        ("https://example.com?q=\u00fc&r=%C3%BC", "https://example.com/?q=%C3%BC&r=%C3%BC"),
        ("https://example.com./", "https://example.com/"),
        ("https://b\u00fccher.example/", "https://xn--bcher-kva.example/"),
        ("https://example\u3002com/", "https://example.com/"),
        ("http://\uff11\uff12\uff17.0.0.1/", "http://127.0.0.1/"),
        ("http://\u2460\u2461\u2466.0.0.1/", "http://127.0.0.1/"),
        ("http://exam\u00adple.com/", "http://example.com/"),
        ("http://127.1/", "http://127.0.0.1/"),
        ("http://0x7f.1/", "http://127.0.0.1/"),
        ("http://0X7F000001/", "http://127.0.0.1/"),
        ("http://2130706433/", "http://127.0.0.1/"),
        ("http://017700000001/", "http://127.0.0.1/"),
        ("http://0/", "http://0.0.0.0/"),
        ("http://1.2.3.0x/x@y/", "http://1.2.3.0/x@y/"),
        ("http://[0:0:0:0:0:0:0:1]:8080/x", "http://[::1]:8080/x"),
        ("http://[::FFFF:7F00:1]/", None),
        ("http://some_host/", "http://some_host/"),
        ("http://localhost:3000/x", "http://localhost:3000/x"),
    ],
)
def test_an_address_is_rebuilt_from_its_parts(text, url):
    address = urls.parse(text)

    assert address.url == (url or f"http://[{address.host}]/")
    assert urls.parse(address.url) == address


@pytest.mark.parametrize(
    "text",
    [
        "http://127.0.0.1/",
        "http://localhost/",
        "http://LOCALHOST./",
        "http://0x7f.1/",
        "http://0177.1/",
        "http://2130706433/",
        "http://\uff11\uff12\uff17.\uff10.\uff10.\uff11/",
        "http://0/",
        "http://[::]/",
        "http://[::1]/",
        "http://[::ffff:7f00:1]/",
        "http://[::127.0.0.1]/",
        "http://[fe80::1]/",
    ],
)
async def test_every_spelling_of_this_machine_is_blocked_by_name(web, text):
    web.names["localhost"] = ["127.0.0.1"]

    async with egress.client(EgressPolicy(), resolve=web.resolve, network=web) as http:
        with pytest.raises(Blocked, match="blocked"):
            async with egress.get(http, text):
                pass
    assert web.dialled == []


@pytest.mark.parametrize("host", ["0x7f.1", "0177.1", "2130706433", "127.1"])
async def test_a_spelling_that_reaches_the_network_layer_is_judged_by_its_address(web, host):
    web.names[host] = ["127.0.0.1"]  # what the C library makes of it

    async with egress.client(EgressPolicy(), resolve=web.resolve, network=web) as http:
        with pytest.raises(Blocked):
            await http.get(f"http://{host}/")
    assert web.dialled == []


NASTY = st.text(st.sampled_from("ab.:/@#?\\[]%0x127 \t\n-_\u3002\uff11\u00fcA&=;|"), max_size=30)


@given(st.sampled_from(["http://", "https://", "HTTP://"]), NASTY)
def test_what_is_accepted_is_read_the_same_by_the_client(prefix, rest):
    try:
        address = urls.parse(prefix + rest)
    except BadValue:
        return

    sent = httpx.URL(address.url)
    assert sent.raw_host.decode() == address.host
    assert sent.scheme == address.scheme
    assert (sent.port or {"http": 80, "https": 443}[sent.scheme]) == address.port
    assert not sent.userinfo
    assert not sent.fragment


@given(NASTY)
def test_a_redirect_is_read_the_same_by_the_client(location):
    base = urls.parse("https://example.com/a/b?c")
    try:
        address = urls.follow(base, location)
    except (BadValue, Blocked):
        return

    assert httpx.URL(address.url).raw_host.decode() == address.host
    if not location.strip().startswith("//") and ":" not in location:
        assert address.origin == base.origin
