"""Operations of ops, against torch's own counter over a whole step in eager mode."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from typing import Any

import pytest

from lowtide.torch import StepOptions, compile_step
from lowtide.torch.work import SECONDS_PER_OPERATION, by_operations, operations_of
from lowtide_research.bench.train_nets import NETS, training

torch: Any = None
with suppress(ImportError):
    torch = import_module("torch")

pytestmark = [pytest.mark.skipif(torch is None, reason="needs the extra torch"), pytest.mark.slow]

PRODUCTS = ("aten.mm.", "aten.bmm.", "aten.addmm.", "aten.baddbmm.", "aten.convolution")


@pytest.mark.parametrize("name", NETS)
def test_products_are_those_that_torch_counts_of_eager(name: str) -> None:
    """Fused attention apart, which not every torch counts on the CPU: it has more operations than elements."""
    net = training(name)
    with import_module("torch.utils.flop_counter").FlopCounterMode(display=False) as counter:
        net.loss_fn(net.model(net.batch[0]), *net.batch[1:]).backward()
    counted = {op: n for op, n in counter.get_flop_counts()["Global"].items() if "attention" not in str(op)}
    program = compile_step(net.model, net.loss_fn, net.batch, options=StepOptions(measure=False, time=0)).program
    pairs = list(zip(program.actions, operations_of(torch, program), strict=True))
    assert all(count >= 1 for _, count in pairs)
    assert sum(count for a, count in pairs if a.call.target.startswith(PRODUCTS)) == sum(counted.values())
    for action, count in pairs:
        if "attention" in action.call.target:
            batch, heads, length, width = program.forms[str(action.outputs[0])].shape
            assert count >= 4 * batch * heads * length * length * width


def test_a_table_of_operations_keeps_what_was_measured_but_time() -> None:
    """Workspace and real sizes; without workspace where that is asked, and without any measurement."""
    net = training("resnet")
    step = compile_step(net.model, net.loss_fn, net.batch, options=StepOptions(time=0))
    assert step.costs is not None
    table = by_operations(torch, step.program, step.costs)
    for entry in table.ops:
        measured = step.costs.by_signature[entry.signature]
        assert (entry.workspace_bytes, entry.output_bytes) == (measured.workspace_bytes, measured.output_bytes)
    assert any(entry.workspace_bytes for entry in table.ops)
    assert not any(e.workspace_bytes for e in by_operations(torch, step.program, step.costs, workspace=False).ops)
    planned = compile_step(
        net.model, net.loss_fn, net.batch, options=StepOptions(costs=by_operations(torch, step.program), measure=False)
    )
    total = sum(operations_of(torch, step.program))
    assert planned.plan.own_order_seconds == pytest.approx(total * SECONDS_PER_OPERATION)
    assert planned.plan.unmeasured == 0
