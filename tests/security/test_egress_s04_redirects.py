"""S04: every redirect is judged, schemes and chains are limited, credentials stay behind."""

from __future__ import annotations

import pytest

from protoagent.core.errors import BadValue, Blocked
from protoagent.security import egress
from protoagent.security.egress import EgressPolicy, FetchFailed

START = "http://public.example/start"
OPEN = EgressPolicy()


async def read(web, url=START, policy=OPEN, headers=None):
    async with (
        egress.client(policy, resolve=web.resolve, network=web) as http,
        egress.get(http, url, headers=headers) as response,
    ):
        return response.status_code, (await egress.read_capped(response, 10_000)).data


async def test_a_redirect_to_another_public_host_is_followed(web):
    web.redirect(START, "http://other.example/end")
    web.page("http://other.example/end", "arrived")

    assert await read(web) == (200, b"arrived")


@pytest.mark.parametrize(
    "location",
    ["/end", "end", "//public.example/end", "http://public.example/end#part", "?x", " /end "],
)
async def test_relative_redirects_are_resolved_against_the_current_address(web, location):
    web.redirect(START, location)
    web.page("http://public.example/end", "arrived")
    web.page("http://public.example/start?x", "arrived")

    assert await read(web) == (200, b"arrived")


@pytest.mark.parametrize(
    "target",
    [
        "http://127.0.0.1/",
        "http://127.0.0.1:9/",
        "http://0/",
        "http://0x7f.1/",
        "http://0177.0.0.1/",
        "http://2130706433/",
        "http://127.1/",
        "http://[::1]/",
        "http://[::ffff:7f00:1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[64:ff9b::7f00:1]/",
        "http://[2002:7f00:1::]/",
        "http://169.254.169.254/latest/meta-data/",
        "http://[fd00:ec2::254]/latest/meta-data/",
        "http://10.0.0.1/",
        "http://192.168.1.1/",
        "http://100.64.0.1/",
        "http://internal.example/",
        "//127.0.0.1/",
    ],
)
async def test_a_redirect_into_the_own_network_is_blocked_before_any_connection(web, target):
    web.names["internal.example"] = ["10.1.2.3"]
    web.redirect(START, target)

    with pytest.raises(Blocked, match="blocked"):
        await read(web)
    assert {address for address, _ in web.dialled} == {"93.184.215.14"}


async def test_the_second_of_two_redirects_is_judged_too(web):
    web.redirect(START, "http://other.example/next")
    web.redirect("http://other.example/next", "http://169.254.169.254/")

    with pytest.raises(Blocked, match=r"169\.254\.169\.254 is a cloud-metadata address"):
        await read(web)


@pytest.mark.parametrize(
    "location", ["file:///etc/passwd", "ftp://public.example/", "gopher://x", "data:text/html,x"]
)
async def test_a_redirect_to_another_scheme_is_refused(web, location):
    web.redirect(START, location)

    with pytest.raises(Blocked, match=r"redirect to a non-http\(s\) address"):
        await read(web)


@pytest.mark.parametrize(
    "location",
    [
        "http://user:secret@other.example/",
        "http://a@127.0.0.1",
        "/\\127.0.0.1/",
        "http:127.0.0.1",
        "http://",
        "http://[::1",
        "/" + "a" * 9000,
    ],
)
async def test_an_unreadable_redirect_is_refused(web, location):
    web.redirect(START, location)

    with pytest.raises(BadValue):
        await read(web)
    assert len(web.dialled) == 1


async def test_five_redirects_are_followed_and_a_sixth_is_not(web):
    for step in range(6):
        web.redirect(f"http://public.example/{step}", f"/{step + 1}")
    web.page("http://public.example/6", "arrived")

    assert await read(web, "http://public.example/1") == (200, b"arrived")
    with pytest.raises(FetchFailed, match=r"too many redirects \(more than 5\)"):
        await read(web, "http://public.example/0")


async def test_a_redirect_loop_ends(web):
    web.redirect(START, START)

    with pytest.raises(FetchFailed, match="too many redirects"):
        await read(web)
    assert len(web.seen) == 6


async def test_the_list_of_allowed_hosts_holds_for_redirects(web):
    web.redirect(START, "http://other.example/end")
    web.page("http://other.example/end", "arrived")

    with pytest.raises(Blocked, match=r"other\.example is not on the list .*allowed_hosts"):
        await read(web, policy=EgressPolicy(("public.example",)))


CREDENTIALS = {"Authorization": "Bearer x", "X-Api-Key": "x", "Cookie": "a=b", "Accept": "text/*"}


async def test_credentials_stay_behind_when_a_redirect_leaves_the_host(web):
    web.redirect(START, "http://other.example/back")
    web.redirect("http://other.example/back", "http://public.example/end")
    web.page("http://public.example/end", "arrived")

    await read(web, headers=CREDENTIALS)

    first, away, back = (request.headers for request in web.seen)
    assert {"authorization", "x-api-key", "cookie"} <= first.keys()
    for headers in (away, back):
        assert not {"authorization", "x-api-key", "cookie"} & headers.keys()
        assert headers["accept"] == "text/*"


@pytest.mark.parametrize("target", ["http://public.example:8080/end"])
async def test_another_port_is_another_host_for_credentials(web, target):
    web.redirect(START, target)
    web.page("http://public.example/end", "arrived")

    await read(web, headers=CREDENTIALS)

    assert "authorization" not in web.seen[1].headers


async def test_credentials_stay_with_a_redirect_inside_the_host(web):
    web.redirect(START, "/end")
    web.page("http://public.example/end", "arrived")

    await read(web, headers=CREDENTIALS)

    assert web.seen[1].headers["authorization"] == "Bearer x"


async def test_cookies_of_one_host_are_not_sent_to_another(web):
    web.page(
        START, status=302, headers={"Location": "http://other.example/", "Set-Cookie": "sid=1"}
    )
    web.page("http://other.example/", "arrived")

    await read(web)

    assert "cookie" not in web.seen[1].headers


async def test_a_client_that_is_told_to_follow_redirects_is_judged_just_the_same(web):
    web.redirect(START, "http://127.0.0.1/")

    async with egress.client(OPEN, resolve=web.resolve, network=web) as http:
        with pytest.raises(Blocked):
            await http.get(START, follow_redirects=True)
    assert [address for address, _ in web.dialled] == ["93.184.215.14"]


@pytest.mark.parametrize(
    "location", ["http://other.example/", "https://nas.example/", "http://nas.example:8080/v1"]
)
async def test_an_operators_own_server_must_not_redirect_elsewhere(web, location):
    web.names["nas.example"] = ["192.168.1.20"]
    web.redirect("http://nas.example/v1", location)
    policy = EgressPolicy(allow_private=True)

    async with egress.client(policy, resolve=web.resolve, network=web) as http:
        for does_follow in (False, True):
            with pytest.raises(Blocked, match=r"nas\.example redirects elsewhere"):
                await http.get("http://nas.example/v1", follow_redirects=does_follow)
    assert {address for address, _ in web.dialled} == {"192.168.1.20"}


async def test_an_operators_own_server_may_redirect_within_itself(web):
    web.names["nas.example"] = ["192.168.1.20"]
    web.redirect("http://nas.example/v1", "/v1/")
    policy = EgressPolicy(allow_private=True)

    async with egress.client(policy, resolve=web.resolve, network=web) as http:
        response = await http.get("http://nas.example/v1")

    assert response.status_code == 302
