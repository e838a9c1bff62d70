"""Temporary stand-in; the tools helper replaces this file."""


def check_answers(steps, values):
    return values, {}
