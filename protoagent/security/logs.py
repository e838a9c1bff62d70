"""What goes into the log: no secret, and no sign-in code that could still be used."""

from __future__ import annotations

import logging
import re

from protoagent.security.redaction import MASK, mask_text

_SIGN_IN = re.compile(r"(/login/)[^/\s?\"']+")


class MaskingFormatter(logging.Formatter):
    """Masks the finished line with its traceback, so nothing can come in beside the message."""

    def format(self, record: logging.LogRecord) -> str:
        return _SIGN_IN.sub(rf"\1{MASK}", mask_text(super().format(record)))
