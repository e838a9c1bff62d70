"""Signing in and out, and what an account may do about itself."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth import authenticate, login, logout, update_session_auth_hash
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from protoagent.accounts.services import browsers, codes, people, sign_ins
from protoagent.accounts.services.sign_ins import SignInMethod, SignInOutcome
from protoagent.core.errors import Forbidden, InvalidForm, NotFound, TooMany
from protoagent.security.redaction import mask_text
from protoagent.web import addresses, timezones
from protoagent.web.auth import watchers

BACKEND = "django.contrib.auth.backends.ModelBackend"
WAIT_S = 15 * 60
LOCKED = "Too many attempts. Wait a quarter of an hour, or use a sign-in link."


class SignInForm(forms.Form):
    username = forms.CharField(
        label="Account",
        max_length=150,
        widget=forms.TextInput(
            attrs={"class": "input", "autocomplete": "username", "autocapitalize": "none"}
        ),
    )
    password = forms.CharField(
        label="Password",
        max_length=1000,
        strip=False,
        widget=forms.PasswordInput(attrs={"class": "input", "autocomplete": "current-password"}),
    )


class PasswordForm(forms.Form):
    """A new password. The old one is asked for when there is one."""

    current = forms.CharField(
        label="Current password",
        max_length=1000,
        strip=False,
        widget=forms.PasswordInput(attrs={"class": "input", "autocomplete": "current-password"}),
    )
    password = forms.CharField(
        label="New password",
        max_length=1000,
        strip=False,
        help_text="At least 8 characters; a sentence is better than a word.",
        widget=forms.PasswordInput(attrs={"class": "input", "autocomplete": "new-password"}),
    )

    def __init__(self, account: User, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not account.has_usable_password():
            del self.fields["current"]


@require_http_methods(["GET", "HEAD", "POST"])
@sensitive_post_parameters("password")
def sign_in(request: HttpRequest) -> HttpResponse:
    """The sign-in page, and the way in by password."""
    target = addresses.local_path(request.POST.get("next") or request.GET.get("next", ""))
    if request.method != "POST":
        if request.user.is_authenticated:
            return HttpResponseRedirect(target)
        return _sign_in_page(request, SignInForm(), target)
    form = SignInForm(request.POST)
    if not form.is_valid():
        return _sign_in_page(request, form, target, status=422)
    name = User.normalize_username(form.cleaned_data["username"])
    account = authenticate(request, username=name, password=form.cleaned_data["password"])
    if account is None:
        return _refuse_password(request, form, name, target)
    return _enter(request, account, SignInMethod.PASSWORD, target)  # type: ignore[arg-type]


@require_http_methods(["GET", "HEAD", "POST"])
def sign_in_by_link(request: HttpRequest, code: str) -> HttpResponse:
    """A button first, so that a link preview cannot use the link up; the POST signs in."""
    source = _source(request)
    is_use = request.method == "POST"
    try:
        account = (codes.redeem if is_use else codes.peek)(code, source=source)
    except (NotFound, TooMany) as error:
        if is_use and isinstance(error, NotFound):
            _record(request, SignInOutcome.WRONG, SignInMethod.LINK)
        context = {"refusal": str(error)}
        return render(request, "registration/link.html", context, status=error.status)
    if not is_use:
        return render(request, "registration/link.html", {"account": account})
    return _enter(request, account, SignInMethod.LINK, "/")


@require_POST
@watchers
def sign_out(request: HttpRequest) -> HttpResponse:
    """This browser's session is over, and with it its sockets."""
    credential = f"user:{request.user.pk}"
    logout(request)
    people.publish_revoked(credential)
    return HttpResponseRedirect(addresses.LOGIN)


@require_safe
def admin_sign_in(request: HttpRequest) -> HttpResponse:
    """Where the admin sends whoever it does not let in: to the one sign-in page."""
    if request.user.is_authenticated and not request.user.is_staff:  # type: ignore[union-attr]
        raise Forbidden("the admin is for operators; this account may look around the console")
    target = addresses.local_path(request.GET.get("next", ""), "/admin/")
    return HttpResponseRedirect(addresses.login_path(target))


@require_safe
@watchers
def admin_password(request: HttpRequest) -> HttpResponse:
    """The admin's own page for it does not count wrong guesses at the old password."""
    return HttpResponseRedirect("/account/")


@require_safe
@watchers
def account(request: HttpRequest) -> HttpResponse:
    """The account's own page: password, sessions, latest sign-ins."""
    return _account_page(request, PasswordForm(_me(request)))


@require_POST
@sensitive_post_parameters()
@watchers
def change_password(request: HttpRequest) -> HttpResponse:
    """The account has a new password; its other browsers are signed out, this one is not."""
    me = _me(request)
    form = PasswordForm(me, request.POST)
    if not form.is_valid():
        return _account_page(request, form, status=422)
    try:
        if "current" in form.fields:
            people.prove(me, form.cleaned_data["current"], source=_source(request))
        people.set_password(me, form.cleaned_data["password"])
    except InvalidForm as error:
        for name, problem in error.errors.items():
            form.add_error(name, problem)
        return _account_page(request, form, status=422)
    update_session_auth_hash(request, me)
    browsers.sign_out_others(me, keep=request.session.session_key or "")
    return _back(request, "Password changed. Other browsers are signed out.")


@require_POST
@watchers
def end_session(request: HttpRequest, number: str) -> HttpResponse:
    """One of the account's browsers is signed out."""
    browsers.sign_out(_me(request), number)
    return _back(request, "That browser is signed out.")


@require_POST
@watchers
def end_all_sessions(request: HttpRequest) -> HttpResponse:
    """The account is signed out everywhere, here too."""
    browsers.sign_out_others(_me(request), keep="")
    logout(request)
    return HttpResponseRedirect(addresses.LOGIN)


def _source(request: HttpRequest) -> str:
    return str(request.META.get("REMOTE_ADDR", ""))


def _me(request: HttpRequest) -> User:
    return request.user  # type: ignore[return-value]


def _enter(request: HttpRequest, account: User, method: SignInMethod, target: str) -> HttpResponse:
    login(request, account, backend=BACKEND)
    zone = timezones.valid_zone(request.POST.get("timezone", ""))
    agent = request.headers.get("User-Agent", "")
    request.session.update(browsers.describe(_source(request), agent, zone))
    _record(request, SignInOutcome.OK, method, account=account)
    return HttpResponseRedirect(target)


def _record(request: HttpRequest, outcome: SignInOutcome, method: SignInMethod, **who: Any) -> None:
    sign_ins.record(
        outcome,
        method,
        address=_source(request),
        user_agent=request.headers.get("User-Agent", ""),
        **who,
    )


def _refuse_password(
    request: HttpRequest, form: SignInForm, name: str, target: str
) -> HttpResponse:
    if getattr(request, "axes_locked_out", False):
        sign_ins.record_locked(
            SignInMethod.PASSWORD,
            address=_source(request),
            user_agent=request.headers.get("User-Agent", ""),
        )
        form.add_error(None, LOCKED)
        response = _sign_in_page(request, form, target, status=429)
        response["Retry-After"] = str(WAIT_S)
        return response
    _record(request, SignInOutcome.WRONG, SignInMethod.PASSWORD, name=name)
    form.add_error(None, "This account and password do not belong together.")
    return _sign_in_page(request, form, target, status=422)


def _sign_in_page(
    request: HttpRequest, form: SignInForm, target: str, *, status: int = 200
) -> HttpResponse:
    typed = form.data.get("username", "")
    if mask_text(typed) != typed:  # a key in the wrong field is not shown again
        form.data = {**form.data, "username": ""}
    context = {"form": form, "next": target}
    return render(request, "registration/login.html", context, status=status)


def _account_page(request: HttpRequest, form: PasswordForm, *, status: int = 200) -> HttpResponse:
    me = _me(request)
    context = {
        "form": form,
        "scope": people.scope_of(me),
        "sessions": [
            {
                "row": row,
                "number": browsers.number_of(row),
                "label": browsers.label(row.user_agent),
                "is_this": row.pk == request.session.session_key,
            }
            for row in browsers.of_account(me)[:50]
        ],
        "sign_ins": [
            {"row": row, "label": browsers.label(row.user_agent)} for row in sign_ins.of_account(me)
        ],
    }
    return render(request, "registration/account.html", context, status=status)


def _back(request: HttpRequest, text: str) -> HttpResponse:
    messages.success(request, text)
    return HttpResponseRedirect("/account/")
