"""A plan of a training step with labels as the source of a PyTorch module, one line for each op that runs.

::

    def parts_9(t1, t4):            ops in parts, one part after the other
        r7 = r8 = None
        for first, end in ((0, 8), (8, 16)):
            t5 = torch.relu(t1[first:end])
            ...
            r7 = joined(r7, t7, 0, first, 16)     rows of a result
            r8 = summed(r8, t8)                   a sum over the rows
        return r7, r8

    def step(given):                ops in the plan's order: again where it says so, `del` where a tensor dies,
        ...                         a store ends and a load begins where the plan has them

The source reads as what runs: there is no graph and no interpreter in it. Transfers are for the CPU (two threads, and
memory that torch's allocator does not give out, as `lowtide.torch` has it); all else runs where the given tensors lie.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from lowtide.errors import InputError
from lowtide.fission_plan import PlanFission
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.ops.labels import word_of
from lowtide.plan import Plan
from lowtide.rewrites import Recompute, Swap
from lowtide.torch.swap import HOST, IMPORTS
from lowtide.transform.fission import PARTS, Fission, Loop, Region, access_of, body_of, outer_of, region_of
from lowtide.transform.rename import reading
from lowtide.transform.runs import LOAD, STORE, of_rewrites
from lowtide.transform.siblings import Siblings, apply
from lowtide_research.torch_code.kernels import HELPERS, expression

_JOINING = '''
def joined(whole, rows, dim, first, of):
    """A result with these rows of it written."""
    if whole is None:
        whole = rows.new_empty((*rows.shape[:dim], of, *rows.shape[dim + 1 :]))
    whole.narrow(dim, first, rows.shape[dim]).copy_(rows)
    return whole


def summed(whole, part):
    """A sum with a part's added."""
    return part if whole is None else whole.add_(part)
'''

_MOVING = '''
def store(name, x):
    """Begin to copy a tensor to the host."""
    host.store(name, x, x.numel() * x.element_size())


def load(name, shape, dtype):
    """A tensor into which the copy of one begins to come back."""
    strides = [math.prod(shape[d + 1 :]) for d in range(len(shape))]
    return host.load(name, math.prod(shape) * dtype.itemsize, tuple(shape), strides, dtype)
'''


def module_source(graph: Graph, plan: Plan | None = None) -> str:
    """Source of a module with ``INPUTS`` (name, shape, dtype of each given tensor), ``OUTPUTS`` (names), ``STACKED``
    (of a given or resulting tensor the names of the step's own that it holds along a first dimension) and
    ``step(given)``: a list of tensors in the order of ``INPUTS``, which it empties, to a dict of results by name.

    Parameters
    ----------
    plan
        A plan of the step; None: each op once, in the step's order, as eager has it.

    Raises
    ------
    InputError
        An op is of a kind without an expression in PyTorch, or the plan is of another step.
    """
    parts, merges = ((), ()) if plan is None or plan.fission is None else (plan.fission.parts, plan.fission.merged)
    user, stacked = graph, dict[int, tuple[int, ...]]()
    for merge in merges:
        if any("torch" in graph.op_by_id[v].attributes for v in merge.products):
            raise InputError("merged products have no expression of their own; leave merge out of --allow", graph.name)
        change = apply(graph, Siblings(tuple(merge.products)))
        graph, stacked = change.graph, {**stacked, **change.stacked}
    regions = {part.op: _region_of(graph, part) for part in parts}
    loops = [Loop(regions[part.op], int(part.body["required_bytes"]), None) for part in parts]
    outer = outer_of(graph, loops) if parts else graph
    moves = any(isinstance(r, Swap) for p in (plan, *map(_body, parts)) if p is not None for r in p.rewrites or ())
    lines = [
        f'"""{graph.name}: one training step{"" if plan is None else ", as lowtide planned it"}."""',
        "",
        *(
            [*IMPORTS["cpu"].replace("import mmap", "import math\nimport mmap").split("\n")]
            if moves
            else ["import torch"]
        ),
        "",
        *_givens(user, outer, stacked),
        *(line for text in (HELPERS, _JOINING, *((HOST, _MOVING) if moves else ())) for line in text.split("\n")),
        *(line for part in parts for line in _function(graph, part, regions[part.op])),
        "",
        "@torch.no_grad()",
        "def step(given):",
        f"    {_listed([_name(t.id) for t in _inputs(outer)])} = given",
        "    given.clear()",
        *_Block.of(outer, plan).lines(1),
        f"    return dict(zip(OUTPUTS, {_listed([_name(t.id) for t in _outputs(outer)])}))",
    ]
    return "\n".join(lines) + "\n"


def executable(source: str, name: str = "planned step") -> dict[str, Any]:
    """What the module of a source defines."""
    namespace: dict[str, Any] = {}
    exec(compile(source, f"<{name}>", "exec"), namespace)
    return namespace


def _inputs(graph: Graph) -> list[Tensor]:
    return [t for t in graph.tensors if t.kind in (Kind.INPUT, Kind.CONSTANT)]


def _outputs(graph: Graph) -> list[Tensor]:
    return [t for t in graph.tensors if t.kind is Kind.OUTPUT]


def _name(tensor: int) -> str:
    return f"t{tensor}"


def _listed(names: Sequence[str]) -> str:
    return f"[{', '.join(names)}]"


def _givens(user: Graph, graph: Graph, stacked: Mapping[int, tuple[int, ...]]) -> list[str]:
    """The tables of the module. A name that is not unique among the user's has the tensor's number instead."""
    count = Counter(t.name for t in (*_inputs(user), *_outputs(user)))
    every = {t.id: t for t in (*user.tensors, *graph.tensors)}
    names = {v: t.name if t.name and count[t.name] == 1 else _name(v) for v, t in every.items()}
    rows = [f"    ({names[t.id]!r}, {tuple(t.shape or ())}, torch.{t.dtype})," for t in _inputs(graph)]
    held = {names[t]: [names[u] for u in of] for t, of in stacked.items()}
    return ["INPUTS = [", *rows, "]", f"OUTPUTS = {[names[t.id] for t in _outputs(graph)]!r}", f"STACKED = {held!r}"]


def _body(part: PlanFission) -> Plan:
    return msgspec.convert(part.body, Plan)


def _region_of(graph: Graph, part: PlanFission) -> Region:
    axes: dict[int, int] = {}
    for op_id, word in part.ops:
        op = graph.op_by_id.get(op_id)
        access = None if op is None else access_of(graph, op)
        named = [] if op is None or access is None else [
            axis for axis in range(len(access.sizes)) if word_of(op, access, axis) == word
        ]  # fmt: skip
        if len(named) != 1:
            raise InputError(f"op {op_id} has no rows {word!r}: the plan is for another step", graph.name)
        axes[op_id] = named[0]
    return region_of(graph, axes)


@dataclass(frozen=True)
class _Block:
    """The runs of one graph: `ops` and ids in the `order` in which they run; `again`: of each clone the op that it is a
    run of; `copies`: ops that copy rows of an operand; `handed`: of a tensor the line that hands it over, with ``{}``
    for its name."""

    graph: Graph
    ops: Mapping[int, Op]
    order: Sequence[int]
    again: Mapping[int, int]
    copies: frozenset[int]
    handed: Mapping[int, str]

    @classmethod
    def of(
        cls,
        graph: Graph,
        plan: Plan | None,
        copies: frozenset[int] = frozenset(),
        handed: Mapping[int, str] | None = None,
    ) -> _Block:
        """A graph with the clones and transfers of a plan."""
        if plan is None:
            return cls(graph, graph.op_by_id, graph.own_order, {}, copies, handed or {})
        clones = [r for r in plan.rewrites or () if isinstance(r, Recompute)]
        swaps = [r for r in plan.rewrites or () if isinstance(r, Swap)]
        by_id, tensors, moves = graph.tensor_by_id, list(graph.tensors), list[Op]()
        for swap in swaps:
            moves.append(Op(swap.store, (swap.tensor,), (), "", STORE))
            for load in swap.loads:
                moves.append(Op(load.op, (), (load.output,), "", LOAD, after=(swap.store,)))
                tensors.append(replace(by_id[swap.tensor], id=load.output, name="", kind=Kind.ACTIVATION))
        with_moves = replace(graph, tensors=tuple(tensors), ops=(*graph.ops, *moves), file=None, file_order=())
        changed = of_rewrites(with_moves, clones).graph
        ops = dict(changed.op_by_id)
        for load in (load for swap in swaps for load in swap.loads):
            ops |= {v: reading(ops[v], {load.instead: load.output}) for v in load.readers}
        again = {r.op: r.of for r in clones}
        copies |= {clone for clone in again if _origin(clone, again) in copies}
        return cls(changed, ops, plan.order, again, copies, handed or {})

    def lines(self, depth: int) -> list[str]:
        """A line for each run, what a transfer begins or ends there, and what dies after it."""
        last = {t: step for step, v in enumerate(self.order) for t in self.ops[v].inputs}
        kept = {t.id for t in _outputs(self.graph)}
        stored = {self.ops[v].inputs[0]: v for v in self.order if self.ops[v].type == STORE}
        coming: dict[int, int] = {}  # loaded tensors to their stores
        text: list[str] = []
        for step, v in enumerate(self.order):
            op = self.ops[v]
            text += [f"host.loaded({self._key(coming.pop(t))})" for t in dict.fromkeys(op.inputs) if t in coming]
            if op.type == LOAD:
                coming[op.outputs[0]] = op.after[0]
            text += self._run(op)
            for t in op.outputs:
                if t in stored:
                    store = stored[t]
                    text += [
                        f"form_{store} = {_name(t)}.shape, {_name(t)}.dtype",
                        f"store({self._key(store)}, {_name(t)})",
                    ]
            dead = [t for t in (*op.inputs, *op.outputs) if last.get(t, step) == step and t not in kept]
            if dead:
                text.append(f"del {', '.join(dict.fromkeys(_name(t) for t in dead))}")
        return ["    " * depth + line for line in text]

    def _run(self, op: Op) -> list[str]:
        if op.type == STORE:
            return [f"host.stored({self._key(op.id)})"]
        operands, results = [_name(t) for t in op.inputs], [_name(t) for t in op.outputs]
        if op.type == LOAD:
            return [f"{results[0]} = load({self._key(op.after[0])}, *form_{op.after[0]})"]
        if op.type == PARTS:
            call = f"parts_{_origin(op.id, self.again)}({', '.join(operands)})"
        elif op.id in self.copies:
            call = f"{operands[0]}.clone(memory_format=torch.contiguous_format)"
        else:
            call = expression(self.graph, op, operands)
        left = results[0] if len(results) == 1 and op.type != PARTS else _listed(results)
        note = "  # again" if op.id in self.again else ""
        return [f"{left} = {call}{note}", *(self.handed[t].format(_name(t)) for t in op.outputs if t in self.handed)]

    def _key(self, store: int) -> str:
        """The name of a stored tensor on the host; a part of other rows has a name of its own."""
        return f"f'{store} {{end - first}}'" if self.handed else repr(str(store))


def _origin(op: int, again: Mapping[int, int]) -> int:
    while op in again:
        op = again[op]
    return op


def _function(graph: Graph, part: PlanFission, region: Region) -> list[str]:
    """A region in parts, as a function of its operands in the order of their ids."""
    body = body_of(graph, region, Fission(region.axes, tuple(part.ends)).all, None)
    sliced, joined = dict(region.sliced), dict(region.concatenated)
    read = sorted((*sliced, *region.untiled))
    results = sorted(region.results)
    handed = {
        t: f"r{t} = joined(r{t}, {{}}, {joined[t]}, first, {region.rows})"
        if t in joined
        else f"r{t} = summed(r{t}, {{}})"
        for t in results
    }
    block = _Block.of(body.graph, _body(part), copies=frozenset(body.copies), handed=handed)
    bounds = tuple(zip((0, *part.ends), part.ends, strict=False))
    return [
        "",
        f"def parts_{part.op}({', '.join(f'w{t}' for t in read)}):",
        f'    """Run {len(part.ops)} ops in {len(part.ends)} parts of {region.rows} rows."""',
        *(f"    r{t} = None" for t in results),
        f"    for first, end in {bounds}:",
        *(f"        {_name(t)} = {_rows(t, sliced.get(t))}" for t in read),
        *block.lines(2),
        f"    return {_listed([f'r{t}' for t in results])}",
        "",
    ]


def _rows(tensor: int, dim: int | None) -> str:
    return f"w{tensor}" if dim is None else f"w{tensor}.narrow({dim}, first, end - first)"
