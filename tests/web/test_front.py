import pytest
from django.test import Client

from protoagent.core.errors import BadValue, Forbidden
from protoagent.security import hosts
from tests.accounts.factories import browser_of, make_account


@pytest.mark.parametrize(
    "host", ["attacker.test", "127.0.0.1.attacker.test", "localhost@x", "", "a b"]
)
@pytest.mark.parametrize(
    "path", ["/healthz", "/login/", "/api/thing", "/static/x.css", "/nothing/"]
)
def test_a_foreign_host_name_is_400_on_every_path_without_a_query(
    db, django_assert_num_queries, host, path
):
    with django_assert_num_queries(0):
        response = Client(headers={"accept": "text/html"}).get(path, headers={"host": host})

    assert response.status_code == 400
    text = response.content.decode()
    assert "another name" in text
    assert "localhost" not in text and "ALLOWED_HOSTS" not in text


def test_a_foreign_host_in_front_of_the_api_gets_a_detail():
    response = Client().get("/api/thing", headers={"host": "attacker.test"})

    assert (response.status_code, response.json()) == (
        400,
        {"detail": "this server has another name"},
    )


@pytest.mark.django_db
def test_every_answer_carries_the_strict_headers():
    for response in (Client().get("/login/"), browser_of(make_account()).get("/page/")):
        policy = response["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy
        assert response["Cross-Origin-Resource-Policy"] == "same-origin"
        assert response["X-Content-Type-Options"] == "nosniff"
        assert response["X-Frame-Options"] == "DENY"
        assert response["Referrer-Policy"] == "same-origin"
        assert response["Cross-Origin-Opener-Policy"] == "same-origin"


@pytest.mark.django_db
def test_a_forged_forwarding_header_is_not_believed(settings):
    settings.TRUSTED_PROXIES = ()

    response = Client().get(
        "/login/", headers={"x-forwarded-for": "10.9.9.9", "x-forwarded-proto": "https"}
    )

    assert response.wsgi_request.META["REMOTE_ADDR"] == "127.0.0.1"
    assert not response.wsgi_request.is_secure()
    assert not response.cookies["protoagent_csrf"]["secure"]


@pytest.mark.django_db
def test_behind_a_trusted_proxy_the_client_is_who_it_names_and_cookies_are_secure(settings):
    settings.TRUSTED_PROXIES = hosts.parse_proxies("127.0.0.0/8")

    response = Client().get(
        "/login/",
        headers={"x-forwarded-for": "6.6.6.6, 10.9.9.9", "x-forwarded-proto": "https"},
    )

    assert response.wsgi_request.META["REMOTE_ADDR"] == "10.9.9.9"
    assert response.wsgi_request.is_secure()
    assert response.cookies["protoagent_csrf"]["secure"]


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("10.0.0.1", "1.2.3.4", "1.2.3.4"),
        ("10.0.0.1", "6.6.6.6, 1.2.3.4, 10.0.0.2", "1.2.3.4"),
        ("10.0.0.1", "", "10.0.0.1"),
        ("10.0.0.1", "unknown", "10.0.0.1"),
        ("10.0.0.1", "1.2.3.4, unknown", "10.0.0.1"),
        ("8.8.8.8", "1.2.3.4", "8.8.8.8"),
        ("::ffff:10.0.0.1", "2001:db8::7", "2001:db8::7"),
        ("", "1.2.3.4", ""),
    ],
)
def test_the_client_is_the_last_address_that_no_trusted_proxy_wrote(peer, forwarded, client):
    proxies = hosts.parse_proxies("10.0.0.0/8")

    assert hosts.client_address(peer, forwarded, proxies) == client


def test_a_wrong_proxy_list_names_its_variable():
    with pytest.raises(BadValue, match="PROTOAGENT_TRUSTED_PROXIES"):
        hosts.parse_proxies("10.0.0.0/8, nginx")


@pytest.mark.parametrize("extra", ["*", "*.lan", "a.lan, *", "."])
def test_a_pattern_for_every_host_is_refused_at_the_start(extra):
    with pytest.raises(BadValue, match="PROTOAGENT_ALLOWED_HOSTS"):
        hosts.allowed("127.0.0.1", extra)


def test_loopback_the_bind_and_the_named_hosts_are_allowed():
    assert hosts.allowed("192.168.1.5", " agent.lan,,fd00::1 ") == [
        "localhost",
        "127.0.0.1",
        "[::1]",
        "192.168.1.5",
        "agent.lan",
        "[fd00::1]",
    ]


def test_a_server_on_every_address_answers_to_its_own_name_and_not_to_every_name():
    names = hosts.allowed("0.0.0.0", "")

    assert len(names) >= 4
    assert not any("*" in name for name in names)


SAME = [
    ("http://localhost:7870", "localhost:7870"),
    ("http://LOCALHOST:7870", "localhost:7870"),
    ("http://[::1]:7870", "[::1]:7870"),
    ("http://agent.lan", "agent.lan"),
    ("http://agent.lan:80", "agent.lan"),
    ("https://agent.lan", "agent.lan:443"),
]
FOREIGN = [
    ("null", "localhost:7870"),
    ("", "localhost:7870"),
    ("http://localhost:7871", "localhost:7870"),
    ("http://localhost", "localhost:7870"),
    ("http://127.0.0.1:7870", "localhost:7870"),
    ("http://localhost:7870.attacker.test", "localhost:7870"),
    ("http://localhost.attacker.test:7870", "localhost:7870"),
    ("http://localhost:7870@attacker.test", "localhost:7870"),
    ("http://attacker.test#localhost:7870", "localhost:7870"),
    ("http://localhost:7870/", "localhost:7870"),
    ("http://localhost:7870 ", "localhost:7870"),
    ("http://localhost:7870\n", "localhost:7870"),
    ("ftp://localhost:7870", "localhost:7870"),
    ("chrome-extension://abcdef", "localhost:7870"),
    ("file://", "localhost:7870"),
    ("https://agent.lan", "agent.lan:80"),
    ("http://xn--lcalhost-54a:7870", "localhost:7870"),
    ("http://lоcalhost:7870", "localhost:7870"),
]


@pytest.mark.parametrize(("origin", "host"), SAME)
def test_a_page_of_this_host_and_port_may_connect(origin, host):
    hosts.check_origin(origin, host, is_secure=False)


@pytest.mark.parametrize(("origin", "host"), FOREIGN)
def test_any_other_origin_may_not(origin, host):
    with pytest.raises(Forbidden):
        hosts.check_origin(origin, host, is_secure=False)


def test_a_plain_page_may_not_use_a_secure_socket():
    hosts.check_origin("https://agent.lan", "agent.lan", is_secure=True)

    with pytest.raises(Forbidden):
        hosts.check_origin("http://agent.lan", "agent.lan", is_secure=True)
