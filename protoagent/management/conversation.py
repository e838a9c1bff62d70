"""One turn from the shell, run in this process and written to the terminal while it goes on."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from typing import Any

from channels.db import database_sync_to_async as in_db

from protoagent.core.errors import AgentError, BadValue, Conflict, InvalidForm
from protoagent.core.ids import new_id
from protoagent.core.text import one_line, reveal_hidden
from protoagent.journal import live
from protoagent.journal.models import ChatSession
from protoagent.journal.services import pauses
from protoagent.journal.services.turns import Message
from protoagent.management.keyboard import Closed, Keyboard
from protoagent.runtime import runner, service

Frame = dict[str, Any]

DONE, FAILED, PENDING, STOPPED = 0, 1, 3, 130
CODES = {"completed": DONE, "stopped": STOPPED}
BY = "shell"


class Terminal:
    """Writes the answer to stdout and everything about it to stderr; or all of it as JSON lines."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self._is_in_line = False

    def show(self, frame: Frame) -> None:
        """One event of the turn."""
        if self.as_json:
            sys.stdout.write(json.dumps(frame, ensure_ascii=False) + "\n")
            sys.stdout.flush()
            return
        shower = getattr(self, "_" + frame["type"].replace(".", "_"), None)
        if shower is not None:
            shower(frame["data"])

    def say(self, line: str) -> None:
        """One line about the turn."""
        self._end_line()
        sys.stderr.write(line + "\n")
        sys.stderr.flush()

    def _end_line(self) -> None:
        if self._is_in_line:
            sys.stdout.write("\n")
            sys.stdout.flush()
            self._is_in_line = False

    def _text_delta(self, data: Frame) -> None:
        # A model's text must not be able to move the cursor or recolour the screen.
        text = reveal_hidden(data["text"])
        sys.stdout.write(text)
        sys.stdout.flush()
        self._is_in_line = bool(text) and not text.endswith("\n")

    def _turn_started(self, data: Frame) -> None:
        if data.get("rewind_to") is not None:
            self.say("· the answer begins again")

    def _tool_started(self, data: Frame) -> None:
        arguments = json.dumps(data["args"], ensure_ascii=False)
        self.say(f"· {data['name']} {reveal_hidden(one_line(arguments, 200))}")

    def _tool_finished(self, data: Frame) -> None:
        mark = "→" if data["status"] == "ok" else f"→ {data['status']}:"
        self.say(f"  {mark} {reveal_hidden(one_line(data['output'], 200))}")

    def _component(self, data: Frame) -> None:
        props = json.dumps(data["props"], ensure_ascii=False)
        self.say(f"· {data['component']} {reveal_hidden(one_line(props, 400))}")

    def _note(self, data: Frame) -> None:
        self.say(f"· {reveal_hidden(data['text'])}")

    def _turn_finished(self, data: Frame) -> None:
        self._end_line()
        if data.get("error"):
            self.say(f"error: {reveal_hidden(data['error'])}")


class Conversation:
    """A message, its turn, and the questions that come up, until the turn ends or waits."""

    def __init__(self, session: ChatSession, terminal: Terminal, keyboard: Keyboard | None) -> None:
        self._session = session
        self._terminal = terminal
        self._keyboard = keyboard
        self._turn_id = ""
        self._asking: asyncio.Task[bool] | None = None
        self._stop: asyncio.Task[Any] | None = None

    async def run(self, text: str) -> int:
        """Send `text` and follow its turn; 0 done, 1 failed, 3 waits for an answer, 130 stopped."""
        mine = runner.attach()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._interrupt)
        subscription = live.hub.subscribe(self._session.pk, self._session.last_seq)
        try:
            accepted = await in_db(service.send)(self._session, Message(text, new_id("m")))
            self._turn_id = accepted.turn_id
            if accepted.mode == "held":
                self._terminal.say("· the message is kept until what is asked here is answered")
                if not await self._answer_all():
                    return PENDING
            return await self._follow(subscription)
        finally:
            subscription.close()
            await mine.shutdown()
            runner.detach()

    async def _follow(self, subscription: live.Subscription) -> int:
        async for frames in subscription:
            for frame in frames:
                if frame["turn"] != self._turn_id:
                    continue
                self._terminal.show(frame)
                if frame["type"] != "turn.finished":
                    continue
                if frame["data"]["status"] != "waiting":
                    return CODES.get(frame["data"]["status"], FAILED)
                if not await self._answer_all():
                    return PENDING
        return FAILED

    async def _answer_all(self) -> bool:
        """Every open card of the session is answered; False when one is left open."""
        for row in await in_db(pauses.open_in_session)(self._session.pk):
            card = pauses.required_event(row).data
            self._asking = asyncio.create_task(self._answer(card))
            try:
                if not await self._asking:
                    return False
            except asyncio.CancelledError:
                if self._stop is None:
                    raise
                return True  # stopped meanwhile; the end of the turn comes as an event
            finally:
                self._asking = None
        return True

    async def _answer(self, card: Frame) -> bool:
        if self._keyboard is None:
            self._leave_open(card)
            return False
        errors: dict[str, str] = {}
        while True:
            try:
                value = await self._keyboard.answer(card, errors)
                await in_db(service.answer)(self._session, card["interrupt_id"], value, by=BY)
            except InvalidForm as error:
                errors = error.errors
                continue
            except BadValue as error:
                self._terminal.say(f"  ✗ {error}")
                continue
            except Conflict:
                self._terminal.say("· answered elsewhere")
            except Closed:
                self._leave_open(card)
                return False
            return True

    def _leave_open(self, card: Frame) -> None:
        if self._terminal.as_json:
            return
        asked = card.get("question") or card.get("title") or "Input required."
        self._terminal.say(f"? {reveal_hidden(asked)}")
        self._terminal.say(f"· waits for an answer in session {self._session.key}")

    def _interrupt(self) -> None:
        """Ctrl-C: the turn is stopped, and what it still does is shown."""
        if self._stop is not None:
            return
        self._stop = asyncio.create_task(self._stop_turn())
        if self._asking is not None:
            self._asking.cancel()

    async def _stop_turn(self) -> None:
        try:
            await in_db(service.stop)(self._session, by=BY)
        except AgentError as error:
            self._terminal.say(f"error: {error}")
