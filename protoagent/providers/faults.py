"""What a model server's refusal means, in one sentence without secrets."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from protoagent.core.errors import ModelFailed
from protoagent.core.text import one_line
from protoagent.security.redaction import MASK, mask_text

MAX_MESSAGE_CHARS = 300

_OVERFLOW = re.compile(
    r"context[ _-]?(length|window|size|limit)|maximum context|exceeds? (the )?(model'?s )?context"
    r"|prompt is too long|input is too long|too many (input )?tokens|n_ctx"
    r"|reduce the length|input (token|length).{0,40}exceed|string_above_max_length",
    re.IGNORECASE,
)
_FINAL_CODES = {
    "invalid_request_error",
    "insufficient_quota",
    "authentication_error",
    "permission_error",
    "not_found_error",
    "billing_error",
}
_REFUSED = {400, 413, 415, 422}
_RETRYABLE = {408, 409, 425, 429, 499}


@dataclass(frozen=True)
class Faults:
    """Makes the errors of one model at one address.

    `key_hint` says where a key belongs, `key` is cut out of whatever the server says.
    """

    base: str
    model: str
    key: str = field(default="", repr=False)
    key_hint: str = "model.api_key"

    @property
    def where(self) -> str:
        """The address without user name, password and query."""
        parts = urlsplit(self.base)
        host = parts.netloc.rpartition("@")[2]
        return f"{parts.scheme}://{host}{parts.path}"

    def of_status(
        self, status: int, body: bytes, headers: Mapping[str, str] | None = None
    ) -> ModelFailed:
        """The error for an HTTP status other than 200."""
        said, code = self._said(body)
        if is_overflow(status, f"{code} {said}"):
            sentence = self._sentence("the conversation is too long", said)
            return ModelFailed(sentence, overflow=True, refused=status in _REFUSED)
        if 300 <= status < 400:
            return ModelFailed(f"{self.where} answers with a redirect ({status}); enter its target")
        if status in (401, 403):
            return self._refused(status, said)
        if status == 404:
            return self._not_found(said)
        if status == 429:
            return self._limited(said, code, (headers or {}).get("retry-after", ""))
        what = f"{self.where} answers {self.model or 'the request'} with HTTP {status}"
        retryable = status >= 500 or status in _RETRYABLE
        refused = status in _REFUSED
        return ModelFailed(self._sentence(what, said), retryable=retryable, refused=refused)

    def of_object(self, error: Any, *, has_content: bool) -> ModelFailed:
        """The error for an error object inside a stream or in a body with status 200."""
        said, code = self._said(json.dumps({"error": error}, default=str).encode())
        if is_overflow(0, f"{code} {said}"):
            return ModelFailed(self._sentence("the conversation is too long", said), overflow=True)
        status = int(code) if code.isdecimal() else 0
        is_final = 400 <= status < 500 and status not in _RETRYABLE
        is_final = is_final or code in _FINAL_CODES
        retryable = not is_final and not has_content
        refused = status in _REFUSED or code == "invalid_request_error"
        sentence = self._sentence("the model failed", said)
        return ModelFailed(sentence, retryable=retryable, refused=refused)

    def of_network(self, reason: str, *, has_content: bool) -> ModelFailed:
        """The error for a connection that failed, broke off or fell silent."""
        sentence = f"{self.where} {self.scrub(reason)}"
        if has_content:
            sentence += "; the answer is incomplete, ask again"
        return ModelFailed(sentence, retryable=not has_content)

    def scrub(self, text: str) -> str:
        """`text` on one line, cut, without the key and without anything shaped like one."""
        if self.key:
            text = text.replace(self.key, MASK)
        return one_line(mask_text(text), MAX_MESSAGE_CHARS)

    def _refused(self, status: int, said: str) -> ModelFailed:
        if status == 401 or not said:
            verb = "was refused" if self.key else "is missing"
            return ModelFailed(f"the key for {self.where} {verb} ({status}); set {self.key_hint}")
        return ModelFailed(self._sentence(f"{self.where} refuses the request ({status})", said))

    def _not_found(self, said: str) -> ModelFailed:
        if not said:
            return ModelFailed(f"nothing answers at {self.where} (404); check model.api_base")
        what = f"{self.where} does not know the model {self.model!r} (404)"
        return ModelFailed(self._sentence(what, said))

    def _limited(self, said: str, code: str, wait: str) -> ModelFailed:
        if code == "insufficient_quota":
            return ModelFailed(self._sentence(f"the quota at {self.where} is used up (429)", said))
        what = f"{self.where} is over its rate limit (429)"
        if wait:
            seconds = f"{wait} s" if wait.replace(".", "", 1).isdigit() else self.scrub(wait)
            what += f" and asks to wait {seconds}"
        return ModelFailed(self._sentence(what, said), retryable=True)

    def _sentence(self, what: str, said: str) -> str:
        return f"{what}: {said}" if said else what

    def _said(self, body: bytes) -> tuple[str, str]:
        """The server's own words and its code."""
        text = body.decode("utf-8", "replace").strip()
        try:
            value = json.loads(text)
        except ValueError:
            is_page = text.startswith("<")
            return ("" if is_page else self.scrub(text)), ""
        found = value.get("error", value) if isinstance(value, dict) else value
        if not isinstance(found, dict):
            return self.scrub(str(found or "")), ""
        code = str(found.get("code") or found.get("type") or "")
        said = found.get("message") or found.get("detail") or found.get("error") or ""
        if isinstance(said, dict):
            said = said.get("message") or json.dumps(said)
        return self.scrub(said if isinstance(said, str) else json.dumps(said)), code


def is_overflow(status: int, said: str) -> bool:
    """Whether the server says that the conversation does not fit into the model."""
    if status == 413:
        return True
    return status in (0, 400, 422, 500) and bool(_OVERFLOW.search(said))
