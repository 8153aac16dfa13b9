"""The peak of the same step in eager mode: its passes on fake tensors, kernels' workspace, the updates behind them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lowtide.torch.cost import Costs
from lowtide.torch.costed import Costed, costed
from lowtide.torch.eager_run import EagerRun, Kernel
from lowtide.torch.program import Program
from lowtide.torch.storages import root_of

_ADAM = "aten.addcdiv_.default"
"""The last op of Adam's update. A step holds one temporary; eager holds the root of the second moment, the quotient,
and the quotient of the parameter before."""


@dataclass(frozen=True)
class EagerStep:
    """The step as eager runs it: its ops, of which the last `updates` are the optimizer's; and the run on fake
    tensors."""

    program: Program
    updates: int = 0
    run: EagerRun | None = None

    def peak_bytes(self, torch: Any, planned: Costed, costs: Costs | None) -> int:
        """Most bytes that eager mode allocates at once.

        Parameters
        ----------
        planned
            The step that is planned, with the workspace of its kernels.
        """
        step, program = costed(torch, self.program, costs), self.program
        footprint, first = list(step.own.footprint), len(program.actions) - self.updates
        before = 0
        for k, action in enumerate(program.actions):
            if k >= first and action.call.target == _ADAM and step.unmeasured == 0:
                own = program.forms[action.writes[0]].extent_bytes
                footprint[k] += own + before
                before = own
        if self.run is None:
            return max(footprint, default=0)
        sizes: dict[Kernel, tuple[int, ...]] = {}
        workspace: dict[Kernel, int] = {}
        size_of = {tensor.name: tensor.size for tensor in planned.graph.tensors}
        for action, op in zip(planned.program.actions, planned.graph.ops, strict=True):
            names = [name for name in action.outputs if name is not None]
            kernel = action.call.target, tuple([planned.program.forms[name].shape for name in names])
            workspace[kernel] = max(workspace.get(kernel, 0), op.workspace)
            sizes[kernel] = tuple([size_of[name] for name in names])
        live = {root_of(result.value) for result in program.results}
        held = sum(t.size for t in step.graph.tensors if t.name in live and t.id in step.graph.producer)
        heights, end = self.run.live_bytes(sizes, workspace)
        return max([*heights, *[end + taken - held for taken in footprint[first:]]], default=0)
