"""show_component and the envelope that carries a component."""

from __future__ import annotations

import pytest

from protoagent.core.errors import BadValue
from tools_app import components
from tools_app.groups.rendering import show_component


async def render(component, props, title=""):
    return components.split_component(
        await show_component.run(component=component, props=props, title=title)
    )


async def test_a_table_is_rendered_with_text_cells_of_full_rows():
    sentence, found = await render(
        "table", {"columns": ["A", "B"], "rows": [["x", 1], [None], ["a", "b", "c"]]}, "Heading"
    )

    assert sentence == "Rendered a table component for the user."
    assert found == {
        "component": "table",
        "props": {
            "columns": ["A", "B"],
            "rows": [["x", "1"], ["", ""], ["a", "b"]],
            "title": "Heading",
        },
    }


async def test_keyvalue_takes_items_and_pairs():
    _, by_items = await render("keyvalue", {"items": [{"label": "Credits", "value": "183k"}]})
    _, by_pairs = await render("keyvalue", {"pairs": {"Credits": "183k"}})

    assert by_items == by_pairs
    assert by_items["props"]["items"] == [{"label": "Credits", "value": "183k"}]


async def test_a_timeline_step_without_a_known_state_is_to_do():
    _, found = await render(
        "timeline", {"steps": [{"label": "a", "state": "done"}, {"label": "b", "state": "?"}]}
    )

    assert [step["state"] for step in found["props"]["steps"]] == ["done", "todo"]


async def test_a_title_in_the_props_wins():
    _, found = await render("keyvalue", {"items": [], "title": "mine"}, "other")

    assert found["props"]["title"] == "mine"


@pytest.mark.parametrize(
    ("component", "props", "says"),
    [
        ("chart", {}, "unknown component 'chart'. Use one of: table, keyvalue, timeline."),
        ("code-ref", {}, "show_code"),
        ("table", {"rows": []}, "columns"),
        ("table", {"columns": ["a"], "rows": ["x"]}, "rows"),
        ("table", {"columns": ["a"], "rows": [["x"]] * 2001}, "at most"),
        ("keyvalue", {"items": "no"}, "items"),
        ("timeline", {}, "steps"),
    ],
)
async def test_what_does_not_fit_is_explained(component, props, says):
    with pytest.raises(BadValue, match=says):
        await show_component.run(component=component, props=props)


@pytest.mark.parametrize(
    "envelope", ["{", "[]", '{"component": "evil", "props": {}}', "null", "[" * 100_000]
)
def test_a_broken_envelope_is_only_a_sentence(envelope):
    sentence, found = components.split_component(f"Rendered. {components.MARKER}{envelope}")

    assert sentence == "Rendered."
    assert found is None


def test_props_that_are_no_object_become_empty():
    _, found = components.split_component(
        f'x {components.MARKER}{{"component": "table", "props": 5}}'
    )

    assert found == {"component": "table", "props": {}}
