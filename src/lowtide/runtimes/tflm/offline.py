"""TFLM's offline plan: an offset for each tensor, or -1 for those that TFLM is to place itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lowtide.errors import InputError
from lowtide.plan import Plan
from lowtide.read.tflite.model import TfliteModel

ONLINE = -1  # offset of a tensor that TFLM is to place itself


def offline_offsets(plan: Plan) -> dict[int, int] | None:
    """Offsets that go into the model's file: those of a plan for TFLM, which takes them from there; else None."""
    return {int(t): at for t, at in (plan.offsets or {}).items()} if plan.runtime_parts is not None else None


def listed_offsets(model: TfliteModel, offsets: Mapping[int, int]) -> list[int]:
    """An offset for each tensor of all subgraphs, one subgraph after the other.

    What is not planned is left to TFLM (-1), but for tensors that nothing touches: TFLM gives them memory all the same,
    so they lie at 0, where they obstruct no other. (Those larger than the plan lose their elements.)

    Raises `InputError`: TFLM would leave a variable tensor of another subgraph without memory: it asks for the offset
    of the tensor of the same index in subgraph 0; or an offset does not fit its 32 bits.
    """
    main = model.subgraphs[0]
    idle = set(idle_tensors(model))
    listed: list[int] = []
    for i, t in enumerate(main.tensors):
        listed.append(0 if i in idle else ONLINE if t.buffer_bytes or t.variable else offsets.get(i, ONLINE))
    for k, other in enumerate(model.subgraphs[1:], 1):
        for i, t in enumerate(other.tensors):
            if t.variable and i < len(main.tensors) and listed[i] != ONLINE:
                raise InputError(
                    f"TFLM cannot take an offline plan for it: tensor {i} of subgraph {k} is a variable, and TFLM looks"
                    f" for its offset at tensor {i} of subgraph 0; write it without offsets, with --target strict",
                    model.place,
                )
        listed += [ONLINE] * len(other.tensors)
    if max(listed, default=0) >= 2**31:
        raise InputError(f"TFLM cannot take an offline plan for it: an offset is {max(listed)}", model.place)
    return listed


def idle_tensors(model: TfliteModel) -> list[int]:
    """Tensors of subgraph 0 that nothing touches and that TFLM gives memory all the same."""
    main = model.subgraphs[0]
    touched = {t for op in main.ops for t in (*op.inputs, *op.outputs)} | {*main.inputs, *main.outputs}
    return [
        i for i, t in enumerate(main.tensors) if i not in touched and not t.buffer_bytes and not t.variable and t.size
    ]


def emptied_tensors(model: TfliteModel, offsets: Mapping[int, int]) -> list[int]:
    """Idle tensors larger than the plan, which are to have no elements; only where their shape is theirs alone."""
    tensors = model.subgraphs[0].tensors
    end = max((at + tensors[t].size for t, at in offsets.items()), default=0)
    shapes = [t.shape_at for graph in model.subgraphs for t in graph.tensors]
    return [
        i
        for i in idle_tensors(model)
        if tensors[i].size > end and tensors[i].shape_at is not None and shapes.count(tensors[i].shape_at) == 1
    ]


def without_elements(model: TfliteModel, tensors: list[int]) -> TfliteModel:
    """The model with these tensors of subgraph 0 emptied, as they are written."""
    if not tensors:
        return model
    main = model.subgraphs[0]
    empty = set(tensors)
    changed = tuple(replace(t, shape=(0, *t.shape[1:])) if i in empty else t for i, t in enumerate(main.tensors))
    return replace(model, subgraphs=(replace(main, tensors=changed), *model.subgraphs[1:]))
