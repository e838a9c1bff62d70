"""Does a list ask the database once, or once for each row?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db import connection
from django.test.utils import CaptureQueriesContext

FEW, MANY = 3, 30


def assert_constant_queries(make_row: Callable[[], Any], show: Callable[[], Any]) -> None:
    """`show` takes as many queries with thirty rows as with three.

    It is called once before, so that what is read once per process is not counted.
    """
    for _ in range(FEW):
        make_row()
    show()
    few = _queries(show)
    for _ in range(MANY - FEW):
        make_row()
    many = _queries(show)
    assert len(many) == len(few), "\n".join([f"{len(few)} queries became {len(many)}:", *many])


def _queries(show: Callable[[], Any]) -> list[str]:
    with CaptureQueriesContext(connection) as captured:
        show()
    return [query["sql"][:300] for query in captured.captured_queries]
