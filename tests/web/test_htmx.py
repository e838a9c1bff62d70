import json

import pytest
from django.http import HttpResponse

from protoagent.web import htmx
from tests.accounts.factories import browser_of, make_account


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("headers", "is_page"),
    [
        ({}, True),
        ({"hx-request": "true"}, False),
        ({"hx-request": "true", "hx-boosted": "true"}, True),
        ({"hx-request": "true", "hx-history-restore-request": "true"}, True),
    ],
)
def test_a_swap_gets_the_fragment_and_everything_else_the_page(headers, is_page):
    response = browser_of(make_account()).get("/panel/", headers=headers)

    assert ("<html" in response.content.decode()) is is_page
    assert {"HX-Request", "HX-Boosted"} <= set(response["Vary"].split(", "))


def test_notices_and_events_share_the_header():
    response = htmx.toast(HttpResponse(), "Gelöscht", undo="/undo/")
    htmx.event(response, "memory-confirmed", {"id": 7})

    triggers = json.loads(response["HX-Trigger"])
    assert triggers["toast"] == {"kind": "ok", "text": "Gelöscht", "undo": "/undo/"}
    assert triggers["memory-confirmed"] == {"id": 7}


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("http://testserver/chat/s1/?q=a#m-3", "/chat/s1/?q=a"),
        ("http://testserver", ""),
        ("", ""),
        ("javascript:alert(1)", ""),
    ],
)
def test_the_path_of_the_page_behind_a_request(rf, url, path):
    request = rf.get("/rows/", headers={"hx-current-url": url})

    assert htmx.page_path(request) == path
