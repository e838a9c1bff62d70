"""Where a form stands: its step, what has been entered, what is shown, what may be sent.

The server owns the steps. What was entered is the interruption's draft, so that a reload,
another tab and another device continue at the same place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import tzinfo
from typing import Any

from django.http import QueryDict

from protoagent.console import forms as controls
from protoagent.journal.models import Interruption
from protoagent.journal.services import pauses
from protoagent.security.redaction import mask_value
from tools_app import forms
from tools_app.forms import Step


@dataclass
class Wizard:
    """An open form with the values entered so far.

    `values` holds every default, overlaid by what was entered; None is a field that was
    emptied. `number` is the current step. `masked` are the fields of the last `take` in
    which something looked like a secret.
    """

    row: Interruption
    steps: tuple[Step, ...]
    values: dict[str, Any]
    number: int
    errors: dict[str, str] = field(default_factory=dict)
    masked: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, row: Interruption) -> Wizard:
        """The form as it was left."""
        steps = forms.normalise(row.payload["steps"])
        values = {**_defaults(steps), **_known(steps, row.draft)}
        wizard = cls(row, steps, values, min(row.step, len(steps) - 1))
        wizard.number = wizard.nearest(wizard.number)
        return wizard

    @property
    def step(self) -> Step:
        return self.steps[self.number]

    @property
    def shown_steps(self) -> list[int]:
        """The steps that ask anything now; never none."""
        asking = [
            number
            for number, step in enumerate(self.steps)
            if any(forms.is_shown(one, self.values) for one in step.fields)
        ]
        return asking or [0]

    @property
    def is_first(self) -> bool:
        return self.number == self.shown_steps[0]

    @property
    def is_last(self) -> bool:
        return self.number == self.shown_steps[-1]

    @property
    def watched(self) -> set[str]:
        """Fields of this step that decide whether another one of this step is shown."""
        return {name for one in self.step.fields if (name := one.depends_on)}

    @property
    def is_touched(self) -> bool:
        """Whether something was entered that is not there by default."""
        defaults = _defaults(self.steps)
        return any(value != defaults.get(name) for name, value in self.values.items())

    def nearest(self, number: int) -> int:
        """`number`, or the closest step before it that asks anything."""
        shown = self.shown_steps
        return max((one for one in shown if one <= number), default=shown[0])

    def take(self, number: int, posted: QueryDict, zone: tzinfo) -> None:
        """Overlay what a browser posted for step `number`, which becomes the current one."""
        self.number = number
        entered = controls.read(self.step, posted, self.values, zone)
        clean = mask_value(entered)
        self.masked = [name for name, value in clean.items() if value != entered[name]]
        self.values.update(clean)

    def opens_more(self, posted: QueryDict) -> bool:
        """Whether the posted answers let fields of this step show that were not asked yet.

        With script the step is drawn again at once; without, this is the moment.
        """
        asked = set(posted.get("shown", "").split(" "))
        return any(
            one.name not in asked for one in self.step.fields if forms.is_shown(one, self.values)
        )

    def check_step(self) -> bool:
        """Whether the current step may be left; else `errors` says why not."""
        names = {one.name for one in self.step.fields}
        _, errors = forms.check_answers(self.row.payload["steps"], self.submission())
        self.errors = {name: why for name, why in errors.items() if name in names}
        return not self.errors

    def check_all(self) -> bool:
        """Whether the form may be sent; else the first step that is wrong is the current one."""
        for number in self.shown_steps:
            self.number = number
            if not self.check_step():
                return False
        return True

    def forward(self) -> None:
        """Go to the next step that asks anything; at the last one nothing happens."""
        self.number = min(
            (one for one in self.shown_steps if one > self.number), default=self.number
        )

    def back(self) -> None:
        """Go to the step before; at the first one nothing happens."""
        self.number = max(
            (one for one in self.shown_steps if one < self.number), default=self.number
        )

    def submission(self) -> dict[str, Any]:
        """The values of all fields that are shown.

        An emptied field is left out, or None where its default would take its place.
        """
        return {
            one.name: self.values.get(one.name)
            for step in self.steps
            for one in step.fields
            if forms.is_shown(one, self.values)
            and (one.has_default or self.values.get(one.name) is not None)
        }

    def save(self, *, keep_step: bool = False) -> bool:
        """Store the place and the values; False when the form has been resolved meanwhile."""
        step = self.row.step if keep_step else self.number
        return pauses.save_draft(self.row.pk, step=step, draft=self.values)


def _defaults(steps: tuple[Step, ...]) -> dict[str, Any]:
    """Every default counts as an answer; a box that is not ticked is one as well."""
    return {
        one.name: one.default if one.has_default else False
        for step in steps
        for one in step.fields
        if one.has_default or one.kind == "boolean"
    }


def _known(steps: tuple[Step, ...], draft: Mapping[str, Any]) -> dict[str, Any]:
    names = {one.name for step in steps for one in step.fields}
    return {name: value for name, value in draft.items() if name in names}
