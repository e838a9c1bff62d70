"""The agent loop: ask the model, run the calls it wants in parallel, ask again.

A plain LangGraph graph over OpenAI-format messages, one thread per turn. It is compiled
once per process: tools, prompt and history come from the running leg, not from the graph.
Source: docs/adr/0003-plain-graph.md
"""

from __future__ import annotations

import operator
from functools import cache
from typing import Annotated, Any, TypedDict

from langgraph.errors import GraphBubbleUp
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send

from protoagent.runtime import hitl, leg, model_step
from protoagent.runtime.checkpoints import TurnSaver
from protoagent.runtime.leg import Message
from tools_app.boundary import CallSpec, announce, run_call

# Two super-steps per round: the model, then its tools.
STEPS_PER_ROUND = 2


class TurnState(TypedDict):
    """The messages of this turn only; what came before it is projected per request."""

    messages: Annotated[list[Message], operator.add]


class CallContext:
    """The ToolContext that a tool body gets."""

    def __init__(self, here: leg.Leg, call_id: str) -> None:
        self._leg = here
        self.call_id = call_id
        self.turn_id = here.hold.turn_id
        self.session_key = here.claim.session_key
        self.agent_key = here.claim.agent_key
        self.origin = here.claim.origin.value

    async def ask(self, form: dict[str, Any]) -> Any:
        """See `ToolContext.ask`."""
        return await hitl.ask(self._leg, self.call_id, form)


async def ask_model(state: TurnState) -> dict[str, list[Message]]:
    """One model call; its message, and before it what the operator said meanwhile."""
    here = leg.current.get()
    new_messages = await model_step.run(here, state["messages"])
    if requests := new_messages[-1].get("tool_calls"):
        calls = [_call_of(request) for request in requests]
        here.announced.update(call.call_id for call in calls)
        announce([(call, here.tools.get(call.name)) for call in calls], here.hold, here.holder)
    return {"messages": new_messages}


async def call_tool(request: Message) -> dict[str, list[Message]]:
    """One tool call, as the assistant message holds it, and its result message."""
    call = _call_of(request)
    here = leg.current.get()
    here.last_step = f"tool {call.name}"
    outcome = await run_call(
        call,
        here.tools.get(call.name),
        CallContext(here, call.call_id),
        here.hold,
        holder=here.holder,
        announced=call.call_id in here.announced,
        passthrough=(GraphBubbleUp, hitl.OutOfAutoAnswers),
    )
    message = {"role": "tool", "tool_call_id": call.call_id, "content": outcome.output}
    here.messages.append(message)
    return {"messages": [message]}


def _call_of(request: Message) -> CallSpec:
    function = request["function"]
    return CallSpec(request["id"], function["name"], function["arguments"])


def what_next(state: TurnState) -> list[Send] | str:
    """The calls of the newest message, all at once; the end when it has none."""
    calls = state["messages"][-1].get("tool_calls") or []
    if not calls:
        return END
    return [Send("call_tool", call) for call in calls]


@cache
def compiled() -> Any:
    """The graph of this process."""
    graph = StateGraph(TurnState)
    graph.add_node("ask_model", ask_model)
    graph.add_node("call_tool", call_tool)  # type: ignore[arg-type]
    graph.add_edge(START, "ask_model")
    graph.add_conditional_edges("ask_model", what_next, ["call_tool", END])
    graph.add_edge("call_tool", "ask_model")
    return graph.compile(checkpointer=TurnSaver())
