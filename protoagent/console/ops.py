"""What changes on an open page: operations that name elements by id.

msg   {id, after, h, day}   insert an article behind `after` (None: at the end), or morph it
put   {in, id, h}           insert an element at the end of `in`, or morph it
set   {id, h}               morph an element
drop  {id}                  remove it
block {id, h}               prose: the growing block is final
tail  {id, h}               prose: replace the growing block
text  {id, h}               prose: append to the code block that is being written
fin   {id, h}               prose: the last block is final, nothing follows
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from protoagent.console import rendering
from protoagent.console.messages import Message, Part, Prose
from protoagent.console.rendering import Look
from protoagent.console.streaming import BLOCK, TAIL, TEXT, Edit

Op = dict[str, Any]


class OpenPage:
    """Collects the operations of one event. HTML is drawn when all of the event is known.

    A page that is not `live` collects nothing. What happens inside a message or part that
    is new with this event needs no operation of its own: it is sent whole.
    """

    def __init__(self, look: Look) -> None:
        self.look = look
        self.live = False
        self._ops: list[Callable[[], Op]] = []
        self._fresh: list[Message] = []
        self._new: list[Part] = []

    def begin(self, *, live: bool) -> None:
        """Forget the last event's operations."""
        self.live = live
        self._ops, self._fresh, self._new = [], [], []

    def drawn(self) -> list[Op]:
        """The operations of this event."""
        return [make() for make in self._ops]

    def is_fresh(self, message: Message) -> bool:
        """Whether the message came with this event."""
        return message in self._fresh

    def add(self, message: Message, after: Message | None) -> None:
        """A new message behind `after`."""
        self._fresh.append(message)
        place = after.element_id if after else None

        def make() -> Op:
            day_id, day = rendering.day_tag(message.at, self.look.zone)
            html = message.html(self.look)
            separator = {"id": day_id, "h": day}
            return {
                "t": "msg",
                "id": message.element_id,
                "after": place,
                "h": html,
                "day": separator,
            }

        self._emit(make)

    def put(self, message: Message, part: Part, inside: str = "") -> None:
        """A new part at the end of the message, or of the element `inside`."""
        if not self.is_fresh(message):
            self._new.append(part)
            target, name = inside or message.flow_id, part.element_id
            self._emit(lambda: {"t": "put", "in": target, "id": name, "h": part.html(self.look)})

    def set(self, part: Part) -> None:
        """A part that looks different."""
        if part not in self._new and not any(part in m.parts for m in self._fresh):
            self._emit(lambda: {"t": "set", "id": part.element_id, "h": part.html(self.look)})

    def set_piece(self, message: Message, name: str) -> None:
        """A message's head, live line or foot that looks different."""
        name_of = f"{message.element_id}-{name}"
        self._emit(lambda: {"t": "set", "id": name_of, "h": message.piece(name, self.look)})

    def drop(self, element_id: str) -> None:
        """An element that is gone."""
        self._emit(lambda: {"t": "drop", "id": element_id})

    def edit(self, prose: Prose, edits: list[Edit], *, is_last: bool = False) -> None:
        """Edits of growing text; a part that is new with this event is sent whole anyway."""
        if prose in self._new:
            return
        names = {BLOCK: "fin" if is_last else "block", TAIL: "tail", TEXT: "text"}
        for kind, html in edits:
            if kind in names:
                op = {"t": names[kind], "id": prose.element_id, "h": html}
                self._ops.append(lambda op=op: op)  # type: ignore[misc]
            else:
                self.set(prose)

    def _emit(self, make: Callable[[], Op]) -> None:
        if self.live:
            self._ops.append(make)
