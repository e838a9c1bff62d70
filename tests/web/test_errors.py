import json
import logging
import re

import pytest
from django.test import Client

from tests.accounts.factories import browser_of, make_account, make_token, program_with

pytestmark = pytest.mark.django_db


@pytest.fixture
def program() -> Client:
    client = program_with(make_token())
    client.raise_request_exception = False
    return client


@pytest.fixture
def browser() -> Client:
    client = browser_of(make_account())
    client.raise_request_exception = False
    return client


@pytest.mark.parametrize(
    ("kind", "status", "detail"),
    [
        ("bad", 400, "this is bad"),
        ("missing", 404, "no thing 7"),
        ("conflict", 409, "changed meanwhile"),
        ("often", 429, "slow down"),
        ("http404", 404, "there is nothing at this address"),
        ("denied", 403, "secret rule"),
        ("suspicious", 400, "this request is not valid"),
    ],
)
def test_programs_get_a_detail_and_people_get_a_page(program, browser, kind, status, detail):
    answer = program.get(f"/api/fail/{kind}")
    page = browser.get(f"/fail/{kind}/")

    assert (answer.status_code, answer.json()) == (status, {"detail": detail})
    assert page.status_code == status
    assert f"{detail[0].upper()}{detail[1:]}." in page.content.decode()
    assert "text/html" in page["Content-Type"]


def test_a_form_error_names_its_fields(program, browser):
    answer = program.get("/api/fail/form")
    page = browser.get("/fail/form/")

    assert answer.status_code == page.status_code == 422
    assert answer.json() == {"detail": "mend it", "errors": {"name": "is missing"}}
    assert "name: is missing" in page.content.decode()


def test_a_swap_gets_a_fragment_and_a_notice(browser):
    response = browser.get("/fail/conflict/", headers={"hx-request": "true"})

    text = response.content.decode()
    assert response.status_code == 409
    assert "<html" not in text and "Changed meanwhile." in text
    toast = json.loads(response["HX-Trigger"])["toast"]
    assert toast == {"kind": "err", "text": "changed meanwhile"}


def test_an_unknown_failure_shows_an_id_that_is_in_the_log_and_nothing_else(
    program, browser, caplog
):
    with caplog.at_level(logging.ERROR):
        answer = program.get("/api/fail/boom")
        page = browser.get("/fail/boom/")

    assert answer.status_code == page.status_code == 500
    number = answer.json()["id"]
    for text in (answer.content.decode(), page.content.decode()):
        assert "secret detail" not in text and "Traceback" not in text
    records = [record for record in caplog.records if number in record.getMessage()]
    assert len(records) == 1 and records[0].exc_info
    assert len(caplog.records) == 2


def test_a_failure_reaches_the_test_client():
    client = program_with(make_token())

    with pytest.raises(RuntimeError, match="secret detail"):
        client.get("/api/fail/boom")


def test_an_unknown_address_is_404_in_the_callers_language(program, browser):
    assert program.get("/api/nothing").json() == {"detail": "there is nothing at this address"}
    page = browser.get("/nothing/")

    assert page.status_code == 404
    assert "<h1>Nothing here</h1>" in page.content.decode()


def test_a_wrong_method_is_405_with_a_body(program, browser):
    answer, page = program.get("/api/post"), browser.get("/post/")

    assert answer.status_code == page.status_code == 405
    assert answer.json() == {"detail": "this address takes POST"}
    assert answer["Allow"] == page["Allow"] == "POST"


def test_a_body_over_a_mebibyte_is_413(program):
    response = program.post(
        "/api/body", data=b'"' + b"x" * (1024 * 1024) + b'"', content_type="application/json"
    )

    assert response.status_code == 413
    assert set(response.json()) == {"detail"}


def test_a_form_over_a_mebibyte_is_413_although_the_csrf_check_reads_it_first(browser):
    browser.get("/account/")

    response = browser.post(
        "/post/",
        data=b"a=" + b"x" * (1024 * 1024 + 1),
        content_type="application/x-www-form-urlencoded",
    )

    assert response.status_code == 413


@pytest.mark.parametrize(
    "body", [b"{", b"[1]", b"\xff", b'{"a": NaN}', b'{"a": "\\u0000"}', b'{"a": "\\ud800"}']
)
def test_a_broken_body_is_400(program, body):
    response = program.post("/api/body", data=body, content_type="application/json")

    assert response.status_code == 400
    assert set(response.json()) == {"detail"}


def test_a_broken_multipart_form_is_no_500(program):
    response = program.post(
        "/post/", data=b"--x\r\nnonsense", content_type="multipart/form-data; boundary=\xe9"
    )

    assert response.status_code in (200, 400)


def test_a_form_with_thousands_of_fields_is_400(browser):
    browser.get("/account/")
    data = "&".join(f"f{n}=1" for n in range(2000))

    response = browser.post(
        "/post/", data=data.encode(), content_type="application/x-www-form-urlencoded"
    )

    assert response.status_code == 400


@pytest.mark.parametrize("status", [400, 403, 404, 500])
def test_error_pages_carry_no_script_and_no_inline_style(browser, status):
    kind = {400: "bad", 403: "denied", 404: "missing", 500: "boom"}[status]

    text = browser.get(f"/fail/{kind}/").content.decode()

    assert "<script" not in text and "style=" not in text
    assert not re.search(r"\son\w+=", text)
    assert text.count("<h1>") == 1


def test_error_pages_need_neither_session_nor_database(browser, django_assert_num_queries):
    with django_assert_num_queries(2):  # the caller is recognised, and that is all
        browser.get("/fail/missing/")


def test_text_in_an_error_is_escaped(browser, monkeypatch):
    from protoagent.core.errors import BadValue
    from tests.web import urls

    monkeypatch.setitem(urls.FAILURES, "bad", BadValue("<img src=x onerror=alert(1)>"))

    page = browser.get("/fail/bad/").content.decode()
    fragment = browser.get("/fail/bad/", headers={"hx-request": "true"}).content.decode()

    assert "<img src=x" not in page + fragment


@pytest.mark.parametrize(
    ("cookie", "attribute"),
    [("dark", ' data-theme="dark"'), ("light", ' data-theme="light"'), ('"><script>', "")],
)
def test_error_pages_come_in_the_theme_of_the_browser(browser, cookie, attribute):
    browser.cookies["theme"] = cookie

    text = browser.get("/fail/missing/").content.decode()

    assert f'<html lang="en"{attribute}>' in text
