"""S10, as far as access goes: neither tokens nor usable sign-in codes reach the log."""

from __future__ import annotations

import logging
import sys

import pytest

from protoagent.accounts.services import codes
from protoagent.security import tokens
from protoagent.security.logs import MaskingFormatter
from tests.accounts.factories import browser_of, make_account, make_token, program_with


def line(message: str, *arguments: object, **extra: object) -> str:
    record = logging.LogRecord("x", logging.INFO, "f.py", 1, message, arguments, None)
    record.__dict__.update(extra)
    return MaskingFormatter("%(levelname)s %(message)s").format(record)


def test_a_sign_in_code_is_masked_and_the_sign_in_page_is_not():
    code = tokens.new_code()

    assert code not in line("Not Found: %s", f"/login/{code}/")
    assert line("Not Found: %s", f"/login/{code}/") == "INFO Not Found: /login/[REDACTED]/"
    assert line("GET /login/?next=/x") == "INFO GET /login/?next=/x"


def test_a_token_in_a_message_is_masked():
    secret = tokens.new_token()

    assert secret not in line("refused %s", f"Authorization: Bearer {secret}")
    assert secret not in line("refused %s", secret)


def test_a_token_in_a_traceback_is_masked():
    secret = tokens.new_token()
    try:
        raise ValueError(f"cannot use {secret}")
    except ValueError:
        text = line("failed", exc_info=sys.exc_info())

    assert "ValueError" in text and secret not in text


def test_the_settings_use_it_for_every_handler(settings):
    formatter = settings.LOGGING["formatters"]["line"]["()"]

    assert formatter == "protoagent.security.logs.MaskingFormatter"
    assert {handler["formatter"] for handler in settings.LOGGING["handlers"].values()} == {"line"}


@pytest.mark.django_db
def test_requests_with_credentials_leave_none_in_the_log(caplog, capsys):
    code, secret = codes.issue(make_account()), make_token()
    with caplog.at_level(logging.DEBUG):
        browser_of().post(f"/login/{code}/")
        browser_of().get(f"/login/{code}x/")
        program_with(secret).get("/nothing/")
        program_with(secret + "x").get("/api/thing")

    formatter = MaskingFormatter("%(message)s")
    text = "\n".join(formatter.format(record) for record in caplog.records)
    assert text and code not in text and secret not in text
