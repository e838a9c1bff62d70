"""Prompt assembly: one module per section."""

from protoagent.runtime.prompt.assemble import system_prompt

__all__ = ["system_prompt"]
