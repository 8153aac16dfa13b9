"""What the same training step takes in eager mode: the figure that plans are compared with.

::

    eager      forward, backward: every gradient stays in .grad; then optimizer.step(), one parameter at a time
    file order the same ops; each parameter is updated inside the backward pass, behind its last reader

Both are counted in the same way: bytes that the allocator gives out during the call. Parameters, buffers, the batch and
the optimizer's state are there before. With ``foreach=True`` eager holds the temporaries of all parameters at once;
this counts those of one.
"""

from __future__ import annotations

from typing import Any

from lowtide.torch.cost import Costs
from lowtide.torch.costed import costed
from lowtide.torch.program import Program

_ADAM = "aten.addcdiv_.default"
"""The last op of Adam's update. Eager holds the root of the second moment and the quotient at once, a step one."""


def eager_peak_bytes(torch: Any, program: Program, costs: Costs | None) -> int:
    """Most bytes that eager mode allocates at once in a step.

    Parameters
    ----------
    program
        The step as eager runs it (`lowtide.torch.optimizer.after_backward`).
    """
    step = costed(torch, program, costs)
    footprint = list(step.own.footprint)
    for k, action in enumerate(program.actions):
        if action.call.target == _ADAM and step.graph.ops[k].workspace:
            footprint[k] += program.forms[action.writes[0]].extent_bytes
    return max(footprint, default=0)
