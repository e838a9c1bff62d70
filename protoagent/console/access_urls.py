"""Where people come in, go out, and look after their own account."""

from __future__ import annotations

from django.urls import path

from protoagent.console.views import account

urlpatterns = [
    path("login/", account.sign_in, name="login"),
    path("login/<str:code>/", account.sign_in_by_link, name="login-code"),
    path("logout/", account.sign_out, name="logout"),
    path("account/", account.account, name="account"),
    path("account/password/", account.change_password, name="account-password"),
    path("account/sessions/end/", account.end_all_sessions, name="account-sessions-end"),
    path("account/sessions/<str:number>/end/", account.end_session, name="account-session-end"),
    # The admin has doors of its own; there is one of each, with its record and its throttle.
    path("admin/login/", account.admin_sign_in, name="admin-login"),
    path("admin/logout/", account.sign_out, name="admin-logout"),
    path("admin/password_change/", account.admin_password, name="admin-password"),
]
