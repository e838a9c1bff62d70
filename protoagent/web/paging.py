"""`?limit=&cursor=` → rows and `next` (contract §4).

A cursor is the place of the last row, not a count, so rows that come or go meanwhile
neither repeat nor hide others.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from django.core.exceptions import ValidationError
from django.db.models import Field, Model, Q, QuerySet
from django.utils.dateparse import parse_datetime

from protoagent.core.errors import BadValue

Row = TypeVar("Row", bound=Model)

DEFAULT_LIMIT = 50
MAX_LIMIT = 200
MAX_CURSOR_CHARS = 1000


@dataclass(frozen=True)
class Page(Generic[Row]):
    """Some rows in order, and the cursor of what follows them, or None at the end."""

    rows: list[Row]
    next: str | None


def page(
    rows: QuerySet[Row], parameters: Mapping[str, str], *, order: tuple[str, ...] = ("-pk",)
) -> Page[Row]:
    """The page that the query parameters `limit` (1–200, 50 without) and `cursor` ask for.

    `order` names fields without NULLs, the last one unique; `-` reverses one. Raises
    BadValue for a limit that is no number in range and a cursor that this list never gave.
    """
    limit = parse_limit(parameters.get("limit", ""))
    cursor = parameters.get("cursor", "")
    if cursor:
        rows = rows.filter(_after(rows.model, order, _decode(cursor, len(order))))
    found = list(rows.order_by(*order)[: limit + 1])
    if len(found) <= limit:
        return Page(found, None)
    found.pop()
    return Page(found, _encode([_value(found[-1], name) for name in order]))


def parse_limit(text: str, *, default: int = DEFAULT_LIMIT, maximum: int = MAX_LIMIT) -> int:
    """A row count from 1 to `maximum`; `default` for a blank. Raises BadValue for another text."""
    if not text:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) < 7 and 1 <= int(text) <= maximum):
        raise BadValue(f"limit must be a number from 1 to {maximum}")
    return int(text)


def _field(model: type[Model], name: str) -> Field[Any, Any]:
    plain = name.lstrip("-")
    meta = model._meta
    return meta.pk if plain == "pk" else meta.get_field(plain)  # type: ignore[return-value]


def _value(row: Model, name: str) -> Any:
    value = getattr(row, _field(type(row), name).attname)
    return value.isoformat() if hasattr(value, "isoformat") else value


def _after(model: type[Model], order: tuple[str, ...], place: list[Any]) -> Q:
    """Rows behind `place`: equal in the first fields and beyond it in the next one."""
    beyond, equal = Q(), Q()
    for name, raw in zip(order, place, strict=True):
        plain = name.lstrip("-")
        value = _typed(_field(model, name), raw)
        beyond |= equal & Q(**{f"{plain}__{'lt' if name.startswith('-') else 'gt'}": value})
        equal &= Q(**{plain: value})
    return beyond


def _typed(field: Field[Any, Any], raw: Any) -> Any:
    if raw is None or isinstance(raw, bool | list | dict):
        raise _bad_cursor()
    try:
        value = parse_datetime(raw) if field.get_internal_type() == "DateTimeField" else raw
        value = field.to_python(value)
    except (ValidationError, ValueError, TypeError):
        raise _bad_cursor() from None
    if value is None or (isinstance(value, int) and abs(value) >= 2**63):
        raise _bad_cursor()
    return value


def _encode(place: list[Any]) -> str:
    text = json.dumps(place, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _decode(cursor: str, length: int) -> list[Any]:
    if len(cursor) > MAX_CURSOR_CHARS:
        raise _bad_cursor()
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        place = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (ValueError, RecursionError):
        raise _bad_cursor() from None
    if not isinstance(place, list) or len(place) != length:
        raise _bad_cursor()
    if any(isinstance(value, str) and "\x00" in value for value in place):
        raise _bad_cursor()
    return place


def _bad_cursor() -> BadValue:
    return BadValue("cursor must be the next of an earlier answer")
