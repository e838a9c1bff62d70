"""Fields of an agent's form as HTML controls, and what a browser posts as values again.

What a field may hold is judged in `tools_app.forms` alone; here it is only drawn and read.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any

from django.http import QueryDict

from protoagent.core.text import reveal_hidden
from protoagent.security.redaction import MASK
from tools_app.forms import Field, Step, is_shown

PREFIX = "f."
HIDDEN_VALUE = "••••••"
LINE_TYPES = {
    "email": "email",
    "uri": "url",
    "date": "date",
    "time": "time",
    "date-time": "datetime-local",
    "password": "password",
}
MASKED_NOTE = "Text that looks like a key is masked before it is stored or shown to the agent."
Values = dict[str, Any]


@dataclass(frozen=True)
class Choice:
    """One option of a choice. `key` is what the browser posts for it."""

    key: str
    label: str
    description: str
    is_chosen: bool


@dataclass(frozen=True)
class Control:
    """A field as the template draws it.

    `kind` is line, textarea, select, radios, checks or checkbox. `attributes` are those of
    the input. `is_watched`: other fields depend on it, so a change redraws the step.
    `mask_note` is shown when `is_masked`, and by script when that becomes so.
    """

    name: str
    html_id: str
    kind: str
    label: str
    help: str
    error: str
    is_required: bool
    is_watched: bool
    value: str = ""
    is_checked: bool = False
    choices: tuple[Choice, ...] = ()
    attributes: tuple[tuple[str, str], ...] = ()
    mask_note: str = ""
    is_masked: bool = False

    @property
    def post_name(self) -> str:
        return PREFIX + self.name

    @property
    def is_group(self) -> bool:
        """Drawn as a field set: several inputs under one legend."""
        return self.kind in ("radios", "checks")

    @property
    def described_by(self) -> str:
        """The ids of what explains the control."""
        parts = (
            (self.error, "error"),
            (self.help, "help"),
            (self.mask_note and self.is_masked, "mask"),
        )
        return " ".join(f"{self.html_id}-{part}" for shown, part in parts if shown)


def controls(
    step: Step,
    values: Mapping[str, Any],
    *,
    card: str,
    zone: tzinfo,
    errors: Mapping[str, str],
    watched: Collection[str] = (),
) -> tuple[Control, ...]:
    """The controls of those fields of the step that `values` let show, in order."""
    return tuple(
        _control(
            one,
            values.get(one.name),
            html_id=f"{card}-{number}",
            zone=zone,
            error=_sentence(errors.get(one.name, "")),
            is_watched=one.name in watched,
        )
        for number, one in enumerate(step.fields)
        if is_shown(one, values)
    )


def read(step: Step, posted: QueryDict, before: Mapping[str, Any], zone: tzinfo) -> Values:
    """What the browser posted for the fields that it was shown, by name.

    None is an empty field. What cannot be converted stays the text that was typed, so
    that the check can name it and the person sees it again. A password that was left
    empty keeps the value entered before: it is never sent back to the browser.
    """
    shown = set(posted.get("shown", "").split(" "))
    unreadable = set(posted.getlist("_bad"))
    values: Values = {}
    for one in step.fields:
        if one.name not in shown:
            continue
        value = _read(one, posted.getlist(PREFIX + one.name), zone)
        if value is None and PREFIX + one.name in unreadable:
            value = "?"  # the browser has text in the field that is no number or date
        if value is None and one.format == "password":
            value = before.get(one.name)
        values[one.name] = value
    return values


def shown_value(one: Field, value: Any, zone: tzinfo) -> str:
    """A given answer as a person would say it."""
    if one.format == "password":
        return HIDDEN_VALUE
    if one.kind == "boolean":
        return "Yes" if value else "No"
    if one.options:
        labels = {_key(option.value): option.label for option in one.options}
        chosen = value if isinstance(value, list) else [value]
        return ", ".join(reveal_hidden(labels.get(_key(part), str(part))) for part in chosen)
    if one.format == "date-time" and (local := _local(value, zone)):
        return f"{local:%a} {local.day} {local:%b %Y, %H:%M} {local:%Z}"
    return reveal_hidden(str(value)) if isinstance(value, str) else json.dumps(value)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if not text or text.endswith((".", "!")) else ".")


def _control(one: Field, value: Any, **common: Any) -> Control:
    zone = common.pop("zone")
    base: dict[str, Any] = {
        "name": one.name,
        "label": reveal_hidden(one.label),
        "help": _help(one, zone),
        "is_required": one.required,
        **common,
    }
    if one.options:
        return Control(**base, kind=_choice_kind(one), choices=_choices(one, value))
    if one.kind == "boolean":
        return Control(**base, kind="checkbox", is_checked=value is True)
    text = _text(one, value, zone)
    base["attributes"] = _attributes(one, has_value=bool(value))
    if one.kind in ("integer", "number"):
        return Control(**base, kind="line", value=text)
    kind = "textarea" if one.format == "textarea" else "line"
    takes_text = one.format in ("", "textarea")
    note = MASKED_NOTE if takes_text else ""
    return Control(**base, kind=kind, value=text, mask_note=note, is_masked=MASK in text)


def _choice_kind(one: Field) -> str:
    if one.kind == "array":
        return "checks"
    return "radios" if one.as_cards else "select"


def _choices(one: Field, value: Any) -> tuple[Choice, ...]:
    chosen = {_key(part) for part in (value if isinstance(value, list) else [value])}
    if value is None:
        chosen = set()
    return tuple(
        Choice(
            key=_key(option.value),
            label=reveal_hidden(option.label),
            description=reveal_hidden(option.description),
            is_chosen=_key(option.value) in chosen,
        )
        for option in one.options
    )


def _key(value: Any) -> str:
    """What stands for an option's value in a form: a plain text for itself, else its JSON."""
    is_plain = isinstance(value, str) and value != "" and not value.startswith(('"', "{", "["))
    return value if is_plain else json.dumps(value, sort_keys=True)


def _text(one: Field, value: Any, zone: tzinfo) -> str:
    if value is None or one.format == "password":
        return ""
    if one.format == "date-time" and (local := _local(value, zone)):
        return local.strftime("%Y-%m-%dT%H:%M")
    return value if isinstance(value, str) else json.dumps(value)


def _local(value: Any, zone: tzinfo) -> datetime | None:
    try:
        moment = datetime.fromisoformat(str(value).replace("Z", "+00:00"))
    except ValueError:
        return None
    return moment.astimezone(zone) if moment.tzinfo else moment.replace(tzinfo=zone)


def _help(one: Field, zone: tzinfo) -> str:
    parts = [reveal_hidden(one.description)] if one.description else []
    if one.kind == "array":
        parts.append(_how_many(one))
    if one.format == "date-time":
        parts.append(f"In your time zone, {zone}.")
    if one.format == "password":
        parts.append(MASKED_NOTE)
    return " ".join(part for part in parts if part)


def _how_many(one: Field) -> str:
    low, high = one.limits.get("minItems", 0), one.limits.get("maxItems")
    if high is None or high >= len(one.options):
        return f"Choose at least {low}." if low > 1 else "Choose any number."
    if low == high:
        return f"Choose {low}."
    return f"Choose {low} to {high}." if low else f"Choose up to {high}."


def _attributes(one: Field, *, has_value: bool) -> tuple[tuple[str, str], ...]:
    """The attributes of a one-line or many-line input; hints only, the server judges."""
    limits = one.limits
    named = {"min": "minimum", "max": "maximum", "maxlength": "maxLength", "pattern": "pattern"}
    attributes = [(html, str(limits[key])) for html, key in named.items() if key in limits]
    # A browser wants the whole value to match, JSON Schema any part of it.
    attributes = [(k, f".*(?:{v}).*" if k == "pattern" else v) for k, v in attributes]
    if one.kind in ("integer", "number"):
        whole = one.kind == "integer"
        step = limits.get("multipleOf", 1 if whole else "any")
        mode = "numeric" if whole and limits.get("minimum", -1) >= 0 else "decimal"
        return (("type", "number"), ("step", str(step)), ("inputmode", mode), *attributes)
    if one.format == "textarea":
        return (("rows", "3"), *attributes)
    kind = LINE_TYPES.get(one.format, "text")
    attributes.insert(0, ("type", kind))
    if kind == "password":
        attributes.append(("autocomplete", "off"))
        if has_value:
            attributes.append(("placeholder", "Entered. Leave empty to keep it."))
    return tuple(attributes)


def _read(one: Field, posted: list[str], zone: tzinfo) -> Any:
    if one.kind == "boolean":
        return bool(posted)
    if one.options:
        known = {_key(option.value): option.value for option in one.options}
        chosen = [known.get(key, key) for key in posted if key]
        if one.kind == "array":
            return chosen or None
        return chosen[0] if chosen else None
    text = posted[0].replace("\r\n", "\n") if posted else ""
    if not text.strip():
        return None
    if one.kind in ("integer", "number"):
        return _number(text.strip())
    if one.format == "date-time":
        local = _local(text, zone)
        return local.isoformat() if local else text
    return text


def _number(text: str) -> Any:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        number = float(text)
    except ValueError:
        return text
    return number if number - number == 0 else text  # infinities and NaN are no numbers
