"""Accounts, tokens and clients: valid ones, so that a test names only what it is about."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import User
from django.test import Client

from protoagent.accounts.services import programs
from protoagent.core.context import Scope

PASSWORD = "correct horse battery staple"


def make_account(
    name: str = "ada", *, scope: Scope = Scope.OPERATOR, password: str | None = None, **fields: Any
) -> User:
    """Ada is the operator, bob a second one, vera a viewer."""
    is_operator = scope is Scope.OPERATOR
    values = {"is_superuser": is_operator, "is_staff": is_operator, **fields}
    return get_user_model().objects.create_user(name, password=password, **values)


def make_token(name: str = "ci", scope: Scope = Scope.OPERATOR) -> str:
    """A live token's secret."""
    return programs.create(name, scope).secret


def browser_of(account: User | None = None, **options: Any) -> Client:
    """A browser: it asks for HTML, sends cookies, and CSRF counts for it."""
    headers = {"accept": "text/html,application/xhtml+xml"}
    client = Client(enforce_csrf_checks=True, headers=headers, **options)
    if account is not None:
        client.force_login(account, backend="django.contrib.auth.backends.ModelBackend")
    return client


def program_with(secret: str) -> Client:
    """A program that sends a bearer token."""
    return Client(enforce_csrf_checks=True, headers={"authorization": f"Bearer {secret}"})


def post_form(client: Client, path: str, data: dict[str, Any] | None = None, **extra: Any) -> Any:
    """Post as the browser would after loading a page: with its CSRF cookie and token."""
    if "protoagent_csrf" not in client.cookies:
        client.get("/login/")
    if "protoagent_csrf" not in client.cookies:
        client.get("/account/")
    token = client.cookies["protoagent_csrf"].value
    return client.post(path, {"csrfmiddlewaretoken": token, **(data or {})}, **extra)
