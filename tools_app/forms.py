"""Forms an agent may ask an operator to fill: JSON Schema draft-07 of each step, narrowed.

`check_steps` judges what the agent sends, `check_answers` what the operator sends, and
`normalise` gives both and every surface the same fields. Source: ui/SPEC.md §3.8.
"""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any
from urllib.parse import urlsplit

from protoagent.core import patterns
from protoagent.core.errors import BadValue
from protoagent.core.text import one_line

log = logging.getLogger(__name__)

MAX_STEPS = 8
MAX_FIELDS = 12
MAX_OPTIONS = 40
MAX_TEXT_CHARS = 64 * 1024
MAX_SCHEMA_CHARS = 200_000

SIMPLE = ("string", "number", "integer", "boolean")
FORMATS = ("textarea", "email", "uri", "date", "time", "date-time", "password")
LIMITS = {
    "string": ("minLength", "maxLength", "pattern"),
    "number": ("minimum", "maximum", "multipleOf"),
    "integer": ("minimum", "maximum", "multipleOf"),
    "array": ("minItems", "maxItems"),
    "boolean": (),
}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}\Z")
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+\Z")


@dataclass(frozen=True)
class Option:
    """One choice. `value` is what the answer holds."""

    value: Any
    label: str
    description: str = ""


@dataclass(frozen=True)
class Field:
    """One question. `kind` is string, number, integer, boolean or array (several choices).

    `limits` holds those JSON Schema keywords that apply. `depends_on` names the field
    that decides, by `condition`, whether this one is asked at all; `decider` is that field.
    """

    name: str
    kind: str
    label: str
    description: str = ""
    format: str = ""
    required: bool = False
    options: tuple[Option, ...] = ()
    as_cards: bool = False
    has_default: bool = False
    default: Any = None
    limits: Mapping[str, Any] = field(default_factory=dict)
    depends_on: str = ""
    condition: Mapping[str, Any] = field(default_factory=dict)
    decider: Field | None = None


@dataclass(frozen=True)
class Step:
    """One page of the form."""

    title: str
    description: str
    fields: tuple[Field, ...]


def check_steps(steps: Any) -> list[dict[str, Any]]:
    """The steps as they are stored and shown: `{title, description, schema, order}` each.

    `order` lists the fields: a PostgreSQL `jsonb` column does not keep the order of keys.
    Raises BadValue with a sentence for the agent: no step, too many steps, fields or
    options, nested objects, `$ref`, arrays that are no choice, two fields of one name.
    """
    if not isinstance(steps, list) or not steps:
        raise BadValue("supply at least one step with fields, or use ask_human for one question")
    if len(steps) > MAX_STEPS:
        raise BadValue(f"a form has at most {MAX_STEPS} steps, not {len(steps)}")
    try:
        size = len(json.dumps(steps))
    except (TypeError, ValueError, RecursionError):
        raise BadValue("the steps must be plain JSON") from None
    if size > MAX_SCHEMA_CHARS:
        raise BadValue(f"the steps have more than {MAX_SCHEMA_CHARS:,} characters")
    normalise(steps)
    return [
        {
            "title": str(step.get("title") or f"Step {number}"),
            "description": str(step.get("description") or ""),
            "schema": step["schema"],
            "order": list(step["schema"]["properties"]),
        }
        for number, step in enumerate(steps, 1)
    ]


def normalise(steps: Any) -> tuple[Step, ...]:
    """The steps as fields. Raises BadValue for what `check_steps` refuses in a field."""
    known: dict[str, Field] = {}
    return tuple(_linked(_step(step, number), known) for number, step in enumerate(steps, 1))


def is_shown(one: Field, values: Mapping[str, Any]) -> bool:
    """Whether the field is asked, given the values so far (`showWhen`).

    What depends on a field that is not asked is not asked either.
    """
    if not one.depends_on:
        return True
    if one.decider is not None and not is_shown(one.decider, values):
        return False
    value = values.get(one.depends_on)
    if "equals" in one.condition:
        return _same(value, one.condition["equals"])
    if "in" in one.condition:
        return any(_same(value, wanted) for wanted in one.condition["in"])
    return bool(value) is bool(one.condition.get("truthy", True))


def check_answers(steps: Any, values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """`(clean, errors)`: the answers of every shown field, and what is wrong, by field name.

    A default counts as an answer, and so does an unticked box. Hidden fields are neither
    asked nor kept. Texts that say a number or a truth value are taken as such. Unknown
    names are errors: an answer never loses anything silently.
    """
    fields = [one for step in normalise(steps) for one in step.fields]
    known = {one.name for one in fields}
    errors = {name: "this form has no such field" for name in values if name not in known}
    merged = {one.name: one.default for one in fields if one.has_default}
    merged.update({name: value for name, value in values.items() if name in known})
    clean: dict[str, Any] = {}
    for one in fields:
        if not is_shown(one, {**merged, **clean}):
            continue
        value = merged.get(one.name)
        if _is_blank(value):
            _judge_blank(one, clean, errors)
            continue
        try:
            clean[one.name] = _check_value(one, value)
        except BadValue as error:
            errors[one.name] = str(error)
    return clean, errors


def _judge_blank(one: Field, clean: dict[str, Any], errors: dict[str, str]) -> None:
    if one.kind == "boolean":
        clean[one.name] = False
    elif one.required:
        errors[one.name] = "choose at least one" if one.kind == "array" else "this is required"
    elif one.kind == "array":
        clean[one.name] = []


def _is_blank(value: Any) -> bool:
    return value is None or value == [] or (isinstance(value, str) and not value.strip())


def _same(value: Any, wanted: Any) -> bool:
    if isinstance(value, list):
        return wanted in value
    return value == wanted and isinstance(value, bool) == isinstance(wanted, bool)


def _step(step: Any, number: int) -> Step:
    if not isinstance(step, dict) or not isinstance(step.get("schema"), dict):
        raise BadValue(f'step {number} must be an object with a "schema"')
    properties = step["schema"].get("properties")
    if not isinstance(properties, dict) or not properties:
        raise BadValue(f"the schema of step {number} has no properties")
    if len(properties) > MAX_FIELDS:
        raise BadValue(f"step {number} has {len(properties)} fields; at most {MAX_FIELDS} fit")
    required = step["schema"].get("required")
    wanted = set(map(str, required)) if isinstance(required, list) else set()
    fields = tuple(
        _field(name, properties[name], name in wanted) for name in _ordered(properties, step)
    )
    return Step(
        str(step.get("title") or f"Step {number}"), str(step.get("description") or ""), fields
    )


def _ordered(properties: Mapping[str, Any], step: Mapping[str, Any]) -> list[str]:
    """The names of the fields in the order in which the agent wrote them."""
    order = step.get("order")
    named = [name for name in order if isinstance(name, str)] if isinstance(order, list) else []
    return list(dict.fromkeys([*(name for name in named if name in properties), *properties]))


def _field(name: Any, raw: Any, required: bool) -> Field:
    if not isinstance(name, str) or not _NAME.match(name):
        raise BadValue(f"{one_line(str(name), 40)!r} is no field name (letters, digits, _ . -)")
    if not isinstance(raw, dict):
        raise BadValue(f"the schema of field {name!r} must be an object")
    if "$ref" in raw:
        raise BadValue(f"field {name!r} uses $ref; write its schema out")
    kind = _kind(name, raw)
    choices = raw.get("items") if kind == "array" else raw
    options = _options(name, choices if isinstance(choices, dict) else {})
    if kind == "array" and not options:
        raise BadValue(f"the array {name!r} needs items with oneOf or enum: it is a choice")
    show_when = raw.get("showWhen")
    condition: dict[str, Any] = show_when if isinstance(show_when, dict) else {}
    found = Field(
        name=name,
        kind=kind,
        label=str(raw.get("title") or name.replace("_", " ").capitalize()),
        description=str(raw.get("description") or ""),
        format=str(raw["format"]) if raw.get("format") in FORMATS else "",
        required=required,
        options=options,
        as_cards=bool(options) and _wants_cards(kind, raw, options),
        has_default=raw.get("default") is not None,
        default=raw.get("default"),
        limits=_limits(name, kind, raw),
        depends_on=str(condition.get("field") or ""),
        condition=condition,
    )
    return _with_checked_default(found)


def _kind(name: str, raw: Mapping[str, Any]) -> str:
    kind = raw.get("type", "string")
    if isinstance(kind, list):
        kind = next((one for one in kind if one != "null"), "string")
    if kind == "object":
        raise BadValue(f"field {name!r} is a nested object; ask for its parts as fields")
    if kind == "array":
        return "array"
    if kind not in SIMPLE:
        log.info("form field of an unknown type is asked as text type=%s", one_line(str(kind), 40))
        return "string"
    return str(kind)


def _options(name: str, raw: Mapping[str, Any]) -> tuple[Option, ...]:
    one_of, enum = raw.get("oneOf"), raw.get("enum")
    if isinstance(one_of, list) and one_of:
        if not all(isinstance(one, dict) and "const" in one for one in one_of):
            raise BadValue(f"each option of {name!r} needs a const")
        found = [
            Option(
                one["const"],
                str(one.get("title") or one["const"]),
                str(one.get("description") or ""),
            )
            for one in one_of
        ]
    elif isinstance(enum, list) and enum:
        found = [Option(value, str(value)) for value in enum]
    else:
        return ()
    if len(found) > MAX_OPTIONS:
        raise BadValue(f"field {name!r} has {len(found)} options; at most {MAX_OPTIONS} fit")
    if any(isinstance(one.value, dict | list) or one.value is None for one in found):
        raise BadValue(f"the options of {name!r} must be texts, numbers or truth values")
    if len({json.dumps(one.value) for one in found}) < len(found):
        raise BadValue(f"two options of {name!r} are the same")
    return tuple(found)


def _wants_cards(kind: str, raw: Mapping[str, Any], options: tuple[Option, ...]) -> bool:
    if kind == "array" or raw.get("oneOf"):
        return True
    return raw.get("x-display") == "cards" and len(options) <= 4


def _limits(name: str, kind: str, raw: Mapping[str, Any]) -> dict[str, Any]:
    limits: dict[str, Any] = {}
    for key in LIMITS[kind]:
        value = raw.get(key)
        if key == "pattern":
            if isinstance(value, str):
                limits[key] = _checked_pattern(name, value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            if not math.isfinite(value) or (key == "multipleOf" and value <= 0):
                raise BadValue(f"{key} of field {name!r} cannot be {value}")
            limits[key] = value
    return limits


def _checked_pattern(name: str, pattern: str) -> str:
    try:
        patterns.longest_text(pattern)
    except BadValue as error:
        raise BadValue(f"the pattern of {name!r} cannot be used: {error}") from None
    return pattern


def _with_checked_default(one: Field) -> Field:
    if not one.has_default:
        return one
    try:
        return replace(one, default=_check_value(one, one.default))
    except BadValue as error:
        raise BadValue(f"the default of field {one.name!r} does not fit: {error}") from None


def _linked(step: Step, known: dict[str, Field]) -> Step:
    """The step with the decider of each field; `known` holds the fields before and grows.

    A decider stands before what it decides, so that it has been answered, and no circle
    can arise.
    """
    fields: list[Field] = []
    for one in step.fields:
        if one.name in known:
            raise BadValue(f"two fields are named {one.name!r}; every name is used once")
        if one.depends_on and one.depends_on not in known:
            raise BadValue(
                f"showWhen of {one.name!r} names {one.depends_on!r}, which is no field before it"
            )
        if "in" in one.condition and not isinstance(one.condition["in"], list):
            raise BadValue(f'"in" of showWhen at {one.name!r} must be a list')
        known[one.name] = replace(one, decider=known.get(one.depends_on))
        fields.append(known[one.name])
    return replace(step, fields=tuple(fields))


def _check_value(one: Field, value: Any) -> Any:
    """The value in its type. Raises BadValue with a sentence for the person who typed it."""
    if one.kind == "array":
        return _check_list(one, value)
    if one.options:
        return _check_option(one, value)
    if one.kind == "boolean":
        return _check_boolean(value)
    if one.kind in ("number", "integer"):
        return _check_number(one, value)
    return _check_text(one, value)


def _check_list(one: Field, value: Any) -> list[Any]:
    if not isinstance(value, list):
        value = [value]
    if len(value) > MAX_OPTIONS:
        raise BadValue("these are more choices than there are")
    chosen: list[Any] = []
    for part in value:
        option = _check_option(one, part)
        if option not in chosen:
            chosen.append(option)
    low, high = one.limits.get("minItems", 0), one.limits.get("maxItems")
    if len(chosen) < low:
        raise BadValue(f"choose at least {low}")
    if high is not None and len(chosen) > high:
        raise BadValue(f"choose at most {high}")
    return chosen


def _check_option(one: Field, value: Any) -> Any:
    for option in one.options:
        if _same(value, option.value) or (isinstance(value, str) and value == str(option.value)):
            return option.value
    raise BadValue("choose one of the options")


def _check_boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in ("true", "yes", "on", "1"):
        return True
    if isinstance(value, str) and value.strip().lower() in ("false", "no", "off", "0"):
        return False
    raise BadValue("this is yes or no")


def _check_number(one: Field, value: Any) -> int | float:
    number = _number(value)
    if number is None:
        raise BadValue("this must be a number")
    if one.kind == "integer":
        if number != int(number):
            raise BadValue("this must be a whole number")
        number = int(number)
    low, high = one.limits.get("minimum"), one.limits.get("maximum")
    if low is not None and number < low:
        raise BadValue(f"at least {low}")
    if high is not None and number > high:
        raise BadValue(f"at most {high}")
    step = one.limits.get("multipleOf")
    # Fractions are exact; 0.3 is three times 0.1, which neither floats nor decimals always see.
    if step is not None and Fraction(str(number)) % Fraction(str(step)):
        raise BadValue(f"a multiple of {step}")
    return number


def _number(value: Any) -> int | float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        exact = Decimal(str(value).strip())
    except InvalidOperation:
        return None
    if not exact.is_finite() or exact.adjusted() > 300:
        return None
    return (
        int(exact)
        if exact == exact.to_integral_value() and not isinstance(value, float)
        else float(exact)
    )


def _check_text(one: Field, value: Any) -> str:
    if not isinstance(value, str):
        raise BadValue("this must be a text")
    low = one.limits.get("minLength", 0)
    high = min(one.limits.get("maxLength", MAX_TEXT_CHARS), MAX_TEXT_CHARS)
    if "\x00" in value:
        raise BadValue("NUL characters cannot be stored")
    if len(value) < low:
        raise BadValue(f"at least {low} characters")
    if len(value) > high:
        raise BadValue(f"at most {high:,} characters")
    _check_format(one.format, value.strip())
    pattern = one.limits.get("pattern")
    if pattern and not patterns.is_found(pattern, value):
        raise BadValue(one.description or "this does not have the form that is asked for")
    return value


def _check_format(name: str, value: str) -> None:
    if name == "email" and not _EMAIL.match(value):
        raise BadValue("this must be an e-mail address")
    if name == "uri" and not _is_uri(value):
        raise BadValue("this must be a full address, such as https://example.com")
    readers: dict[str, Any] = {"date": date, "time": time, "date-time": datetime}
    if name in readers:
        try:
            readers[name].fromisoformat(value.replace("Z", "+00:00"))
        except ValueError:
            example = {"date": "2026-03-18", "time": "14:30", "date-time": "2026-03-18T14:30"}
            raise BadValue(f"this must look like {example[name]}") from None


def _is_uri(value: str) -> bool:
    try:
        parts = urlsplit(value)
    except ValueError:
        return False
    return bool(parts.scheme and (parts.netloc or parts.path)) and " " not in value
