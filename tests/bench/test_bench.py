"""The benchmark itself runs: real processes, a few turns, values that can be."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.bench.__main__ import NAMES
from tests.services.servers import CHECKOUT

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.bench", *arguments],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )


def test_a_quick_run_measures_the_product_and_the_limit():
    result = bench("startup", "first_token", "--quick")

    lines = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
    values = {(line["target"], line["scenario"], line["metric"]): line["value"] for line in lines}
    assert result.returncode == 0, result.stderr
    first = ("one token", "first token p50")
    assert 0 < values[("limit", *first)] < values[("ours", *first)]
    assert values["ours", "first_token", "failed turns"] == 0
    assert values["ours", "start", "until HTTP 200"] > 0
    assert "| first token, one-token answer, p50 | ms |" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["no_such"], "no scenario no_such"),
        (["--repeats", "99"], "between 1 and 20"),
        (["--write-doc", "--quick"], "every scenario"),
    ],
)
def test_a_wrong_command_line_is_refused_before_anything_starts(arguments, said):
    result = bench(*arguments)

    assert result.returncode == 2
    assert said in result.stderr
    assert result.stdout == ""


def test_every_scenario_is_named_in_the_help():
    shown = " ".join(bench("--help").stdout.split())

    assert all(name in shown for name in NAMES)
