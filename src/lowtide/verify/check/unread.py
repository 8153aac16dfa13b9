"""Fields of a plan that only plans of other kinds use: in this plan no check would read them."""

from __future__ import annotations

from lowtide.errors import VerificationError
from lowtide.plan import Plan
from lowtide.rewrites import Sums
from lowtide.target import Target
from lowtide.verify.check.aliases import has_aliases
from lowtide.verify.check.parts import has_cuts

_OF_MOVES = ("traffic_bytes", "traffic_lower_bound_bytes", "traffic_proof", "streams", "spilling")
_OF_MEMORIES = ("residency", "workspace_memories", "runtime_arenas")
_NOT_OF_LOOPS = ("recomputation", "swapping", "rounds")
_NOT_OF_MOVES = ("recomputation", "swapping", "loops")


def check_read(plan: Plan, target: Target) -> None:
    """See that each field of a plan is one that is read in a plan of its kind. Raises `VerificationError`: ``unread``:
    recomputed rows where nothing is cut, costs of runs where loops or moves are, a runtime's parts under a target of
    another one, and the like."""
    cuts = has_cuts(plan)
    changes = plan.rewrites or plan.loops or plan.fission
    unread = (
        (plan.moves is None, _OF_MOVES, "moves nothing"),
        (plan.memories is None, _OF_MEMORIES, "has one memory"),
        (bool(plan.loops), _NOT_OF_LOOPS, "has loops"),
        (plan.moves is not None, _NOT_OF_MOVES, "moves tensors"),
        (not cuts, ("halos", "streams"), "cuts nothing"),
        (plan.recomputation is None or cuts, ("swapping",), "counts no time of transfers"),
        (not changes, ("exactness",), "changes nothing"),
        (target.rule != "tflm", ("runtime_parts", "runtime_arenas"), f"is for {target.name}"),
        (target.rule != "onnxruntime", ("runtime_unknown",), f"is for {target.name}"),
        (plan.runtime_arena_bytes is None, ("runtime_unknown", "runtime_parts"), "has no runtime's arena"),
    )
    for holds, names, what in unread:
        for name in names if holds else ():
            if getattr(plan, name) is not None:
                raise VerificationError("unread", f"the plan {what}, and says {name}, which is read by no check there")
    if not cuts and any(named.part is not None for named in plan.ops):
        raise VerificationError("unread", "the plan tiles nothing, and an op of it is a tile")
    if not cuts and any(isinstance(r, Sums) for r in plan.rewrites or ()):
        raise VerificationError("unread", "the plan tiles nothing, and computes an op from sums")
    if plan.moves is not None and has_aliases(plan):
        raise VerificationError("unread", "the plan moves tensors, and some are allocated in others")
