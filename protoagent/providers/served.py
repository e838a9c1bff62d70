"""What models behind an HTTP server have in common, whatever format they speak."""

from __future__ import annotations

import logging
from typing import Any, Protocol

from protoagent.core.errors import ModelFailed
from protoagent.providers.assembly import Assembly, used_ids
from protoagent.providers.base import ModelReply, ModelRequest, ModelSink
from protoagent.providers.faults import Faults
from protoagent.providers.wire import Receiver, Rejected, Wire

log = logging.getLogger(__name__)

# Both live as long as the process: what was refused once would be refused again.
_adaptations: dict[tuple[str, str], list[str]] = {}
_default_names: dict[str, str] = {}


class Answer(Receiver, Protocol):
    """A receiver that knows its assembly."""

    assembly: Assembly


class ServedModel:
    """A model that is asked by one POST and listed by `GET <base>/models`."""

    path = ""

    def __init__(
        self,
        *,
        base: str,
        provider: str,
        name: str = "",
        key: str = "",
        key_hint: str = "model.api_key",
        timeout_s: float = 120.0,
    ) -> None:
        self.base = base.rstrip("/")
        self.provider = provider
        self.faults = Faults(self.base, name, key, key_hint)
        self._name = name
        self._is_key_usable = key.isascii() and key.isprintable() and " " not in key
        headers = {
            "Content-Type": "application/json",
            "Accept": "text/event-stream, application/json",
            "Accept-Encoding": "identity",
            **self.authorisation(key),
        }
        self._wire = Wire(self.base, self.faults, headers, timeout_s)

    @property
    def name(self) -> str:
        """The configured name, or the one chosen from the server's list; blank before that."""
        return self._name or _default_names.get(self.base, "")

    @property
    def label(self) -> str:
        """Name and address, for people."""
        return f"{self.name or 'default model'} at {self.faults.where}"

    async def complete(self, request: ModelRequest, sink: ModelSink) -> ModelReply:
        """Ask once, stream into `sink`, and return the whole answer.

        A request that is refused because of one optional parameter is sent again without it.

        Raises ModelFailed; `retryable` only while nothing of the answer reached `sink`.
        """
        name = await self._known_name()
        body = self._adapted(self.body(request, name), name)
        notes: list[str] = []
        while True:
            answer = self.answer(Assembly(sink))
            try:
                await self._wire.post(self.path, body, answer)
                reply = answer.assembly.reply(name, used_ids(request.messages))
            except Rejected as rejected:
                note = self.adapt(rejected.said, body)
                if not note or note in notes:
                    raise rejected.error from None
                notes.append(note)
                self.apply(note, body)
                continue
            except ModelFailed as error:
                if not error.retryable:
                    _default_names.pop(self.base, None)  # the listed model may be gone
                raise
            self._remember(notes, name)
            return reply

    async def list_models(self, timeout_s: float | None = None) -> list[str]:
        """Names of the models that the server offers, in its order.

        Raises ModelFailed.
        """
        self._check_key()
        body = await self._wire.get_json("/models", timeout_s)
        rows = body.get("data", body.get("models")) if isinstance(body, dict) else body
        if not isinstance(rows, list):
            raise ModelFailed(f"{self.faults.where}/models does not list models")
        return [str(row["id"]) for row in rows if isinstance(row, dict) and row.get("id")]

    def authorisation(self, key: str) -> dict[str, str]:
        """The headers that carry the key."""
        raise NotImplementedError

    def body(self, request: ModelRequest, name: str) -> dict[str, Any]:
        """The request in the server's format."""
        raise NotImplementedError

    def answer(self, assembly: Assembly) -> Answer:
        """What takes the server's events apart."""
        raise NotImplementedError

    def choose(self, names: list[str]) -> str:
        """The model to use when none is configured; blank when none is fit."""
        raise NotImplementedError

    def adapt(self, said: str, body: dict[str, Any]) -> str:
        """A note of what to change in `body` after the server's refusal; blank: nothing."""
        raise NotImplementedError

    def apply(self, note: str, body: dict[str, Any]) -> None:
        """Change `body` as the note says, if it concerns it."""
        raise NotImplementedError

    async def _known_name(self) -> str:
        self._check_key()
        if self.name:
            return self.name
        chosen = self.choose(await self.list_models())
        if not chosen:
            raise ModelFailed(f"{self.faults.where} lists no model; set model.name")
        _default_names[self.base] = chosen
        return chosen

    def _check_key(self) -> None:
        if not self._is_key_usable:
            hint = self.faults.key_hint
            raise ModelFailed(f"{hint} has characters that no key has; enter it again")

    def _adapted(self, body: dict[str, Any], name: str) -> dict[str, Any]:
        for owner in ("", name):
            for note in _adaptations.get((self.base, owner), ()):
                self.apply(note, body)
        return body

    def _remember(self, notes: list[str], name: str) -> None:
        for note in notes:
            # Whether a stream can report its usage is a matter of the server, not of the model.
            owner = "" if note == "stream_options" else name
            known = _adaptations.setdefault((self.base, owner), [])
            if note not in known:
                known.append(note)
                log.info("model server refuses %s base=%s", note, self.faults.where)
