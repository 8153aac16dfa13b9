"""Rules of targets that are no runtime's: which ops share or write over what they read, as the target's fields say."""

from __future__ import annotations

from math import prod
from typing import Protocol

from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.ops.kinds import NORMALISATIONS, kind_of
from lowtide.ops.raster import distances, same_bytes, same_layout
from lowtide.rules.chains import chain_source


class Fields(Protocol):
    """What these rules read of a target; `lowtide.target.Target` says what each means."""

    @property
    def views(self) -> bool:
        """Whether views share memory."""
        ...

    @property
    def view_types(self) -> tuple[str, ...]:
        """Further ops that are views."""
        ...

    @property
    def elementwise_types(self) -> tuple[str, ...]:
        """Further ops that run element by element."""
        ...

    @property
    def in_place(self) -> str:
        """``"never"``, ``"first"`` or ``"any"`` input."""
        ...

    @property
    def in_place_reshape(self) -> bool:
        """Whether a reshape that copies may take over its input."""
        ...

    @property
    def in_place_batch_normalisation(self) -> bool:
        """Whether an inference batch normalisation may."""
        ...

    @property
    def in_place_normalisation(self) -> bool:
        """Whether softmax and other normalisations may."""
        ...

    @property
    def chains(self) -> str:
        """Whether chains of elementwise ops run ``"apart"``, or ``"fused"``, also into others (``"prologue"``)."""
        ...

    @property
    def channels_last(self) -> bool:
        """Whether channels lie after each place of an image."""
        ...

    @property
    def aliases_keep_file_layout(self) -> bool:
        """Whether they do not for aliases."""
        ...

    def offset(self, tensor: Tensor) -> int | None:
        """Where a tensor has to lie."""
        ...


def view_source(target: Fields, graph: Graph, op: Op) -> int | None:
    """The tensor whose storage the op's output shares by the table of ops; None: it is no view."""
    if target.chains != "apart":
        source = chain_source(graph, op, target.elementwise_types, prologue=target.chains == "prologue")
        if source is not None:
            return source
    if not target.views or len(op.outputs) != 1 or not op.inputs:
        return None
    row = kind_of(op.type)
    if not ((row is not None and row.view) or op.type in target.view_types):
        return None
    if op.attributes.get("training_mode"):
        return None
    output, read = graph.tensor_by_id[op.outputs[0]], graph.tensor_by_id[op.inputs[0]]
    alike = output.size == read.size and output.alias_of is None
    return read.id if alike and same_bytes(graph, read.id, output.id, channels_last=target.channels_last) else None


def overwritable_inputs(target: Fields, graph: Graph, op: Op) -> tuple[int, ...]:
    """As `lowtide.target.Target.overwritable_inputs`."""
    if target.in_place == "never" or len(op.outputs) != 1 or op.attributes.get("training_mode"):
        return ()
    if op.overwrites is not None:
        return _of_graph(target, graph, op, op.overwrites)
    row = kind_of(op.type)
    elementwise = (row is not None and row.elementwise) or op.type in target.elementwise_types
    reshape = target.in_place_reshape and row is not None and row.family == "reshape"
    norm = target.in_place_batch_normalisation and row is not None and row.family == "batch_normalisation"
    alike = target.in_place_normalisation and op.type in NORMALISATIONS
    if not (elementwise or reshape or norm or alike):
        return ()
    output = graph.tensor_by_id[op.outputs[0]]
    if output.size == 0 or output.alias_of is not None or target.offset(output) is not None:
        return ()
    read = [graph.tensor_by_id[t] for t in dict.fromkeys(op.inputs)]
    if target.in_place == "first":
        same = (t.id for t in read if t.kind is not Kind.CONSTANT and t.size == output.size)
        return tuple(same)[:1]
    if alike or (row is not None and row.overwrites == "first"):
        read = [t for t in read if t.id == op.inputs[0]]
    return tuple(
        t.id
        for t in read
        if t.kind is not Kind.CONSTANT
        and t.size == output.size
        and not _broadcast(t, output)
        and (not target.aliases_keep_file_layout or same_layout(graph, t.id, output.id))
    )


def _of_graph(target: Fields, graph: Graph, op: Op, inputs: tuple[int, ...]) -> tuple[int, ...]:
    """Those inputs that the graph itself lets an op overwrite, as far as this target can place them so."""
    output = graph.tensor_by_id[op.outputs[0]]
    if output.size == 0 or output.alias_of is not None or target.offset(output) is not None:
        return ()
    able = [t for t in dict.fromkeys(inputs) if graph.tensor_by_id[t].kind is not Kind.CONSTANT]
    return tuple(able[:1] if target.in_place == "first" else able)


def overlap_inputs(target: Fields, graph: Graph, op: Op) -> tuple[tuple[int, int], ...]:
    """What a kernel without a rule may lie over: inputs that it writes over place by place, or rows in turn."""
    over = overwritable_inputs(target, graph, op)
    if over or op.overwrites is not None or len(op.outputs) != 1:
        return tuple((t, 0) for t in over)
    output = graph.tensor_by_id[op.outputs[0]]
    if output.alias_of is not None or target.offset(output) is not None:
        return ()
    return distances(
        graph, op, channels_last=target.channels_last, aliases_keep_file_layout=target.aliases_keep_file_layout
    )


def _broadcast(read: Tensor, output: Tensor) -> bool:
    if read.shape is None or output.shape is None:
        return False
    return prod(read.shape) != prod(output.shape)
