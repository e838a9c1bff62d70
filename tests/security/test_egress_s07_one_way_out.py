"""S07: one way out. No module but the egress layer may import an HTTP client."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from protoagent.core.errors import Blocked
from protoagent.security import egress
from protoagent.security.egress import EgressPolicy

ROOT = Path(__file__).parents[2]
PACKAGES = ("protoagent", "tools_app", "memory_app", "tasks_app")
CLIENTS = {
    "httpx",
    "httpx2",
    "httpcore",
    "httpcore2",
    "requests",
    "aiohttp",
    "urllib3",
    "urllib.request",
    "http.client",
    "ftplib",
    "smtplib",
    "telnetlib",
    "xmlrpc.client",
    "pycurl",
    "primp",
    "ddgs",
    "openai",
    "websockets",
    "websocket",
    "httplib2",
    "treq",
    "twisted.web.client",
}
# The DuckDuckGo package brings a client of its own (spec/behaviour-tools §1.4, §1.6).
EXCEPTIONS = {
    "protoagent/security/egress.py": {"httpx", "httpcore"},
    "protoagent/internet/search.py": {"ddgs"},
}


def sources():
    for package in PACKAGES:
        yield from sorted((ROOT / package).rglob("*.py"))


def imported(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def clients_in(path):
    return {
        client
        for name in imported(path)
        for client in CLIENTS
        if name == client or name.startswith(client + ".")
    }


def test_there_is_something_to_look_at():
    assert len(list(sources())) > 20


def test_only_the_egress_layer_imports_an_http_client():
    found = {}
    for path in sources():
        name = path.relative_to(ROOT).as_posix()
        extra = clients_in(path) - EXCEPTIONS.get(name, set())
        if extra:
            found[name] = sorted(extra)

    assert found == {}


@pytest.mark.parametrize(
    "code",
    [
        "import httpx",
        "import httpx as h",
        "from httpx import AsyncClient",
        "def f():\n    import urllib.request",
        "from urllib import request",
        "from urllib.request import urlopen",
        "import http.client",
    ],
)
def test_the_check_sees_each_way_to_import_one(tmp_path, code):
    path = tmp_path / "module.py"
    path.write_text(code)

    assert clients_in(path)


def test_no_module_opens_a_plain_connection_to_a_host():
    names = {"open_connection", "create_connection", "urlopen"}
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sources()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in names
    ]

    assert found == []


@pytest.mark.parametrize(
    ("entries", "host", "is_listed"),
    [
        (["example.com"], "example.com", True),
        (["example.com"], "www.example.com", False),
        (["*.example.com"], "example.com", True),
        (["*.example.com"], "a.b.example.com", True),
        (["*.example.com"], "example.com.evil.net", False),
        (["*.example.com"], "badexample.com", False),
        ([" EXAMPLE.com ", "", "  "], "example.com", True),
        (["example.com:8080"], "example.com", True),
        (["https://example.com/path"], "example.com", True),
        (["example.com."], "example.com", True),
        (["b\u00fccher.example"], "xn--bcher-kva.example", True),
        (["127.1"], "127.0.0.1", True),
        (["::1"], "::1", True),
        (["[::1]:80"], "::1", True),
        (["*"], "example.com", False),
        (["*.com.*"], "example.com", False),
        (["exam*.com"], "example.com", False),
    ],
)
def test_the_list_of_allowed_hosts(entries, host, is_listed):
    policy = EgressPolicy(tuple(entries))

    assert policy.lists(host) is is_listed
    if is_listed:
        policy.check_host(host)
    else:
        with pytest.raises(Blocked, match=r"blocked: .*egress\.allowed_hosts"):
            policy.check_host(host)


def test_a_list_of_blanks_is_no_list():
    policy = EgressPolicy(("", "  "))

    assert policy == EgressPolicy()
    policy.check_host("anything.example")


async def test_a_host_off_the_list_is_not_even_looked_up(web):
    policy = EgressPolicy(("public.example",))

    async with egress.client(policy, resolve=web.resolve, network=web) as http:
        with pytest.raises(Blocked, match=r"secret\.other\.example .*\(public\.example\)"):
            await http.get("http://secret.other.example/")
    assert web.looked_up == []


@pytest.mark.parametrize("url", ["ws://public.example/", "ftp://public.example/"])
async def test_a_client_speaks_http_only(web, url):
    async with egress.client(EgressPolicy(), resolve=web.resolve, network=web) as http:
        with pytest.raises((Blocked, egress.HttpFailed)):
            await http.get(url)
    assert web.dialled == []
