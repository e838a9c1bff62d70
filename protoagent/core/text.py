"""Small text functions that several rooms need."""

from __future__ import annotations

import math
import unicodedata
from typing import Any

KIB = 1024
_SPECIAL = {0x200B, 0x200C, 0x200D, 0x2060, 0xFEFF, 0x00AD, 0x180E, 0x115F, 0x1160, 0x3164}


def truncate(text: str, max_chars: int, ending: str = "…") -> str:
    """`text`, cut so that it and `ending` fit into `max_chars`."""
    if len(text) <= max_chars:
        return text
    return text[: max(0, max_chars - len(ending))].rstrip() + ending


def one_line(text: str, max_chars: int = 120) -> str:
    """`text` with white space collapsed, cut to `max_chars`."""
    return truncate(" ".join(text.split()), max_chars)


def size_text(size: int) -> str:
    """`840 bytes`, `4 KB` or `1.2 MB`."""
    if size < KIB:
        return "1 byte" if size == 1 else f"{size} bytes"
    if round(size / KIB) < KIB:
        return f"{round(size / KIB)} KB"
    return f"{size / KIB**2:.1f}".removesuffix(".0") + " MB"


def storable(text: str) -> str:
    """`text` with halves of surrogate pairs joined where they fit, and � for the rest and for NUL.

    PostgreSQL refuses both characters, and the drivers cannot encode halves.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text.replace("\x00", "\ufffd") if "\x00" in text else text


def storable_value(value: Any) -> Any:
    """A copy of a JSON value whose texts are all storable."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, list):
        return [storable_value(part) for part in value]
    if isinstance(value, dict):
        return {storable(str(key)): storable_value(part) for key, part in value.items()}
    return value


def refuse_constant(name: str) -> float:
    """For `json.loads(parse_constant=…)`: NaN and the infinities are no JSON."""
    raise ValueError(f"{name} is not a number in JSON")


def whole_float(digits: str) -> float:
    """For `json.loads(parse_float=…)`: a number too large for a float would become infinity."""
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"{truncate(digits, 20)} is too large a number")
    return number


def is_hidden_character(char: str) -> bool:
    """Whether `char` draws nothing or reorders its neighbours (zero width, bidi, tags)."""
    code = ord(char)
    if code in _SPECIAL or 0xE0000 <= code <= 0xE007F:
        return True
    if char in "\n\t":
        return False
    return unicodedata.category(char) in ("Cf", "Cc")


def reveal_hidden(text: str) -> str:
    """`text` with hidden characters written as ⟦U+XXXX⟧, so that what is shown is all there is."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(f"⟦U+{ord(c):04X}⟧" if is_hidden_character(c) else c for c in text)
