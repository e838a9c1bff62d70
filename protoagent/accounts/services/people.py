"""Accounts of people: the operator, and viewers beside them."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from protoagent.accounts import throttle
from protoagent.core import events
from protoagent.core.context import Actor, Scope
from protoagent.core.errors import BadValue, Conflict, InvalidForm, NotFound, TooMany
from protoagent.core.text import one_line

OPERATOR_NAME = "operator"


def ensure_operator() -> User:
    """The operator's account exists, may sign in, and is staff.

    It is the oldest active superuser; without one, the account named `operator`, which
    has no password until one is set. Whoever may call this owns the instance.
    """
    operators = get_user_model().objects.filter(is_superuser=True, is_active=True)
    account = operators.order_by("pk").first()
    if account is not None and account.is_staff:
        return account
    if account is None:
        account, is_new = get_user_model().objects.get_or_create(username=OPERATOR_NAME)
        if is_new:
            account.set_unusable_password()
    account.is_active = account.is_staff = account.is_superuser = True
    account.save(update_fields=["is_active", "is_staff", "is_superuser", "password"])
    return account


def create(name: str, *, scope: Scope) -> User:
    """A new account that signs in by link until it sets a password.

    Raises BadValue for another scope than operator or viewer or for an unusable name,
    and Conflict when the name is taken.
    """
    if scope not in (Scope.OPERATOR, Scope.VIEWER):
        raise BadValue("an account is an operator or a viewer")
    is_operator = scope is Scope.OPERATOR
    account = get_user_model()(
        username=get_user_model().normalize_username(name),
        is_staff=is_operator,
        is_superuser=is_operator,
    )
    account.set_unusable_password()
    try:
        account.full_clean(exclude=["password"], validate_unique=False)
    except ValidationError as error:
        raise BadValue(f"an account cannot be named so: {_sentences(error)}") from None
    try:
        with transaction.atomic():
            account.save()
    except IntegrityError:
        raise Conflict(f"there is an account {one_line(name, 60)!r} already") from None
    return account


def find(name: str) -> User:
    """The account with this name. Raises NotFound, also for an inactive one."""
    try:
        return get_user_model().objects.get(username=name, is_active=True)
    except get_user_model().DoesNotExist:
        raise NotFound(f"no account {one_line(name, 60)!r} that may sign in") from None


def listing() -> list[User]:
    """Every account, oldest first."""
    return list(get_user_model().objects.order_by("pk"))


def deactivate(account: User) -> None:
    """The account cannot sign in any more and is signed out everywhere."""
    get_user_model().objects.filter(pk=account.pk).update(is_active=False)
    account.browser_sessions.all().delete()
    publish_revoked(f"user:{account.pk}")


def set_password(account: User, password: str) -> None:
    """The account has this password, and all its other browsers are signed out.

    Raises InvalidForm with the field `password` when the password is too weak.
    """
    try:
        validate_password(password, account)
    except ValidationError as error:
        raise InvalidForm("choose another password", {"password": _sentences(error)}) from None
    account.set_password(password)
    account.save(update_fields=["password"])
    publish_revoked(f"user:{account.pk}")


def prove(account: User, password: str, *, source: str) -> None:
    """`password` is the account's own.

    Counted and throttled as a sign-in is: an unlocked screen is no place to guess it.
    Raises TooMany over the limits, and InvalidForm with the field `current` when it is wrong.
    """
    place = throttle.source_of(source)
    if not throttle.reserve(account.get_username(), place):
        raise TooMany("too many attempts; wait a quarter of an hour")
    if not account.check_password(password):
        problem = "This is not the current password."
        raise InvalidForm("the current password is wrong", {"current": problem})
    throttle.give_back(account.get_username(), place)


def scope_of(account: Any) -> Scope:
    """A superuser is an operator; everybody else may look."""
    return Scope.OPERATOR if account.is_superuser else Scope.VIEWER


def actor_for(account: Any) -> Actor:
    """The account as every surface knows it."""
    return Actor(
        name=account.get_username(), scope=scope_of(account), credential=f"user:{account.pk}"
    )


def publish_revoked(credential: str) -> None:
    """Tell open sockets, after commit, to look at their credential at once."""
    payload = {"credential": credential}
    transaction.on_commit(lambda: events.publish("credential.revoked", payload))


def _sentences(error: ValidationError) -> str:
    return one_line(" ".join(error.messages), 300)
