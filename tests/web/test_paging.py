import base64
import json
from datetime import UTC, datetime

import pytest

from protoagent.accounts.models import SignIn
from protoagent.core.errors import BadValue
from protoagent.web import paging

pytestmark = pytest.mark.django_db


def make_rows(count: int, *, at: datetime | None = None) -> None:
    when = at or datetime(2026, 3, 1, tzinfo=UTC)
    SignIn.objects.bulk_create(
        SignIn(at=when, method="link", outcome="ok", name=f"n{n:03}") for n in range(count)
    )


def walk(order: tuple[str, ...], limit: int = 7) -> list[int]:
    seen: list[int] = []
    cursor = ""
    for _ in range(100):
        page = paging.page(
            SignIn.objects.all(), {"limit": str(limit), "cursor": cursor}, order=order
        )
        seen += [row.pk for row in page.rows]
        if page.next is None:
            return seen
        cursor = page.next
    raise AssertionError("the list never ends")


@pytest.mark.parametrize(
    "order", [("-pk",), ("pk",), ("-at", "-pk"), ("at", "-pk"), ("name", "pk")]
)
def test_every_row_is_seen_once_in_order(order):
    make_rows(20)
    make_rows(20, at=datetime(2026, 4, 1, 12, 30, 0, 123456, tzinfo=UTC))

    seen = walk(order)

    assert seen == list(SignIn.objects.order_by(*order).values_list("pk", flat=True))


def test_rows_that_come_and_go_neither_repeat_nor_hide_others():
    make_rows(10)
    first = paging.page(SignIn.objects.all(), {"limit": "4"})
    SignIn.objects.filter(pk=first.rows[-1].pk).delete()
    make_rows(3)

    second = paging.page(SignIn.objects.all(), {"limit": "4", "cursor": first.next or ""})

    assert second.rows[0].pk == first.rows[-1].pk - 1


def test_the_last_page_has_no_next():
    make_rows(5)

    assert paging.page(SignIn.objects.all(), {"limit": "5"}).next is None
    assert paging.page(SignIn.objects.none(), {}).next is None


@pytest.mark.parametrize("limit", ["0", "-1", "201", "x", "1e3", "٣", "99999999999", " "])
def test_a_limit_out_of_range_is_refused(limit):
    with pytest.raises(BadValue, match="limit"):
        paging.page(SignIn.objects.all(), {"limit": limit})


def forged(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    "cursor",
    [
        "x",
        "é",
        "====",
        "a" * 2000,
        forged({}),
        forged([]),
        forged([1, 2, 3]),
        forged([None, 1]),
        forged(["2026-01-01T00:00:00+00:00", "x"]),
        forged(["no date", 1]),
        forged(["2026-99-99T00:00:00", 1]),
        forged([{"a": 1}, 1]),
        forged([True, 1]),
        forged(["2026-01-01T00:00:00+00:00", 10**30]),
        forged(["2026-01-01T00:00:00\x00", 1]),
    ],
)
def test_a_cursor_that_this_list_never_gave_is_refused(cursor):
    with pytest.raises(BadValue, match="cursor"):
        paging.page(SignIn.objects.all(), {"cursor": cursor}, order=("-at", "-pk"))


@pytest.mark.parametrize("count", [3, 30])
def test_a_page_takes_one_query(django_assert_num_queries, count):
    make_rows(count)

    with django_assert_num_queries(1):
        paging.page(SignIn.objects.all(), {"limit": "200"})
