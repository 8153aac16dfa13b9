"""What an op means: its family, its canonical form, its access, its cost, and its side effects.

How an operator table is written
--------------------------------
An operator table is a module of this package for one dialect, with three functions of a `Node` (see `OperatorTable`)::

    def form(node: Node) -> Form          # canonical parameters; raise NoForm(reason) if there are none
    def is_random(node: Node) -> bool     # other numbers on every run
    def mutates(node: Node) -> tuple[int, ...]     # positions of the operands that are written over

`form` is a look-up in a table of rows, op type to a small function ``Node -> Form``, so that an op's meaning is one
line where it is like others::

    def _softmax(node):
        return Along((node.dim(node.attribute("axis", -1), node.rank()),))

    ROWS = {"Softmax": _softmax, "Relu": lambda node: Pointwise(), ...}

`node.values(i)` gives the values of a constant operand (axes, shapes, pads) and makes it a literal of the form: pass
``literal=node.literals()`` on. Shapes need not be in the form, the family gets them. An op like no family gets a
`Custom` form with an `Access` of its own: results may have different axes, and an axis that a result lacks is in
`reduce`. A table may also offer ``rounds_by_neighbours(node) -> bool``: whether a node that is inserted next to the
op's can move the bits of its results, so that no cut is exact. Nothing of it is believed before it is probed in the
runtime that the dialect comes from (`run/probe.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib import import_module
from typing import Protocol, cast

from lowtide.graph import Graph, Op
from lowtide.ops.access import Access, Exact
from lowtide.ops.families import access_of, family_of, flops_of
from lowtide.ops.forms import Form, Opaque
from lowtide.ops.node import Node, NoForm

_TABLES = {
    "onnx": "lowtide.ops.onnx",
    "tflite": "lowtide.ops.tflite",
    "aten": "lowtide.ops.aten",
    "labels": "lowtide.ops.labels",
}
"""Module with the operator table of each dialect, imported on first use."""


class OperatorTable(Protocol):
    """What the operator table of a dialect offers."""

    def form(self, node: Node) -> Form:
        """Canonical parameters of an op; raises `NoForm` if there are none."""
        ...

    def is_random(self, node: Node) -> bool:
        """Whether the op makes other numbers on every run."""
        ...

    def mutates(self, node: Node) -> tuple[int, ...]:
        """Positions of the operands that the op writes over."""
        ...


@dataclass(frozen=True, slots=True)
class Meaning:
    """What an op means."""

    family: str  # name of the family, ``"opaque"`` where nothing is known
    form: Form  # canonical parameters; `Opaque` says why nothing is known
    # Which rows of the operands are read for which rows of the results. Operands count as `Op.operands`.
    access: Access
    flops: int  # operations of one run
    random: bool = False  # whether it makes other numbers on every run
    mutates: tuple[int, ...] = ()  # positions of the operands that are written over

    @property
    def opaque(self) -> str | None:
        """Why nothing is known, or None."""
        return self.form.reason if isinstance(self.form, Opaque) else None


def meaning(graph: Graph, op: Op) -> Meaning | None:
    """What an op of a graph means. Returns: none if the graph is in no dialect. An op that its dialect has no row for
    is of the family ``"opaque"``, and `Meaning.opaque` says why. In both cases every cut ends there."""
    name = _TABLES.get(graph.dialect)
    if name is None:
        return None
    table = cast(OperatorTable, import_module(name))
    node = Node(graph, op)
    try:
        form = table.form(node)
        access = access_of(form, node.reads, node.writes)
        flops = flops_of(form, node.reads, node.writes)
    except NoForm as reason:
        return _opaque(node, str(reason), table)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        # a file may say anything; what does not fit together is no meaning, and no reason to stop
        return _opaque(node, f"its parameters do not fit its shapes ({error})", table)
    if rounds_by_neighbours(graph, op):
        access = replace(access, exact=_at_least_kernel(access.exact), merged=_at_least_kernel(access.merged))
    return Meaning(family_of(form), form, access, flops, table.is_random(node), table.mutates(node))


def rounds_by_neighbours(graph: Graph, op: Op) -> bool:
    """Whether a node that is inserted next to an op's, a slice or a second run of it, can move the bits of results."""
    name = _TABLES.get(graph.dialect)
    rounds = None if name is None else getattr(import_module(name), "rounds_by_neighbours", None)
    return rounds is not None and rounds(Node(graph, op))


def _at_least_kernel(exact: Exact) -> Exact:
    return "kernel" if exact == "bits" else exact


def _opaque(node: Node, reason: str, table: OperatorTable) -> Meaning:
    form = Opaque(reason)
    reads = tuple(None if t is None else t.shape or () for t in node.operands)
    writes = tuple(t.shape or () for t in node.results)
    return Meaning("opaque", form, access_of(form, reads, writes), 0, table.is_random(node))
