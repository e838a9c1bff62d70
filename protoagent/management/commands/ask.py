"""`ask`: one turn from the shell, streamed to the terminal."""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from protoagent.core.errors import AgentError
from protoagent.journal.models import ChatSession
from protoagent.journal.services import agents, sessions
from protoagent.management.conversation import Conversation, Terminal
from protoagent.management.keyboard import Keyboard
from protoagent.server import startup


class Command(BaseCommand):
    help = (
        "Say something to the agent and see its answer. Exit code 0 done, 1 failed,"
        " 3 waits for an answer, 130 stopped."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("text", help="what to say; - reads it from the standard input")
        parser.add_argument("--session", default="", help="go on in this session")
        parser.add_argument("--json", action="store_true", help="events as JSON lines")

    def handle(self, *args: Any, **options: Any) -> None:
        # What a person reads here is the conversation; the server keeps the log.
        logging.getLogger("protoagent").setLevel(logging.ERROR)
        is_piped = options["text"] == "-"
        text = sys.stdin.read() if is_piped else options["text"]
        try:
            startup.prepare()
            session = _session(options["session"])
            terminal = Terminal(as_json=options["json"])
            can_ask = sys.stdin.isatty() and not is_piped and not options["json"]
            keyboard = Keyboard(terminal.say) if can_ask else None
            code = asyncio.run(Conversation(session, terminal, keyboard).run(text))
        except AgentError as error:
            raise CommandError(str(error)) from None
        if code:
            sys.exit(code)


def _session(key: str) -> ChatSession:
    session = sessions.ensure(agents.current(), key or sessions.new_key())
    session.refresh_from_db()
    return session
