"""Everything that the server shows, page by page, row by row, file by file."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.security.leaks.story import Story

_LINK = re.compile(r'href="(/admin/[^"#?]+/change/|/admin/\w+/\w+/)"')


def database(story: Story) -> dict[str, bytes]:
    """Every row of every table as text, by table."""
    is_sqlite = "DATABASE_URL" not in story.server.environment
    names = (
        "SELECT name FROM sqlite_master WHERE type = 'table'"
        if is_sqlite
        else "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
    )
    found: dict[str, bytes] = {}
    for (table,) in story.server.query(names):
        rows = story.server.query(f'SELECT * FROM "{table}"')
        found[table] = b"\n".join(_as_bytes(value) for row in rows for value in row)
    return found


def _as_bytes(value: Any) -> bytes:
    if isinstance(value, bytes | memoryview):
        return bytes(value)
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    return json.dumps(value, default=str, ensure_ascii=False).encode()


def home(story: Story) -> dict[str, bytes]:
    """The bytes of every file below the server's home, also of rows that are gone."""
    return {
        str(path.relative_to(story.server.home)): path.read_bytes()
        for path in story.server.home.rglob("*")
        if path.is_file() and "static" not in path.parts
    }


def console(story: Story) -> None:
    """Ask for every page and fragment of every session; what they say is heard."""
    person, program = story.person, story.program
    for (key,) in story.server.query("SELECT key FROM journal_chatsession"):
        chat = f"/chat/{key}"
        for path in ("", "aside/", "menu/", "rename/", "delete/", "export/", "row/", "messages/"):
            person.get(f"{chat}/{path}", swap=bool(path))
        for form in ("md", "json"):
            for tools in ("0", "1"):
                person.get(f"{chat}/export/", format=form, tools=tools)
                query = {"format": form, "tools": tools}
                program.get(f"/api/chat/sessions/{key}/export", params=query)
        program.get(f"/api/chat/sessions/{key}")
        program.get(f"/api/chat/sessions/{key}/events", params={"limit": 1000})
    for key, call in story.server.query(
        "SELECT s.key, c.call_id FROM tools_app_toolcall c JOIN journal_turn t ON t.id = c.turn_id"
        " JOIN journal_chatsession s ON s.id = t.session_id"
    ):
        person.get(f"/chat/{key}/calls/{call}/", swap=True)
    for key, number in story.server.query(
        "SELECT s.key, i.id FROM journal_interruption i JOIN journal_turn t ON t.id = i.turn_id"
        " JOIN journal_chatsession s ON s.id = t.session_id"
    ):
        person.get(f"/chat/{key}/hitl/{number}/", swap=True)
    for path in ("/", "/sessions/", "/attention/", "/palette/", "/models/", "/account/", "/chat/"):
        person.get(path)
    for path in ("/api/chat/sessions", "/api/tools", "/api/runtime/status", "/api/openapi.json"):
        program.get(path)


def admin(story: Story) -> int:
    """Ask for every list of the admin and for every row behind it; how many pages that were."""
    seen: set[str] = set()
    queue = ["/admin/"]
    while queue:
        path = queue.pop()
        if path in seen:
            continue
        seen.add(path)
        answer = story.person.get(path)
        queue += _LINK.findall(answer.text)
        if path.count("/") == 4 and "p=" not in path:
            pages = re.findall(r'href="\?p=(\d+)', answer.text)
            queue += [f"{path}?p={page}" for page in range(1, max(map(int, pages), default=0) + 1)]
    return len(seen)
