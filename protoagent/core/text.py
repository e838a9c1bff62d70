"""Small text functions that several rooms need."""

from __future__ import annotations

import unicodedata

_SPECIAL = {0x200B, 0x200C, 0x200D, 0x2060, 0xFEFF, 0x00AD, 0x180E, 0x115F, 0x1160, 0x3164}


def truncate(text: str, max_chars: int, ending: str = "…") -> str:
    """`text`, cut so that it and `ending` fit into `max_chars`."""
    if len(text) <= max_chars:
        return text
    return text[: max(0, max_chars - len(ending))].rstrip() + ending


def one_line(text: str, max_chars: int = 120) -> str:
    """`text` with white space collapsed, cut to `max_chars`."""
    return truncate(" ".join(text.split()), max_chars)


def is_hidden_character(char: str) -> bool:
    """Whether `char` draws nothing or reorders its neighbours (zero width, bidi, tags)."""
    code = ord(char)
    if code in _SPECIAL or 0xE0000 <= code <= 0xE007F:
        return True
    if char in "\n\t":
        return False
    return unicodedata.category(char) in ("Cf", "Cc")


def reveal_hidden(text: str) -> str:
    """`text` with each hidden character written as ⟦U+XXXX⟧, so that what is shown is all there is."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(f"⟦U+{ord(c):04X}⟧" if is_hidden_character(c) else c for c in text)
