"""The engine's own conformance suite, on whatever database the run uses."""

from __future__ import annotations

import pytest
from langgraph.checkpoint.conformance import checkpointer_test, validate

from protoagent.runtime.checkpoints import DjangoSaver


@pytest.mark.django_db(transaction=True)
async def test_the_saver_conforms():
    @checkpointer_test(name="DjangoSaver")
    async def saver():
        yield DjangoSaver()

    report = await validate(saver)

    report.print_report()
    assert report.passed_all_base(), report.to_dict()
