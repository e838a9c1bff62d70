"""The rules of the staircase that import-linter cannot see."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from django.apps import apps
from django.db.models import ForeignObject
from django.db.models.fields.related import RelatedField

from tests.architecture import sources

FLOORS = "Floors with the apps in their places"
STRAY_NAMES = {
    "utils",
    "util",
    "helpers",
    "helper",
    "common",
    "misc",
    "manager",
    "tasks",
    "base_utils",
}
WEAK_ENDINGS = ("Manager", "Helper", "Util", "Utils", "Data", "Info")
# A queryset's manager is Django's word, not ours.
FRAMEWORK_BASES = {"BaseManager", "BaseUserManager"}
MAX_FILE_LINES, HARD_LIMIT = 400, 600
# Files above the budget, and why splitting them would make them harder to read.
LONG_FILES = {
    "protoagent/journal/models.py": "all tables of the journal, side by side",
    "protoagent/journal/services/turns.py": "every legal change of a turn's row, in one place",
    "tools_app/forms.py": "one dialect of JSON Schema: what is asked and what is accepted",
}
MAX_FUNCTION_LINES = 40
OWN = {*sources.PACKAGES, "tests"}
NAMED_IN_SETTINGS = {"tzdata", "whitenoise", "psycopg", "channels"}


def floor_of(module: str) -> int:
    """0 is the ground; contract layers are written from the top."""
    layers = sources.contract(FLOORS)["layers"]
    for height, layer in enumerate(reversed(layers)):
        for package in re.split(r"[:|]", layer):
            name = package.strip().strip("()")
            if module == name or module.startswith(f"{name}."):
                return height
    raise AssertionError(f"{module} has no floor in pyproject.toml")


def own_models() -> Iterator[type]:
    for model in apps.get_models():
        if model.__module__.split(".")[0] in sources.PACKAGES:
            yield model


def test_every_foreign_key_points_down_or_stays_in_its_room():
    wrong = []
    for model in own_models():
        for field in model._meta.get_fields():
            if not isinstance(field, RelatedField | ForeignObject):
                continue
            target = field.related_model.__module__
            if target.split(".")[0] not in sources.PACKAGES:
                continue
            if floor_of(target) > floor_of(model.__module__):
                wrong.append(f"{model.__name__}.{field.name} → {target}")

    assert wrong == []


def test_no_contract_is_ignored_anywhere():
    contracts = sources.project()["tool"]["importlinter"]["contracts"]

    assert [one["name"] for one in contracts if one.get("ignore_imports")] == []


def queue_names() -> Iterator[tuple[Path, str]]:
    """Dotted names in the code that look like queue entries."""
    for path in sources.modules():
        for node in ast.walk(sources.tree(path)):
            value = node.value if isinstance(node, ast.Constant) else None
            if isinstance(value, str) and re.fullmatch(r"protoagent\.workers\.\w+", value):
                yield path, value


def test_every_name_given_to_the_queue_is_a_sync_function_of_the_workers():
    names = dict(queue_names())

    assert names
    for name in names.values():
        module, _, function = name.rpartition(".")
        found = getattr(importlib.import_module(module), function)
        assert callable(found)
        assert found.__code__.co_flags & 0x80 == 0, f"{name} is async; its result would be lost"


def test_the_queue_is_only_used_through_its_own_module():
    users = [
        sources.short(path)
        for path in sources.modules()
        for node in ast.walk(sources.tree(path))
        if isinstance(node, ast.ImportFrom) and node.module == "django_q.tasks"
    ]

    assert users == ["protoagent/core/queue.py"]


def test_no_module_has_a_name_that_says_nothing():
    stray = [sources.short(path) for path in sources.modules() if path.stem in STRAY_NAMES]

    assert stray == []


def test_no_class_has_a_name_that_says_nothing():
    weak = [
        f"{sources.short(path)}: {node.name}"
        for path in sources.modules()
        for node in ast.walk(sources.tree(path))
        if isinstance(node, ast.ClassDef) and node.name.endswith(WEAK_ENDINGS)
    ]

    assert weak == []


def test_files_are_short_enough_to_read():
    lengths = {
        sources.short(path): len(path.read_text().splitlines()) for path in sources.modules()
    }
    long = {name for name, length in lengths.items() if length > MAX_FILE_LINES}

    assert long - set(LONG_FILES) == set()
    assert set(LONG_FILES) - long == set(), "these fit the budget again"
    assert max(lengths.values()) <= HARD_LIMIT


def body_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines from `def` to the end, without the docstring."""
    length = (node.end_lineno or node.lineno) - node.lineno + 1
    first = node.body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
        length -= (first.end_lineno or first.lineno) - first.lineno + 1
    return length


def test_functions_are_short_enough_to_read():
    long = {
        f"{sources.short(path)}:{node.name}": body_lines(node)
        for path in sources.modules()
        for node in ast.walk(sources.tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and body_lines(node) > MAX_FUNCTION_LINES
    }

    assert long == {}


def test_every_module_and_public_function_says_what_it_is_for():
    silent = []
    for path in sources.modules():
        module = sources.tree(path)
        if module.body and path.name != "apps.py" and not ast.get_docstring(module):
            silent.append(sources.short(path))
        for node in module.body:
            is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            if is_function and not node.name.startswith("_") and not ast.get_docstring(node):
                silent.append(f"{sources.short(path)}:{node.name}")

    assert silent == []


def top_level_imports(path: Path) -> Iterator[str]:
    for node in ast.walk(sources.tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield node.module.split(".")[0]


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def declared(requirements: list[str]) -> set[str]:
    return {canonical(re.match(r"[A-Za-z0-9._-]+", line)[0]) for line in requirements}


def test_every_imported_library_is_declared_and_every_declared_one_is_used():
    project = sources.project()["project"]
    wanted = declared(project["dependencies"])
    optional = declared(
        [line for lines in project["optional-dependencies"].values() for line in lines]
    )
    by_package = importlib.metadata.packages_distributions()
    # A namespace such as `langgraph` comes from several distributions; one of them is enough.
    imported = {
        name: {canonical(one) for one in by_package.get(name, [name])}
        for path in sources.modules()
        for name in top_level_imports(path)
        if name not in OWN and name not in sys.stdlib_module_names
    }

    assert [name for name, found in imported.items() if not found & (wanted | optional)] == []
    assert wanted - set().union(*imported.values()) - NAMED_IN_SETTINGS == set()


def test_models_are_not_changed_by_overridden_save_methods():
    overriding = [
        model.__name__
        for model in own_models()
        if {"save", "delete"} & set(vars(model)) - {"objects"}
    ]

    assert overriding == []
