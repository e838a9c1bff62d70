"""The console script: `protoagent <command>` is the management command of the same name."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Sequence

COMMANDS = {
    "serve": "start the console, the worker and the ticker",
    "login-link": "print a one-time sign-in link",
    "token": "create, list and revoke API tokens",
    "account": "create, list and deactivate accounts of people",
    "ask": "one turn from the shell",
    "doctor": "check this instance",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code. An expected failure is one line on stderr."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] in ("-h", "--help", "help"):
        print(_usage())
        return 0 if words else 2
    words[0] = words[0].replace("-", "_")
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "protoagent.settings")
    # django-q2 makes locks while it is imported. Those of other start methods, which are the
    # default on macOS and from Python 3.14 on, would bring a helper process into each command.
    multiprocessing.set_start_method("fork", force=True)
    if words[0] == "serve":
        _take_address(words[1:])
    return _run(words)


def _usage() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:{width}}  {text}" for name, text in COMMANDS.items()]
    return "\n".join(["usage: protoagent COMMAND [OPTIONS]", "", *lines])


def _take_address(options: list[str]) -> None:
    """The settings read the address from the environment, so an option has to be there first."""
    for name in ("host", "port"):
        flag = f"--{name}"
        for index, word in enumerate(options):
            value = word.partition("=")[2] if word.startswith(f"{flag}=") else ""
            if word == flag and index + 1 < len(options):
                value = options[index + 1]
            if value:
                os.environ[f"PROTOAGENT_{name.upper()}"] = value


def _run(words: list[str]) -> int:
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line
    from django.db import DatabaseError

    from protoagent.config import services as config
    from protoagent.core.errors import AgentError

    try:
        if words[0] == "serve":
            # Before Django, whose start would only warn of it.
            config.reload()
        execute_from_command_line(["protoagent", *words])
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Whoever read the output has enough; a second error while closing it would be noise.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (AgentError, ImproperlyConfigured) as error:
        return _fail(str(error))
    except DatabaseError as error:
        return _fail(f"the database cannot be used: {' '.join(str(error).split())[:300]}")
    except PermissionError as error:
        return _fail(f"not allowed to use {error.filename}")
    return 0


def _fail(sentence: str) -> int:
    print(f"error: {sentence}", file=sys.stderr)
    return 1
