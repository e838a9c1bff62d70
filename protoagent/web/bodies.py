"""Reading JSON that strangers sent: bounded, and only what every database can store."""

from __future__ import annotations

import json
from typing import Any

from django.http import HttpRequest

from protoagent.core.errors import BadValue, TooLarge
from protoagent.core.text import refuse_constant, whole_float

MAX_BYTES = 1024 * 1024


def parse_json(body: str | bytes, *, max_bytes: int = MAX_BYTES) -> Any:
    """The value in a JSON text.

    Raises TooLarge above `max_bytes`, and BadValue for anything that is not JSON in
    UTF-8, for a name that stands twice in an object, for NaN, infinities and numbers
    beyond a float, and for texts with NUL characters or half surrogate pairs: PostgreSQL
    refuses to store them, and SQLite gives them back broken.
    """
    size = len(body) if isinstance(body, bytes) or body.isascii() else len(body.encode())
    if size > max_bytes:
        raise TooLarge(f"more than {max_bytes:,} bytes; this one has {size:,}")
    try:
        text = body.decode("utf-8") if isinstance(body, bytes) else body
        value = json.loads(
            text,
            parse_constant=refuse_constant,
            parse_float=whole_float,
            object_pairs_hook=_object_without_doubles,
        )
    except UnicodeDecodeError:
        raise BadValue("the text is not UTF-8") from None
    except RecursionError:
        raise BadValue("the JSON is nested too deeply") from None
    except ValueError as error:
        raise BadValue(f"this is not JSON: {error}") from None
    if "\\u" in text:  # only an escape can smuggle such a character in
        _check_texts(value)
    return value


def read_object(request: HttpRequest, *, max_bytes: int = MAX_BYTES) -> dict[str, Any]:
    """The JSON object in the request's body; an empty body is an empty object.

    Raises as `parse_json` does, and BadValue for another kind of value.
    """
    if not request.body.strip():
        return {}
    value = parse_json(request.body, max_bytes=max_bytes)
    if not isinstance(value, dict):
        raise BadValue("the body must be a JSON object")
    return value


def _object_without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands twice in one object")
    return found


def _check_texts(value: Any) -> None:
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            waiting += [*part.keys(), *part.values()]
        elif isinstance(part, list):
            waiting += part
        elif isinstance(part, str):
            _check_text(part)


def _check_text(text: str) -> None:
    if "\x00" in text:
        raise BadValue("texts cannot contain NUL characters")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise BadValue("texts cannot contain half of a surrogate pair") from None
