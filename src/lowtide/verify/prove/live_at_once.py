"""A bound on traffic by the bytes live at once in every order: the peak that it needs (proofs.md, traffic theorem 7).

If no order's peak without moves is below P, then at some step of every order P bytes are live, and the fast memory
holds no more than its capacity. The rest is on the host. All of the rest but inputs, constants and outputs was made
before and is used later. So it is written to the host and read back at least once: traffic of twice its bytes.
"""

from __future__ import annotations

from dataclasses import replace

from lowtide.errors import VerificationError
from lowtide.graph import Graph, Kind
from lowtide.plan import Plan
from lowtide.sizes import round_up
from lowtide.spill_plan import Spilling
from lowtide.target import Target
from lowtide.verify.check.cut import check_cut
from lowtide.verify.check.memory import CheckedMemory, work_out
from lowtide.verify.check.moves import counted_memory


def peak_to_refute(graph: Graph, plan: Plan, target: Target) -> tuple[CheckedMemory, int]:
    """The memory to refute it in, and the peak below which no order is, as the plan's bound needs it (theorem 7).
    Constants count there while ops read them only, which is no more than they do, and sizes as ops are counted.
    Raises `VerificationError`: ``traffic``: the peak that the proof names is not enough, or sizes are rounded up."""
    proof, bound, unit = plan.traffic_proof, plan.traffic_lower_bound_bytes or 0, target.alignment
    parts = [] if proof is None else proof.parts
    peak, cut = (parts[0].peak, parts[0].cut) if len(parts) == 1 else (None, None)
    if peak is None or parts[0].ops or parts[0].begin is not None or parts[0].end is not None:
        raise VerificationError("traffic", "a bound by what is live at once names one peak, and nothing else")
    counted = counted_memory(graph, plan, target)
    if any(b.size % unit for b in counted.storages):
        raise VerificationError("traffic", "what is live at once bounds no traffic where sizes are rounded up")
    constants = {t.id for t in graph.tensors if t.kind is Kind.CONSTANT}
    free = sum(b.size for b in counted.storages if b.at_start or b.at_end or not constants.isdisjoint(b.tensors))
    capacity = (plan.memories or [])[0].capacity_bytes
    needed = capacity + free + -(-bound // 2)
    if peak < needed:
        why = f"a peak of {peak} bytes leaves {2 * max(0, peak - capacity - free)} to move"
        raise VerificationError("traffic", f"{why} ({capacity} fit, {free} cost nothing); the bound is {bound}")
    always = target.constants == "always" or (plan.spilling or Spilling()).parameters
    memory = work_out(graph, replace(target, constants="while_used")) if always else counted
    saved = {
        op: {t: round_up(size, unit) for t, size in row.items() if memory.place[t][1] % unit == 0}
        for op, row in memory.saved.items()
    }
    memory = replace(
        memory,
        workspace={op: round_up(size, unit) for op, size in memory.workspace.items()},
        overwritable={op: tuple(saved[op]) for op in memory.overwritable},
        saved=saved,
    )
    if cut is not None and (cut.value_bytes < peak or not check_cut(graph, memory, cut)):
        raise VerificationError("traffic", f"a flow of {cut.value_bytes} bytes does not show a peak of {peak}")
    return memory, peak
