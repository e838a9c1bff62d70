"""How things look in the transcript: times, lengths, amounts, and the templates that show them."""

from __future__ import annotations

import zoneinfo
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from typing import Any

from django.template.loader import get_template
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from protoagent.config import services as config
from protoagent.core.context import Actor

ORIGINS = {
    "scheduler": ("schedule", "calendar-clock"),
    "watch": ("watch", "eye"),
    "inbox": ("inbox", "inbox"),
    "goal": ("goal", "target"),
    "background": ("background", "layers"),
    "a2a": ("another agent", "bot"),
    "api": ("api", "plug"),
}


@dataclass(frozen=True)
class Look:
    """For whom a session is shown. Two viewers with equal looks see the same HTML."""

    session_key: str
    agent_name: str
    can_write: bool = True
    zone_name: str = "UTC"
    actor: Actor | None = field(default=None, compare=False)

    @property
    def zone(self) -> tzinfo:
        return zone_of(self.zone_name)

    @property
    def you(self) -> str:
        """Who the operator is to the reader."""
        return "You" if self.can_write else "Operator"

    @property
    def by_you(self) -> str:
        return "by you" if self.can_write else "by the operator"


@lru_cache(maxsize=64)
def zone_of(name: str) -> tzinfo:
    """The time zone with this name; UTC when there is none."""
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return UTC


def agent_name() -> str:
    """What the agent is called on every page."""
    return str(config.get("identity.name")).strip() or "protoAgent"


def moment_of(iso: str) -> datetime:
    """The aware time that an event's `at` names."""
    return datetime.fromisoformat(iso.replace("Z", "+00:00"))


def time_tag(at: datetime, zone: tzinfo, css_class: str = "") -> SafeString:
    """`14:02` in the reader's zone; the full date and zone are in its title."""
    local = at.astimezone(zone)
    title = f"{local:%a} {local.day} {local:%b %Y, %H:%M:%S %Z}"
    css = format_html(' class="{}"', css_class) if css_class else ""
    stamp = at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return format_html(
        '<time datetime="{}" title="{}"{}>{}</time>', stamp, title, css, f"{local:%H:%M}"
    )


def day_tag(at: datetime, zone: tzinfo) -> tuple[str, SafeString]:
    """The id of the separator above the first message of this day, and the separator."""
    local = at.astimezone(zone)
    name = f"day-{local:%Y-%m-%d}"
    text = f"{local:%A} {local.day} {local:%B %Y}"
    html = format_html(
        '<div class="chat__day" id="{}"><time datetime="{}">{}</time></div>',
        name,
        f"{local:%Y-%m-%d}",
        text,
    )
    return name, html


def running_since(at: datetime, css_class: str = "") -> SafeString:
    """An elapsed time that the page keeps running; empty until its script has run."""
    css = format_html(' class="{}"', css_class) if css_class else ""
    stamp = at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return format_html('<time{} data-since="{}"></time>', css, stamp)


def duration(ms: float) -> str:
    """`8 ms`, `0.9 s`, `38 s`, `1:34` or `2 h 05`."""
    if ms < 50:
        return f"{round(ms)} ms"
    seconds = ms / 1000
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02d}"
    return f"{whole // 3600} h {whole % 3600 // 60:02d}"


def amount(count: int) -> str:
    """`840`, `12.4k` or `1.2M`."""
    if count < 1000:
        return str(count)
    if count < 999_950:
        return f"{count / 1000:.1f}k".replace(".0k", "k")
    return f"{count / 1_000_000:.1f}M"


def money(usd: float) -> str:
    """`$0.0021`, `$0.021` or `$1.20`; blank for nothing."""
    if usd <= 0:
        return ""
    if usd < 0.00005:
        return "<$0.0001"
    digits = 4 if usd < 0.01 else 3 if usd < 1 else 2
    return f"${usd:.{digits}f}"


def count_of(number: int, noun: str) -> str:
    """`1 tool`, `6 tools`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def fragment(name: str, context: Mapping[str, Any]) -> SafeString:
    """One template of the transcript, without the white space around it."""
    return mark_safe(get_template(f"console/{name}").render(dict(context)).strip())  # noqa: S308 — a rendered template
