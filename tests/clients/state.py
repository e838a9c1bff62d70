"""What a server has stored, in numbers: to see that something has changed nothing."""

from __future__ import annotations

from tests.services.servers import Server

TABLES = (
    "journal_chatsession",
    "journal_turn",
    "journal_turnevent",
    "journal_interruption",
    "journal_queuedmessage",
    "tools_app_toolcall",
    "uploads_attachment",
)


def stored(server: Server) -> dict[str, int]:
    """How many rows each table has, and the sum of all event numbers and answered questions."""
    counts = {name: server.query(f"SELECT COUNT(*) FROM {name}")[0][0] for name in TABLES}
    sums = server.query("SELECT COALESCE(SUM(last_seq), 0) FROM journal_chatsession")
    answered = server.query("SELECT COUNT(*) FROM journal_interruption WHERE state <> 'open'")
    return {**counts, "last_seq": int(sums[0][0]), "answered": answered[0][0]}


def unfinished(server: Server) -> list[tuple[str, str]]:
    """Turns that run or are queued: `(session, status)`."""
    return server.query(
        "SELECT s.key, t.status FROM journal_turn t JOIN journal_chatsession s"
        " ON s.id = t.session_id WHERE t.status IN ('queued', 'running')"
    )
