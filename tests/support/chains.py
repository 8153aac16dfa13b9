"""Small training steps: a way there, and a way back that reads what it made."""

from __future__ import annotations

from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.optimize.recompute.sequence import Sequenced
from support.sequences import own


def step_of_a_chain(depth: int) -> Sequenced:
    """So many unit ops, a loss, and unit ops back that each read the gradient and what an op of the way there made."""
    tensors, ops = [Tensor(0, 1), *(Tensor(k, 1) for k in range(1, depth))], [Op(0, (), (0,), cost=1)]
    ops += [Op(k, (k - 1,), (k,), cost=1) for k in range(1, depth)]
    reads = depth - 1
    for k in range(depth):
        made = depth + k
        tensors.append(Tensor(made, 1, Kind.OUTPUT if k == depth - 1 else Kind.ACTIVATION))
        ops.append(Op(made, (reads, depth - 1 - k) if k else (reads,), (made,), cost=1))
        reads = made
    return own(Graph("step", tuple(tensors), tuple(ops)))


def chain_with_skips(blocks: int) -> Sequenced:
    """Blocks of two ops and one that adds what went in, unit sizes and costs; a loss; and back: through both ops, which
    read what they read on the way there, and an op that adds both gradients."""
    tensors: list[Tensor] = []
    ops: list[Op] = []

    def op(*reads: int, label: str = "", kind: Kind = Kind.ACTIVATION) -> int:
        made = len(tensors)
        tensors.append(Tensor(made, 1, kind))
        ops.append(Op(made, reads, (made,), label, cost=1))
        return made

    goes_in, inside = None, []
    for k in range(blocks):
        first = op(*([] if goes_in is None else [goes_in]), label=f"first{k}")
        second = op(first, label=f"second{k}")
        out = op(second, *([first] if goes_in is None else [goes_in]), label=f"add{k}")
        inside.append((goes_in, first, second))
        goes_in = out
    assert goes_in is not None
    gradient = op(goes_in, label="loss")
    for k in reversed(range(blocks)):
        goes_in, first, second = inside[k]
        through = op(gradient, first, second, label=f"second{k}'")
        through = op(through, *([] if goes_in is None else [goes_in]), label=f"first{k}'")
        kind = Kind.ACTIVATION if k else Kind.OUTPUT
        gradient = op(through, gradient, label=f"add{k}'", kind=kind)
    return own(Graph("skips", tuple(tensors), tuple(ops)))
