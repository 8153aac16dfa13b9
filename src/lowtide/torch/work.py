"""Operations of each op of a step, as torch itself counts them: a measure of time that is the same on every machine.

Products and convolutions by torch's own registry (`torch.utils.flop_counter`), two for each multiplication and sum; any
other op one for each element that it makes.
"""

from __future__ import annotations

import math
from dataclasses import replace
from importlib import import_module
from typing import Any

from msgspec import structs

from lowtide.torch.cost import Costs, OpCost, signature
from lowtide.torch.generate import expression
from lowtide.torch.program import Action, Program, refs

SECONDS_PER_OPERATION = 1e-9  # what `by_operations` writes as seconds for an operation: a unit, and no machine's speed
_ON_CPU = "_for_cpu"  # how operators end that torch counts under their name without it: fused attention's on the CPU


def operations_of(torch: Any, program: Program) -> tuple[int, ...]:
    """Operations of each op, at least one."""
    known: dict[str, int] = {}
    counts = []
    for action in program.actions:
        key = signature(program, action)
        if key not in known:
            known[key] = max(1, _counted(torch, program, action))
        counts.append(known[key])
    return tuple(counts)


def by_operations(torch: Any, program: Program, costs: Costs | None = None, *, workspace: bool = True) -> Costs:
    """A cost table in which time is counted in operations. `costs`: what was measured: sizes of results and
    workspace are kept of it. None: sizes by their shapes, no workspace. `workspace`: whether workspace counts."""
    measured = {} if costs is None else costs.by_signature
    entries: dict[str, OpCost] = {}
    for action, count in zip(program.actions, operations_of(torch, program), strict=True):
        key = signature(program, action)
        sizes = [program.forms[name].extent_bytes if name is not None else 0 for name in action.outputs]
        entry = measured.get(key, OpCost(key, 0.0, 0, sizes))
        taken = entry.workspace_bytes if workspace else 0
        entries[key] = structs.replace(entry, seconds=count * SECONDS_PER_OPERATION, workspace_bytes=taken)
    device = costs.device if costs is not None else "any"
    return Costs(device, str(torch.__version__), 0, sorted(entries.values(), key=lambda e: e.signature))


def _counted(torch: Any, program: Program, action: Action) -> int:
    space, _, name = action.call.target.partition(".")
    if space == "body":
        return sum(_counted(torch, program, inner) for inner in program.bodies[name].actions)
    elements = sum(math.prod(program.forms[name].shape) for name in action.outputs if name is not None)
    if space == "optimizer":
        return sum(math.prod(program.forms[ref.name].shape) for ref in refs(action.call))
    registry = import_module("torch.utils.flop_counter").flop_registry
    name, _, overload = name.partition(".")
    packet = getattr(getattr(torch.ops, space), name)
    count = registry.get(getattr(getattr(torch.ops, space), name.replace(_ON_CPU, ""), packet))
    if count is None:
        return elements
    names = list(dict.fromkeys(ref.name for ref in refs(action.call)))
    plain = replace(action.call, pick=None)
    options = ", ".join(f"{key!r}: {expression(value)}" for key, value in plain.kwargs)
    source = f"def op({', '.join(names)}):\n    return {expression(plain.args)}, {{{options}}}\n"
    namespace: dict[str, Any] = {"torch": torch, "aten": torch.ops.aten}
    exec(compile(source, "<shapes of one op>", "exec"), namespace)
    try:
        args, kwargs = namespace["op"](*(_shape_only(torch, program.forms[n]) for n in names))
        return count(*args, **kwargs, out_val=getattr(packet, overload)(*args, **kwargs))
    except (RuntimeError, NotImplementedError, TypeError):  # an operator that torch has no shapes of
        return elements


def viewed(torch: Any, program: Program, value: Any) -> Any:
    """A tensor without memory that has the shape and the strides of a view."""
    names = list(dict.fromkeys(ref.name for ref in refs(value)))
    namespace: dict[str, Any] = {"torch": torch, "aten": torch.ops.aten}
    exec(f"def view({', '.join(names)}):\n    return {expression(value)}\n", namespace)
    return namespace["view"](*(_shape_only(torch, program.forms[name]) for name in names))


def _shape_only(torch: Any, form: Any) -> Any:
    return torch.empty_strided(form.shape, form.strides, dtype=getattr(torch, form.dtype), device="meta")
