"""Temporary stand-in; the tools helper replaces this file."""

TOOLS = ()


def split_component(text):
    return text, None
