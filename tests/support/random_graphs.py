"""Random small graphs with everything that the memory model knows."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from random import Random

from lowtide.graph import Graph, Kind, Op, Tensor, alias_roots
from lowtide.ops.folding import fold_constants
from lowtide.target import BUILT_IN
from lowtide.verify.check.memory import work_out
from support.brute import peak_of

VIEW_TYPES = ("Reshape", "Flatten", "Identity", "Dropout")
ONE_INPUT_TYPES = ("Relu", "Clip", "BatchNormalization", "Sigmoid", "Cast")
MANY_INPUT_TYPES = ("Add", "Sum", "Mul", "Where", "Max")
OTHER_TYPES = ("Conv", "MatMul", "Concat", "Softmax", "com.example::Unknown", "")
SIZES = (1, 2, 3, 4, 5, 7, 8, 8, 12, 16, 16, 24, 32)


def random_graph(
    rng: Random,
    n_ops: int = 8,
    *,
    width: int = 8,
    aliases: float = 0.1,
    in_place: float = 0.45,
    views: float = 0.15,
    plain: bool = False,
) -> Graph:
    """A random DAG of `n_ops` ops or fewer (ops that read constants only are folded).

    Parameters
    ----------
    rng
        Decides everything; the same state gives the same graph.
    n_ops
        Ops before folding.
    width
        How many of the latest tensors an op chooses its inputs from; itself drawn from 1 to `width`.
    aliases, in_place, views
        Chances, per output or op, of a graph alias, of a type that may run in place, and of a view type.
    plain
        Whether to leave out aliases, constants, zero-byte tensors, workspaces and `after`.
    """
    rare = 0.0 if plain else 1.0
    reach = rng.randint(1, width)
    tensors: list[Tensor] = []
    ops: list[Op] = []

    def add(kind: Kind, size: int, **more: object) -> Tensor:
        tensors.append(Tensor(len(tensors), size, kind, f"t{len(tensors)}", **more))  # type: ignore[arg-type]
        return tensors[-1]

    def size_of(chance_zero: float = 0.06) -> int:
        return 0 if rng.random() < chance_zero * rare else rng.choice(SIZES)

    live = [add(Kind.INPUT, size_of(), shape=_shape(rng, 0)) for _ in range(rng.randint(1, 3))]
    live = [_with_shape(rng, tensors, t) for t in live]
    constants = [add(Kind.CONSTANT, rng.choice(SIZES)) for _ in range(rng.randint(0, 2))] if not plain else []
    if rng.random() < 0.15 * rare:
        add(Kind.OUTPUT, size_of())  # a graph input passed through; perhaps read as well
        if rng.random() < 0.5:
            live.append(tensors[-1])

    for i in range(n_ops):
        pool = live[-reach:] if rng.random() < 0.8 else live
        draw = rng.random()
        if draw < views:
            kind, n_inputs = rng.choice(VIEW_TYPES), 1
        elif draw < views + in_place:
            several = rng.random() < 0.6
            kind = rng.choice(MANY_INPUT_TYPES if several else ONE_INPUT_TYPES)
            n_inputs = rng.randint(2, 3) if several else 1
        else:
            kind, n_inputs = rng.choice(OTHER_TYPES), rng.choice((0, 1, 1, 1, 2, 2, 3))
        inputs = [rng.choice(pool) for _ in range(n_inputs)]  # may draw one twice
        if inputs and rng.random() < 0.2:
            inputs = [*inputs, rng.choice(live)]
        if constants and rng.random() < 0.2:
            inputs.insert(rng.randint(0, len(inputs)), rng.choice(constants))
        if constants and rng.random() < 0.04:
            inputs = [rng.choice(constants)]
        common = [t for t in inputs if t.kind is not Kind.CONSTANT]
        n_outputs = 1 if draw < views + in_place else rng.choice((1, 1, 1, 1, 2, 3))
        outputs = []
        for _ in range(n_outputs):
            same = common and (draw < views or rng.random() < 0.6)
            size = rng.choice(common).size if same else size_of()
            if draw < views and common:
                size = common[0].size
            role = Kind.OUTPUT if rng.random() < 0.08 else Kind.ACTIVATION
            more: dict[str, object] = {}
            if rng.random() < aliases * rare:
                other = rng.choice([*common, *tensors] if common else tensors)
                more = {"alias_of": other.id, "alias_offset": rng.choice((0, 0, 0, 1, 2, other.size))}
                more = more if _may_hold(tensors, other, inputs) else {}
            made = _with_shape(rng, tensors, add(role, size, **more))
            outputs.append(made)
            if rng.random() > 0.06:  # else dead, unless an output
                live.append(made)
        after = tuple(rng.sample(range(i), 1)) if i and rng.random() < 0.08 * rare else ()
        workspace = rng.choice(SIZES) if rng.random() < 0.15 * rare else 0
        attributes = {"training_mode": 1} if kind == "BatchNormalization" and rng.random() < 0.2 else {}
        ops.append(
            Op(
                i, tuple(t.id for t in inputs), tuple(t.id for t in outputs), f"op{i}", kind,
                workspace, None, after, attributes,
            )
        )  # fmt: skip
    if rng.random() < 0.3 * rare:
        _concatenate_in_place(rng, tensors, ops)
    tensors = _mark_outputs(rng, tensors, ops)
    return _finish(rng, tensors, ops)


def with_own_order(graph: Graph, order: tuple[int, ...]) -> Graph:
    """The same graph with its ops in another order (op ids, topological)."""
    by_id = graph.op_by_id
    return Graph(graph.name, graph.tensors, tuple(by_id[i] for i in order), graph.folded, "", graph.sha256)


def random_order(rng: Random, graph: Graph) -> tuple[int, ...]:
    """A random topological order, as op ids."""
    waiting = {i: set(before) for i, before in enumerate(graph.predecessors)}
    order: list[int] = []
    while waiting:
        i = rng.choice([i for i, before in waiting.items() if not before])
        del waiting[i]
        for before in waiting.values():
            before.discard(i)
        order.append(graph.ops[i].id)
    return tuple(order)


def _shape(rng: Random, size: int) -> tuple[int, ...] | None:
    return (size,) if rng.random() < 0.5 else None


def _with_shape(rng: Random, tensors: list[Tensor], tensor: Tensor) -> Tensor:
    """Give a shape to some: mostly bytes, sometimes fewer and wider elements (so that it seems broadcast)."""
    size = tensor.size
    draw = rng.random()
    shape = None if draw < 0.5 else (size // 2,) if draw < 0.6 and size % 2 == 0 else (size,)
    tensors[tensor.id] = replace(tensor, shape=shape)
    return tensors[tensor.id]


def _may_hold(tensors: list[Tensor], tensor: Tensor, inputs: list[Tensor]) -> bool:
    """Whether an op with these inputs may make an alias of `tensor`: a constant is not written, only seen anew."""
    roots = alias_roots(tensors)
    root = roots[tensor.id]
    return tensors[root].kind is not Kind.CONSTANT or any(roots[t.id] == root for t in inputs)


def _concatenate_in_place(rng: Random, tensors: list[Tensor], ops: list[Op]) -> None:
    """Two or three plain tensors become parts of one more, side by side: mostly what one more op makes of them."""
    made = [t for op in ops for t in op.outputs]
    parts = [tensors[t] for t in made if tensors[t].alias_of is None]
    if len(parts) < 2:
        return
    parts = rng.sample(parts, min(len(parts), rng.randint(2, 3)))
    root = len(tensors)
    tensors.append(Tensor(root, sum(t.size for t in parts), Kind.ACTIVATION, f"t{root}"))
    offset = 0
    for t in parts:
        tensors[t.id] = replace(t, alias_of=root, alias_offset=offset)
        offset += t.size
    if root % 4 == 0:
        return  # the root only names memory: readers of the parts are all there is
    ops.append(Op(len(ops), tuple(t.id for t in parts), (root,), f"op{len(ops)}", "Concat"))
    at: int | None = root
    for _ in range(len(tensors)):  # the parts were roots, so no cycle can pass through them; keep it certain
        at = tensors[at].alias_of
        if at is None:
            return
    raise AssertionError("alias cycle")


def _mark_outputs(rng: Random, tensors: list[Tensor], ops: list[Op]) -> list[Tensor]:
    """Most tensors that nobody reads become outputs; some stay dead."""
    read = {t for op in ops for t in op.inputs}
    made = {t for op in ops for t in op.outputs}
    return [replace(t, kind=Kind.OUTPUT) if t.id in made - read and rng.random() < 0.75 else t for t in tensors]


def _finish(rng: Random, tensors: list[Tensor], ops: list[Op]) -> Graph:
    """Fold constants, give ids in no order, and choose an own order, often a bad one."""
    tensor_id = dict(zip(range(len(tensors)), rng.sample(range(3 * len(tensors)), len(tensors)), strict=True))
    op_id = dict(zip(range(len(ops)), rng.sample(range(3 * len(ops)), len(ops)), strict=True))
    tensors = [
        replace(t, id=tensor_id[t.id], alias_of=None if t.alias_of is None else tensor_id[t.alias_of]) for t in tensors
    ]
    ops = [
        replace(
            op,
            id=op_id[op.id],
            inputs=tuple(tensor_id[t] for t in op.inputs),
            outputs=tuple(tensor_id[t] for t in op.outputs),
            after=tuple(op_id[o] for o in op.after),
        )
        for op in ops
    ]
    marked, remaining, folded = fold_constants(tensors, ops)
    digest = hashlib.sha256(repr((marked, remaining, folded)).encode()).hexdigest()
    graph = Graph("random", tuple(marked), tuple(remaining), tuple(folded), "", digest)
    orders = [random_order(rng, graph) for _ in range(rng.choice((0, 1, 8)))]
    if not orders:
        return graph
    if len(orders) == 1:
        return with_own_order(graph, orders[0])
    target = BUILT_IN["generic"]
    memory = work_out(graph, target)
    return with_own_order(graph, max(orders, key=lambda order: peak_of(graph, target, order, memory)))
