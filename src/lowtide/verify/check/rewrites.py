"""The graph that a plan with rewrites speaks of, rebuilt from the user's graph and checked on the way.

Rounds of cuts: each is of the graph that the one before gave, and is checked as if that were the user's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from msgspec import structs

from lowtide.errors import VerificationError
from lowtide.graph import Graph, Kind, Op
from lowtide.ops.kinds import names_only
from lowtide.plan import Plan
from lowtide.rewrites import ConcatElimination, CutRegion, Recompute, Replaced, Sections, Split, Sums, Swap, TensorAlias
from lowtide.target import Target
from lowtide.verify.check.aliases import aliased, has_aliases
from lowtide.verify.check.loops import looped
from lowtide.verify.check.part_rows import fail
from lowtide.verify.check.parts import has_cuts, parted
from lowtide.verify.check.replaced_ops import origins
from lowtide.verify.check.sums import with_sums
from lowtide.verify.check.swaps import reading, swaps_of, with_loads, with_stores


def rewritten(graph: Graph, plan: Plan, target: Target) -> Graph:
    """The graph with the plan's recomputed ops, tiles, loops and aliases. Raises `VerificationError`: ``rewrites``,
    ``parts``: as `with_ops`. ``aliases``: as `lowtide.verify.check.aliases.aliased`."""
    changed = with_ops(graph, plan)
    return aliased(changed, plan, target) if has_aliases(plan) else changed


_CUTS = {"tile", "recompute-halos", "unmaterialised", "nest-tiles", "concat", "accumulate"}
_WORDS = {Recompute: {"recompute"}, Sums: {"recompute"}, Swap: {"offload"}, TensorAlias: {"alias"}}
"""The words that allow a change; any other one is a cut."""


def check_allowed(plan: Plan) -> None:
    """See that a plan changes nothing but what it says it may. Raises `VerificationError`: ``rewrites``: a change that
    the plan's words do not allow."""
    words = set(plan.allow or ())
    for r in plan.all_rewrites:
        rematerialised = isinstance(r, Recompute) and plan.spilling is not None and plan.spilling.rematerialise
        if not rematerialised and words.isdisjoint(_WORDS.get(type(r), _CUTS)):
            raise VerificationError("rewrites", f"the plan may change {sorted(words) or 'nothing'}, and does more")
    if (plan.loops and "row-streaming" not in words) or (plan.rounds and "nest-tiles" not in words):
        raise VerificationError("rewrites", f"the plan may change {sorted(words) or 'nothing'}, and does more")


def with_ops(graph: Graph, plan: Plan) -> Graph:
    """The graph with the plan's ops, each tensor where it was. Raises `VerificationError`: ``rewrites``: a clone of
    nothing, of another op than `ops` says, with outputs of other sizes, for an op that does not read what it
    replaces, or of an op that may give something else the second time. ``parts``: as
    `lowtide.verify.check.parts.parted`. ``loops``: as `lowtide.verify.check.loops.looped`."""
    if plan.loops:
        return looped(graph, plan)
    clones = [r for r in plan.rewrites or () if isinstance(r, Recompute)]
    changed = bool(clones or swaps_of(plan))
    listed = {op.id: op.recompute_of for op in plan.ops if op.recompute_of is not None}
    runs = {op.id for op in plan.ops} if has_cuts(plan) else {r.op for r in clones}
    if listed != {r.op: r.of for r in clones if r.op in runs}:
        raise VerificationError("rewrites", "the ops and the rewrites name different ops that are recomputed")
    if has_aliases(plan) and changed and not has_cuts(plan):
        raise VerificationError("rewrites", "tensors are allocated in others in a plan that recomputes ops")
    if has_cuts(plan):
        if swaps_of(plan):
            raise VerificationError("rewrites", "tensors are offloaded in a plan with tiles")
        return parted(*rounds_of(graph, plan, before_cuts)[-1])
    if plan.rounds:
        raise VerificationError("parts", "there are rounds in a plan without tiles")
    user = graph
    graph = _with_clones(graph, clones, plan) if changed else graph
    aliases = changed and any(t.alias_of is not None for t in user.tensors)
    return _with_views(user, graph, origins(plan)) if aliases else graph


def before_cuts(graph: Graph, plan: Plan) -> Graph:
    """The graph that a plan cuts: the user's, with products by sections, norms and means as sums, and recomputed ops.
    Raises `VerificationError`: ``rewrites``: as `with_ops`, `lowtide.verify.check.sections.with_sections`, and
    `lowtide.verify.check.sums.with_sums`."""
    clones = [r for r in plan.rewrites or () if isinstance(r, Recompute)]
    if any(isinstance(r, Sections) for r in plan.rewrites or ()):
        from lowtide.verify.check.sections import with_sections  # it loads numpy, which is slow to load

        graph = with_sections(graph, plan)
    graph = with_sums(graph, plan)
    if clones and any(t.alias_of is not None for t in graph.tensors):
        raise VerificationError(
            "rewrites", "ops are recomputed in a plan with tiles, and tensors are allocated in others"
        )
    return _with_clones(graph, clones, plan) if clones else graph


def check_clones_exactness(graph: Graph, plan: Plan) -> None:
    """A plan that recomputes ops, and cuts none, promises ``kernel`` where a second run may round otherwise: where a
    tensor that the op reads or makes has half precision, and the file is ONNX. Raises ``rewrites`` if it does not."""
    recomputed = {r.of for r in plan.rewrites or () if isinstance(r, Recompute)}
    if not recomputed or has_cuts(plan) or has_aliases(plan) or plan.fission is not None:
        return
    tensors = {t.id: t.dtype for t in graph.tensors}
    touched = {tensors[t] for op in graph.ops if op.id in recomputed for t in (*op.inputs, *op.outputs)}
    half = graph.dialect == "onnx" and bool(touched & {"float16", "bfloat16"})
    if plan.exactness != ("kernel" if half else None):
        why = "recomputed ops of half precision round as others do" if half else "recomputed ops give the same bits"
        raise VerificationError("rewrites", f"the plan promises {plan.exactness!r}, but {why}")


def _with_clones(graph: Graph, clones: Sequence[Recompute], plan: Plan) -> Graph:
    """The graph with these ops more, one after the other; it is put together once, at the end."""
    names, op_names = {t.id: t.name for t in plan.tensors}, {op.id: op.name for op in plan.ops}
    ops, tensors = {op.id: op for op in graph.ops}, {t.id: t for t in graph.tensors}
    behind: dict[int, list[int]] = {}
    origin: dict[int, int] = {}
    swaps, users = swaps_of(plan), {}
    with_stores(graph, swaps, ops, op_names)
    for r in clones:
        original = ops.get(r.of)
        if original is None or r.op in ops or len(r.outputs) != len(original.outputs):
            raise VerificationError("rewrites", f"op {r.op} cannot be a recomputation of op {r.of}")
        replaced = [Replaced(tensor=r.replaced, readers=r.readers), *r.more]
        fresh = set(r.outputs)
        if len(fresh) < len(r.outputs) or fresh & set(tensors) or len({x.tensor for x in replaced}) != len(replaced):
            raise VerificationError("rewrites", f"op {r.op} cannot make tensor {r.replaced} once more")
        origin[r.op] = origin.get(r.of, r.of)
        reason = why_not_recomputed(graph, graph.op_by_id[origin[r.op]])
        if reason is not None:
            raise VerificationError("rewrites", reason)
        pairs = dict(zip(original.outputs, r.outputs, strict=True))
        users |= {new: users.get(t, t) for t, new in pairs.items()}
        for reader, instead in _instead(r, replaced, pairs, ops).items():
            ops[reader] = reading(ops[reader], instead)
        tensors |= {
            new: replace(tensors[t], id=new, kind=Kind.ACTIVATION, name=names.get(new, "")) for t, new in pairs.items()
        }
        ops[r.op] = replace(ops[r.of], id=r.op, name=op_names.get(r.op, ""), outputs=tuple(pairs.values()))
        behind.setdefault(r.of, []).insert(0, r.op)
    with_loads(swaps, ops, tensors, op_names, names, users)
    for s in swaps:
        behind.setdefault(graph.producer[s.tensor], []).extend([s.store, *(load.op for load in s.loads)])
    order: list[Op] = []
    left = [op.id for op in reversed(graph.ops)]
    while left:
        order.append(ops[left.pop()])
        left.extend(reversed(behind.get(order[-1].id, ())))
    return replace(graph, tensors=tuple(tensors.values()), ops=tuple(order))


def _instead(
    r: Recompute, replaced: Sequence[Replaced], pairs: Mapping[int, int], ops: Mapping[int, Op]
) -> dict[int, dict[int, int]]:
    """Per reader, what it reads of the clone in the place of what."""
    instead: dict[int, dict[int, int]] = {}
    for x in replaced:
        if x.tensor not in pairs:
            raise VerificationError("rewrites", f"op {r.op} cannot make tensor {x.tensor} once more")
        if len(set(x.readers)) != len(x.readers) or not set(x.readers) <= set(ops):
            raise VerificationError("rewrites", f"op {r.op} is for readers that are not there")
        for reader in x.readers:
            if x.tensor not in ops[reader].inputs:
                raise VerificationError("rewrites", f"op {reader} does not read tensor {x.tensor}")
            instead.setdefault(reader, {})[x.tensor] = pairs[x.tensor]
    return instead


def _with_views(user: Graph, graph: Graph, of: Mapping[int, int]) -> Graph:
    """The graph with what views make in the memory of what they now read; `of`: recomputed op to its origin."""
    above = {t.id: t.alias_of for t in graph.tensors}
    user_above = {t.id: t.alias_of for t in user.tensors}
    for op in graph.ops:
        if not op.inputs or not op.outputs:
            continue
        original = user.op_by_id[of.get(op.id, op.id)]
        chain = _chain(user_above, original.inputs[0])
        for t, former in zip(op.outputs, original.outputs, strict=True):
            if (source := user_above[former]) in chain:
                above[t] = _chain(above, op.inputs[0])[chain.index(source)]
    return replace(graph, tensors=tuple(replace(t, alias_of=above[t.id]) for t in graph.tensors))


def _chain(above: Mapping[int, int | None], tensor: int) -> list[int]:
    """A tensor, the one that it is an alias of, and so on."""
    chain = [tensor]
    while (up := above[chain[-1]]) is not None:
        chain.append(up)
    return chain


def why_not_recomputed(graph: Graph, op: Op) -> str | None:
    """None if the op, whenever it runs, reads the same and makes the same, in memory of its own; else the reason."""
    if op.attributes.get("random"):
        return f"{op.label} makes something else on every run"
    if not names_only(op.type) and any(graph.tensor_by_id[t].alias_of is not None for t in op.outputs):
        return f"{op.label} writes into the memory of another tensor"
    if all(t.alias_of is None for t in graph.tensors):
        return None
    above = {t.id: t.alias_of for t in graph.tensors}
    read = [_chain(above, t) for t in op.inputs]
    memory, named = {chain[-1] for chain in read}, {t for chain in read for t in chain}
    for other in graph.ops:
        written = [t for t in other.outputs if _chain(above, t)[-1] in memory]
        if names_only(other.type):  # what it makes is there already, unless it is all of it
            written = [t for t in written if above[t] is None]
        came_first = graph.index_of[other.id] < graph.index_of[op.id] and not named.isdisjoint(other.outputs)
        if written and not came_first:
            return f"{other.label} writes over what {op.label} reads"
    return None


Before = Callable[[Graph, Plan], Graph]  # the graph that a plan cuts, of the one that it speaks of

_TILES = CutRegion | ConcatElimination | Split
_BEFORE_TILES = Sections | Sums | Recompute
"""Changes of a graph before it is tiled: only the first round may have them."""


def rounds_of(graph: Graph, plan: Plan, before_cuts: Before) -> list[tuple[Graph, Plan]]:
    """The plan's cuts, round by round: the graph that each cuts, and what is said of it. Raises `VerificationError`:
    ``parts``: as `lowtide.verify.check.parts.parted`, or a round that cuts nothing, or does more than cut."""
    result = []
    for k, listed in enumerate(plan.rounds or ()):
        one = structs.replace(
            plan, ops=listed.ops, tensors=listed.tensors, order=listed.order, rewrites=listed.rewrites, rounds=None
        )  # fmt: skip
        known = _TILES | _BEFORE_TILES if k == 0 else _TILES
        if not has_cuts(one) or not all(isinstance(r, known) for r in listed.rewrites):
            raise fail(f"round {k + 1} does something else than tile")
        cut = before_cuts(graph, one)
        for t in listed.tensors:
            own = cut.tensor_by_id.get(t.id)
            if own is not None and (t.name, t.size, t.kind) != (own.name, own.size, own.kind.value):
                raise fail(f"round {k + 1} has another tensor {t.id} than the graph that it tiles")
        result.append((cut, one))
        graph = parted(cut, one)
    last = structs.replace(plan, rounds=None)
    if result and any(isinstance(r, _BEFORE_TILES) for r in plan.rewrites or ()):
        raise fail("before nested tiles only the first round may change the graph")
    result.append((before_cuts(graph, last), last))
    for cut, one in result:
        _check_split(cut, one)
    return result


def _check_split(graph: Graph, plan: Plan) -> None:
    """``parts``: the tensors which a plan says are not materialised are cut, and no op makes them."""
    rewrites, listed = plan.rewrites or (), {t.id for t in plan.tensors}
    cut = {c.op for r in rewrites if isinstance(r, CutRegion | ConcatElimination) for c in r.ops}
    for t in (t for r in rewrites if isinstance(r, Split) for t in r.tensors):
        if graph.producer.get(t) not in cut or t in listed:
            raise fail(f"tensor {t} is listed as unmaterialised, and is materialised")
