"""docs/performance.md says what was measured, of everything that is measured, and nothing else."""

from __future__ import annotations

import re

import pytest

from tests.bench import document, goals
from tests.bench.records import LIMIT, OURS, Record, Records, percentile

DATABASES = ("SQLite", "PostgreSQL")


def written(database: str) -> str:
    block = document.block(document.FILE.read_text(), database)
    if not block:
        pytest.skip(f"nothing measured yet on {database}")
    return block


def cells(block: str) -> dict[str, dict[str, str]]:
    lines = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in block.splitlines()
        if line.startswith("|")
    ]
    header, _, *rows = lines
    return {row[0]: dict(zip(header, row, strict=True)) for row in rows}


def some_records(*values: float, row: goals.Row, target: str = OURS) -> Records:
    records = Records()
    for repeat, value in enumerate(values):
        records.add(Record(target, row.scenario, row.metric, value, row.unit, repeat))
    return records


@pytest.mark.parametrize("database", DATABASES)
def test_the_table_has_every_row_with_the_goals_of_today(database):
    table = cells(written(database))

    assert list(table) == [row.label for row in goals.ROWS]
    for row in goals.ROWS:
        said = table[row.label]
        goal = f"{row.sign} {goals.short(row.goal)}" if row.sign else ""
        assert (said["Unit"], said["Original"], said["Goal"]) == (row.unit, row.original, goal)


@pytest.mark.parametrize("database", DATABASES)
def test_a_goal_is_called_reached_exactly_when_the_median_reaches_it(database):
    table = cells(written(database))

    for row in goals.ROWS:
        median = float(re.split(r" \(", table[row.label]["Measured"])[0].replace(",", ""))
        assert table[row.label]["Reached"] == row.reached(median), row.label


@pytest.mark.parametrize("database", DATABASES)
def test_what_is_not_reached_is_said_below_the_table(database):
    block = written(database)
    missed = [label for label, row in cells(block).items() if row["Reached"] == "no"]

    last = block.splitlines()[-1]

    expected = f"Not reached: {'; '.join(missed)}." if missed else "Every goal is reached."
    assert last == expected


def test_writing_one_table_leaves_the_rest_of_the_document_alone():
    places = ("<!-- measured: A -->\nold\n<!-- end: A -->", "<!-- measured: B -->\n<!-- end: B -->")
    text = "\n".join(("before", *places, ""))

    changed = document.with_block(document.with_block(text, "A", "| 1 |"), "B", r"| \1 |")

    assert document.block(changed, "A") == "| 1 |"
    assert document.block(changed, "B") == r"| \1 |"
    assert changed.startswith("before\n") and "old" not in changed
    with pytest.raises(LookupError):
        document.with_block(text, "C", "")


def test_a_cell_shows_the_median_and_between_what_it_was():
    row = goals.ROWS[0]
    records = some_records(9.0, 30.0, 12.0, row=row)
    for record in some_records(1.0, row=row, target=LIMIT).all:
        records.add(record)

    line = cells(goals.table(records))[row.label]

    assert line["Measured"] == "12 (9 to 30)"
    assert line["Limit"] == "1"
    assert line["Reached"] == "yes"
    assert goals.verdict(records) == "Every goal is reached."


def test_a_missed_goal_is_named():
    row = next(row for row in goals.ROWS if row.sign == goals.HIGHER)

    said = goals.verdict(some_records(row.goal - 1, row=row))

    assert said == f"Not reached: {row.label}."


def test_a_percentile_is_one_of_the_values():
    values = [float(number) for number in range(1, 61)]

    assert percentile(values, 99) == 60
    assert percentile(values, 50) == 30
    assert percentile([7.0], 99) == 7
