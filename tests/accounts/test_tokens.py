from datetime import timedelta

import pytest

from protoagent.accounts.models import ApiToken
from protoagent.accounts.services import credentials, programs
from protoagent.core import clock, events
from protoagent.core.context import Scope
from protoagent.core.errors import BadValue, Conflict, NotFound
from protoagent.security import tokens

pytestmark = pytest.mark.django_db


def test_a_token_is_recognised_by_its_secret_and_only_the_fingerprint_is_stored():
    made = programs.create("ci", Scope.VIEWER)

    grant = credentials.from_secret(made.secret)

    assert grant is not None
    assert (grant.actor.name, grant.actor.scope) == ("token:ci", Scope.VIEWER)
    row = ApiToken.objects.get()
    assert row.fingerprint == tokens.fingerprint(made.secret)
    assert made.secret not in str(vars(row))


def test_secrets_are_long_random_and_start_with_pa():
    secrets = {tokens.new_token() for _ in range(100)}

    assert len(secrets) == 100
    assert all(tokens.is_token_shaped(secret) and len(secret) == 46 for secret in secrets)


def test_a_secret_is_not_shown_by_repr():
    made = programs.create("ci", Scope.OPERATOR)

    assert made.secret not in repr(made)


@pytest.mark.parametrize("name", ["", "-x", "a b", "a/b", "x" * 65, "ü", "(env)", "a\n"])
def test_a_name_that_a_shell_or_log_could_misread_is_refused(name):
    with pytest.raises(BadValue):
        programs.create(name, Scope.OPERATOR)


def test_a_name_is_unique_among_live_tokens_and_free_again_after_revoking():
    programs.create("ci", Scope.OPERATOR)

    with pytest.raises(Conflict):
        programs.create("ci", Scope.VIEWER)
    programs.revoke("ci")
    again = programs.create("ci", Scope.VIEWER)

    assert again.row.scope == "viewer"
    assert ApiToken.objects.count() == 2


def test_a_revoked_token_is_unknown_and_cannot_be_revoked_again():
    made = programs.create("ci", Scope.OPERATOR)

    programs.revoke("ci")

    assert credentials.from_secret(made.secret) is None
    with pytest.raises(NotFound):
        programs.revoke("ci")


def test_revoking_sends_a_hint_after_commit(django_capture_on_commit_callbacks):
    row = programs.create("ci", Scope.OPERATOR).row
    heard = []
    stop = events.listen(lambda name, payload: heard.append((name, payload)))

    with django_capture_on_commit_callbacks(execute=True):
        programs.revoke("ci")
    stop()

    assert heard == [("credential.revoked", {"credential": f"token:{row.pk}"})]


def test_last_use_is_written_at_most_once_a_minute(django_assert_num_queries):
    made = programs.create("ci", Scope.OPERATOR)
    credentials.from_secret(made.secret)
    first = ApiToken.objects.get().last_used_at

    with django_assert_num_queries(1):
        credentials.from_secret(made.secret)
    assert ApiToken.objects.get().last_used_at == first
    ApiToken.objects.update(last_used_at=clock.now() - timedelta(minutes=2))
    credentials.from_secret(made.secret)

    assert ApiToken.objects.get().last_used_at >= first


def test_what_is_not_shaped_like_a_token_costs_no_query(django_assert_num_queries):
    with django_assert_num_queries(0):
        assert credentials.from_secret("hunter2") is None


def test_the_token_of_the_environment_is_an_operator(clean_env):
    clean_env.setenv("PROTOAGENT_TOKEN", "from-the-environment")

    grant = credentials.from_secret("from-the-environment")

    assert grant is not None
    assert (grant.actor.scope, grant.actor.credential) == (Scope.OPERATOR, "env")
    assert credentials.from_secret("from-the-environmen") is None
    assert "from-the-environment" not in repr(grant)


def test_without_a_token_in_the_environment_a_blank_one_is_nobody(clean_env):
    assert credentials.from_secret("") is None


def test_a_changed_environment_token_ends_the_grant(clean_env):
    clean_env.setenv("PROTOAGENT_TOKEN", "first")
    grant = credentials.from_secret("first")

    assert credentials.recheck([grant])[grant] == grant.actor
    clean_env.setenv("PROTOAGENT_TOKEN", "second")

    assert credentials.recheck([grant])[grant] is None


def test_rechecking_many_tokens_takes_one_query_per_five_hundred(django_assert_num_queries):
    grants = [
        credentials.from_secret(programs.create(f"t{n}", Scope.VIEWER).secret) for n in range(30)
    ]
    programs.revoke("t3")

    with django_assert_num_queries(1):
        found = credentials.recheck(grants)

    assert [n for n, grant in enumerate(grants) if found[grant] is None] == [3]


def test_the_scope_of_a_grant_is_what_the_record_says_now():
    grant = credentials.from_secret(programs.create("ci", Scope.OPERATOR).secret)
    ApiToken.objects.update(scope="viewer")

    assert credentials.recheck([grant])[grant].scope is Scope.VIEWER


def test_live_tokens_are_listed_first():
    for name in ("b", "a", "c"):
        programs.create(name, Scope.OPERATOR)
    programs.revoke("a")

    assert [row.name for row in programs.listing()] == ["b", "c", "a"]
