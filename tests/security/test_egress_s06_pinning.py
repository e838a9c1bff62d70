"""S06: the address that was judged is the address that is contacted."""

from __future__ import annotations

import datetime
import ipaddress
import ssl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protoagent.core.errors import Blocked
from protoagent.security import egress
from protoagent.security.addresses import Reach, reach
from protoagent.security.egress import EgressPolicy
from tests.fakes.web import OTHER_PUBLIC, PUBLIC, PUBLIC_V6, fake_web

OPEN = EgressPolicy()
PRIVATE_OK = EgressPolicy(allow_private=True)


async def status_of(web, url, policy=OPEN):
    async with (
        egress.client(policy, resolve=web.resolve, network=web) as http,
        egress.get(http, url) as response,
    ):
        return response.status_code


async def test_a_name_that_changes_its_mind_is_looked_up_once_per_connection(web):
    web.names["rebind.example"] = [[PUBLIC], ["127.0.0.1"]]
    web.page("http://rebind.example/", "fine")

    assert await status_of(web, "http://rebind.example/") == 200

    assert web.looked_up == ["rebind.example"]
    assert web.dialled == [(PUBLIC, 80)]


async def test_each_redirect_hop_judges_the_name_again(web):
    web.names["rebind.example"] = [[PUBLIC], ["127.0.0.1"]]
    web.redirect("http://rebind.example/", "http://rebind.example:8080/")

    with pytest.raises(Blocked, match=r"rebind\.example resolves to a loopback address"):
        await status_of(web, "http://rebind.example/")
    assert web.dialled == [(PUBLIC, 80)]


async def test_one_private_address_among_public_ones_blocks_the_name(web):
    web.names["mixed.example"] = [PUBLIC, "10.0.0.1", PUBLIC_V6]

    with pytest.raises(Blocked, match=r"mixed\.example resolves to a private address"):
        await status_of(web, "http://mixed.example/")
    assert web.dialled == []


async def test_the_request_carries_the_name_and_not_the_address(web):
    web.page("http://public.example/", "fine")

    await status_of(web, "http://public.example:8080/")

    assert web.seen[0].headers["host"] == "public.example:8080"
    assert web.dialled == [(PUBLIC, 8080)]


async def test_the_next_judged_address_is_tried_when_one_does_not_answer(web):
    web.names["many.example"] = [PUBLIC_V6, OTHER_PUBLIC, PUBLIC]
    web.unreachable = {PUBLIC_V6, OTHER_PUBLIC}
    web.page("http://many.example/", "fine")

    assert await status_of(web, "http://many.example/") == 200

    assert [address for address, _ in web.dialled] == [PUBLIC_V6, OTHER_PUBLIC, PUBLIC]


async def test_no_address_that_answers_is_a_failed_connection(web):
    web.unreachable = {PUBLIC}

    with pytest.raises(egress.HttpConnectFailed):
        await status_of(web, "http://public.example/")


async def test_a_name_that_cannot_be_resolved_is_blocked(web):
    with pytest.raises(Blocked, match=r"blocked: nowhere\.example cannot be resolved"):
        await status_of(web, "http://nowhere.example/")


@pytest.mark.parametrize("policy", [PRIVATE_OK, EgressPolicy(("nowhere.example",))])
async def test_a_name_that_the_operator_wrote_down_merely_fails_to_resolve(web, policy):
    with pytest.raises(egress.HttpConnectFailed, match=r"nowhere\.example cannot be resolved"):
        await status_of(web, "http://nowhere.example/", policy)


async def test_a_slow_name_server_is_a_timeout(web):
    import asyncio

    async def resolve(host, port):
        await asyncio.sleep(30)

    async with egress.client(EgressPolicy(), timeout_s=0.05, resolve=resolve, network=web) as http:
        with pytest.raises(egress.HttpTimeout):
            await http.get("http://slow.example/")


async def test_proxies_of_the_environment_are_ignored(web, monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/")
    web.page("http://public.example/", "fine")

    assert await status_of(web, "http://public.example/") == 200

    assert web.dialled == [(PUBLIC, 80)]


async def test_certificates_are_checked_against_the_name(tmp_path, monkeypatch):
    asked = []
    server, authority = make_certificate(tmp_path, "public.example", asked)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    egress._tls.cache_clear()

    async with fake_web(server) as web:
        web.names["liar.example"] = [PUBLIC]
        web.page("http://public.example/", "fine")
        assert await status_of(web, "https://public.example/") == 200
        with pytest.raises(egress.HttpConnectFailed, match="not valid for 'liar"):
            await status_of(web, "https://liar.example/")
    egress._tls.cache_clear()

    assert asked == ["public.example", "liar.example"]
    assert [address for address, _ in web.dialled] == [PUBLIC, PUBLIC]


REACH = {
    Reach.LOOPBACK: ["127.0.0.1", "127.255.255.254", "::1", "::ffff:127.0.0.1"],
    Reach.PRIVATE: [
        "10.0.0.1",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.0.1",
        "100.64.0.1",
        "100.127.255.255",
        "fc00::1",
        "fd12:3456::1",
        "fec0::1",
        "::ffff:10.0.0.1",
        "64:ff9b::a00:1",
        "64:ff9b::6440:1",
        "2002:a00:1::",
        "2002:c0a8:101::1",
        "2606:4700::5efe:c0a8:101",
    ],
    Reach.LINK_LOCAL: ["169.254.0.1", "fe80::1", "fe80::1%eth0", "::ffff:169.254.1.1"],
    Reach.METADATA: [
        "169.254.169.254",
        "169.254.170.2",
        "100.100.100.200",
        "168.63.129.16",
        "fd00:ec2::254",
        "fd20:ce::254",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "2002:a9fe:a9fe::",
    ],
    Reach.MULTICAST: ["224.0.0.1", "239.255.255.255", "ff02::1"],
    Reach.UNSPECIFIED: ["0.0.0.0", "0.1.2.3", "::", "::ffff:0.0.0.0"],
    Reach.RESERVED: [
        "192.0.0.8",
        "192.0.2.1",
        "192.88.99.1",
        "198.18.0.1",
        "198.19.255.255",
        "198.51.100.1",
        "203.0.113.1",
        "240.0.0.1",
        "255.255.255.255",
        "::7f00:1",
        "64:ff9b:1::7f00:1",
        "100::1",
        "2001::1",
        "2001:0:7f00::1",
        "2001:20::1",
        "2001:db8::1",
        "3fff::1",
        "4000::1",
        "5f00::1",
    ],
    Reach.PUBLIC: [
        "1.1.1.1",
        "8.8.8.8",
        PUBLIC,
        "172.15.255.255",
        "172.32.0.1",
        "100.63.255.255",
        "100.128.0.1",
        "223.255.255.255",
        PUBLIC_V6,
        "2a00:1450:4001::1",
        "::ffff:8.8.8.8",
        "64:ff9b::808:808",
        "2002:808:808::1",
    ],
}


@pytest.mark.parametrize(
    ("address", "expected"), [(a, kind) for kind, found in REACH.items() for a in found]
)
def test_an_address_is_judged_by_where_it_leads(address, expected):
    assert reach(ipaddress.ip_address(address)) is expected


@given(st.ip_addresses())
def test_nothing_that_python_calls_non_global_counts_as_public(address):
    if reach(address) is Reach.PUBLIC:
        assert address.is_global
        assert not address.is_multicast


@given(st.ip_addresses(v=4))
def test_an_address_inside_another_is_judged_like_itself(inner):
    for template in ("::ffff:{}", "64:ff9b::{}", "2606:4700::5efe:{}"):
        outer = ipaddress.ip_address(template.format(inner))
        assert (reach(outer) is Reach.PUBLIC) == (reach(inner) is Reach.PUBLIC)


@pytest.mark.parametrize("kind", [kind for kind in REACH if kind is not Reach.PUBLIC])
@pytest.mark.parametrize("policy", [OPEN, PRIVATE_OK, EgressPolicy(("h.example",))])
async def test_each_kind_of_address_under_each_policy(web, kind, policy):
    is_allowed = kind in (Reach.LOOPBACK, Reach.PRIVATE) and policy != OPEN
    web.page("http://h.example/", "fine")
    for address in REACH[kind]:
        web.names["h.example"] = [address]
        web.dialled.clear()

        if is_allowed:
            assert await status_of(web, "http://h.example/", policy) == 200
        else:
            with pytest.raises(Blocked, match=rf"blocked: h\.example resolves to a {kind} address"):
                await status_of(web, "http://h.example/", policy)
            assert web.dialled == []


def make_certificate(folder, name, asked):
    """A server context for `name` that notes every SNI, and the authority's file."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    authority, chain = folder / "authority.pem", folder / "chain.pem"
    authority.write_bytes(pem)
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    chain.write_bytes(private + pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain)
    context.sni_callback = lambda socket, server_name, ctx: asked.append(server_name)
    return context, authority
