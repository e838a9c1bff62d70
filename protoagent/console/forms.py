"""Fields of an agent's form as HTML controls, and what a browser posts as values again.

What a field may hold is judged in `tools_app.forms` alone; here it is only shown and read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from typing import Any

from django.http import QueryDict

from protoagent.core.text import one_line
from tools_app import forms

PREFIX = "f."
LINES = {
    "email": "email",
    "uri": "url",
    "date": "date",
    "time": "time",
    "date-time": "datetime-local",
    "password": "password",
}
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

    `kind` is line, textarea, select, radios, checks or checkbox. `attributes` are those
    of the input, in order; a true one has the value None and stands without one.
    """

    name: str
    html_id: str
    kind: str
    label: str
    help: str
    value: str
    error: str
    is_required: bool
    is_watched: bool
    choices: tuple[Choice, ...] = ()
    attributes: tuple[tuple[str, str | None], ...] = ()
    notes: tuple[str, ...] = field(default_factory=tuple)

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
        parts = [f"{self.html_id}-error"] if self.error else []
        parts += [f"{self.html_id}-help"] if self.help else []
        return " ".join(parts + [f"{self.html_id}-note"] if self.notes else parts)


def controls(
    step: forms.Step,
    values: Mapping[str, Any],
    *,
    card: str,
    zone: tzinfo,
    errors: Mapping[str, str] | None = None,
    watched: Iterable[str] = (),
) -> tuple[Control, ...]:
    """The controls of the step's fields that `values` let show, in order.

    `card` is the card's element id. `watched` are fields on which others depend: changing
    one redraws the step.
    """
    return tuple(
        _control(
            spec,
            values.get(spec.name),
            f"{card}-{spec.name}",
            zone,
            (errors or {}).get(spec.name, ""),
            is_watched=spec.name in watched,
        )
        for spec in step.fields
        if forms.is_shown(spec, values)
    )
