"""Honest plans to forge: for each kind of plan a small model, drawn anew for each seed, and the call that plans it.

Where `beside` is there it is another honest plan of the same model, within the same words, that needs less: what it
reaches nobody may call impossible.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

import msgspec
from onnx import ModelProto

import lowtide
from lowtide.analyse.liveness import largest_single_op
from lowtide.analyse.storage import memory_model
from lowtide.errors import InputError
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.plan import Plan
from lowtide.target import resolve
from lowtide.transform.cut import Cutter
from lowtide.transform.parts import apply
from lowtide.transform.rounds import nested
from support.arena_run import AliasNets
from support.costs import costs
from support.cut_rounds import plan_of_rounds
from support.forgeries import by_hand
from support.hand_loops import HAND_LOOPS
from support.norm_nets import NormNet
from support.random_graphs import random_graph
from support.seam_nets import dense_block
from support.section_nets import attention
from support.sequences import costly_graph
from support.small_nets import Nets, pyramid, random_net
from support.spill_plans import skip_graph
from support.steps import random_sibling_step, random_step
from support.tflite_builder import SAME, Net
from support.tflite_nets import graph_with_file
from support.tflite_nets import pyramid as tflite_pyramid
from support.writing_graphs import drawn

SECONDS = 0.3
"""Of a search, of those that would go on; what it finds is honest, however good it is."""


@dataclass(frozen=True)
class Base:
    """An honest plan; `near`: plans of models that differ in a word, with why they are wrong of this one."""

    kind: str
    seed: int
    graph: Graph
    plan: Plan
    beside: Plan | None = None
    near: Sequence[tuple[dict[str, Any], str]] = ()

    @cached_property
    def document(self) -> dict[str, Any]:
        """The plan as JSON; copy before changing it."""
        return msgspec.json.decode(self.plan.to_json())

    @property
    def target(self) -> str:
        """The target that it was made under, as a user would name it."""
        return self.plan.target


def onnx_graph(model: ModelProto) -> Graph:
    """The graph of an ONNX model, its file read whole."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.onnx"
        path.write_bytes(model.SerializeToString())
        return lowtide.load(path)


def _random(seed: int, ops: int = 8, **how: Any) -> Graph:
    graph = random_graph(Random(f"forge {seed}"), ops, **how)
    return graph if graph.ops else _random(seed + 1000, ops, **how)


def _plain(target: str, **how: Any) -> Callable[[int], tuple[Graph, list[dict[str, Any]]]]:
    """The file's own order, beside the best one."""

    def call(seed: int) -> tuple[Graph, list[dict[str, Any]]]:
        return _random(seed, 9, **how), [{"target": target, "method": "own"}, {"target": target}]

    return call


def _best(target: str) -> Callable[[int], tuple[Graph, list[dict[str, Any]]]]:
    return lambda seed: (_random(seed, 12), [{"target": target}])


def _searched(seed: int) -> tuple[Graph, list[dict[str, Any]]]:
    """A bound that rests on a search, mostly."""
    return _random(seed, 16, width=12, plain=True), [{"target": "strict"}]


def _budget(part: float) -> Callable[[int], tuple[Graph, list[dict[str, Any]]]]:
    def call(seed: int) -> tuple[Graph, list[dict[str, Any]]]:
        graph = _random(seed, 9)
        best = lowtide.research.plan(graph, target="strict")
        budget = max(1, int(best.required_bytes * part))
        return graph, [{"target": "strict", "budget": budget, "reserve": 2}, {"target": "strict"}]

    return call


def _over_in_place(seed: int) -> tuple[Graph, list[dict[str, Any]]]:
    """Over a budget that no two tensors fit, with outputs in place."""
    how: dict[str, Any] = {"target": "generic,alignment=1"}
    graphs = (_random(100 * seed + k, 9, in_place=0.9) for k in range(100))
    graph = next(g for g in graphs if lowtide.research.plan(g, **how).in_place)
    return graph, [{**how, "budget": 1}, how]


def _fixed(seed: int) -> tuple[Graph, list[dict[str, Any]]]:
    """A tensor at a place of its own, one that persists."""
    graph = _random(seed, 8, plain=True)
    made = [t.name for t in graph.tensors if t.id in graph.producer and t.size and t.kind is Kind.ACTIVATION]
    how = {"fixed": {made[0]: 64}, "persistent": made[1:2]} if made else {}
    return graph, [{"target": "strict", **how}]


def _banks(seed: int) -> tuple[Graph, list[dict[str, Any]]]:
    graph = _random(seed, 8)
    best = lowtide.research.plan(graph, target="strict").required_bytes
    fast = max(1, best * 2 // 3)
    slow = f"slow={best + 32}" + ("@8" if seed % 2 else "")
    return graph, [{"target": "strict", "banks": [f"fast={fast}", slow]}]


def _small_banks(seed: int) -> tuple[Graph, list[dict[str, Any]]]:
    graph = _random(seed, 8)
    best = lowtide.research.plan(graph, target="strict").required_bytes
    small = [f"fast={max(1, best // 3)}", f"slow={max(1, best // 3)}"]
    large = [f"fast={best}", f"slow={best}"]
    return graph, [{"target": "strict", "banks": small}, {"target": "strict", "banks": large}]


def _odd_banks(seed: int) -> tuple[Graph, list[dict[str, Any]]]:
    """Three tensors at once that would fit two memories if one of them could be divided, and a small one."""
    sizes, last = (1, 6 + seed, 6 + seed, 6 + seed, 6 + seed, 1), 5
    kinds = [Kind.INPUT, *[Kind.ACTIVATION] * 3, Kind.OUTPUT, Kind.OUTPUT]
    tensors = [Tensor(k, size, kinds[k], f"t{k}") for k, size in enumerate(sizes)]
    ops = [Op(k, (0,), (k,), type="Conv") for k in (1, 2, 3)]
    ops += [Op(4, (1, 2, 3), (4,), type="Sum"), Op(last, (0, 4), (last,), type="Conv")]
    graph = Graph("odd", tuple(tensors), tuple(ops), sha256=f"{seed:064x}")
    each = (sum(sizes) - sizes[4]) // 2 + 1
    return graph, [{"target": "generic,alignment=1", "banks": [f"fast={each}", f"slow={each}"]}]


WAYS: tuple[dict[str, Any], ...] = (
    {},
    {"moves": {"outputs_end_fast": "true", "outputs_written_early": "false"}},
    {"moves": {"write_once": "false"}, "target": "generic"},
    {"moves": {"lead": "1"}},
    {"moves": {"inputs_have_copy": "false", "parameters": "true"}},
    {"memories": 2},
)
"""In which plans with moves differ."""


def _spill(seed: int) -> tuple[Graph, list[dict[str, Any]]]:
    """A fast memory between what one op needs and what the best order does: something moves."""
    how = {"target": "strict", "time": SECONDS, **WAYS[seed % len(WAYS)]}
    several = how.pop("memories", 1)
    for k in range(200):
        graph = _random(1000 * seed + k, 9, aliases=0.05)
        model = memory_model(graph, resolve(how["target"]))
        single, best = largest_single_op(model), lowtide.research.plan(graph, target=how["target"]).peak_bytes
        fast = (single + best) // 2
        if fast < best and (how["target"] == "strict" or fast > single):
            memories = [f"fast={fast + (63 if how['target'] == 'generic' else 0)}", f"mid={best}"][:several]
            call = {**how, "memories": memories}
            try:
                if lowtide.research.plan(graph, **call).moves:
                    return graph, [{**call, "method": "belady"} if seed % 2 and "moves" not in how else call, call]
            except InputError:
                continue
    graph = skip_graph()
    return graph, [{"target": "strict", "memories": ["fast=10"]}]


def _spill_more(seed: int) -> tuple[Graph, list[dict[str, Any]]]:
    """Moves beside others that carry less, under each way of counting that knows no special case."""
    for k in range(200):
        graph = _random(5000 + 1000 * seed + k, 9, aliases=0.05)
        single = largest_single_op(memory_model(graph, resolve("strict")))
        best = lowtide.research.plan(graph, target="strict").peak_bytes
        how: dict[str, Any] = {"target": "strict", "time": SECONDS, "memories": [f"fast={(single + best) // 2}"]}
        if (single + best) // 2 < best:
            worse, better = lowtide.research.plan(graph, method="belady", **how), lowtide.research.plan(graph, **how)
            if (worse.traffic_bytes or 0) > (better.traffic_bytes or 0):
                return graph, [{**how, "method": "belady"}, how]
    raise AssertionError("no such graph")


def _spill_in_place(seed: int) -> tuple[Graph, list[dict[str, Any]]]:
    """Something moves, an op writes in place, another one has a workspace, and offsets are aligned."""
    for k in range(200):
        graph = _random(70009 + 1000 * seed + k, 9, aliases=0.05)
        how: dict[str, Any] = {"target": "generic,alignment=16", "time": SECONDS}
        model = memory_model(graph, resolve(how["target"]))
        fast = (largest_single_op(model) + lowtide.research.plan(graph, target=how["target"]).peak_bytes) // 2
        try:
            plan = lowtide.research.plan(graph, memories=[f"fast={fast}"], **how)
        except InputError:
            continue
        if plan.moves and plan.in_place and plan.workspace_offsets:
            return graph, [{**how, "memories": [f"fast={fast}"]}]
    raise AssertionError("no such graph")


def _spill_back(**moves: str) -> Callable[[int], tuple[Graph, list[dict[str, Any]]]]:
    """An output leaves for a large tensor, as these rules say of it."""

    def call(seed: int) -> tuple[Graph, list[dict[str, Any]]]:
        return _leaving(seed), [{"target": "strict", "memories": [f"fast={14 + 2 * seed}"], "moves": moves}]

    return call


def _leaving(seed: int) -> Graph:
    kinds = (Kind.INPUT, Kind.OUTPUT, Kind.ACTIVATION, Kind.ACTIVATION, Kind.OUTPUT)
    tensors = [Tensor(k, size, kinds[k], f"t{k}") for k, size in enumerate((2, 6 + seed, 8 + seed, 5, 1))]
    ops = [Op(k, (k,), (k + 1,)) for k in range(4)]
    return Graph("leaving", tuple(tensors), tuple(ops), sha256=f"{seed:064x}")


def _wide(seed: int) -> Graph:
    """A net that is worth cutting."""
    if not seed:
        return onnx_graph(pyramid().model())
    for k in range(40):
        graph = onnx_graph(random_net(Random(f"{seed} {k}").choice, 7))
        if max(t.size for t in graph.tensors) > 4 * max(t.size for t in graph.tensors if t.kind is Kind.OUTPUT):
            return graph
    return onnx_graph(pyramid().model())


def _cut(words: str, target: str = "generic", **how: Any) -> Callable[[int], tuple[Graph, list[dict[str, Any]]]]:
    """Uncut, as a budget leaves it, and cut as far as it goes; the latter is forged."""

    def call(seed: int) -> tuple[Graph, list[dict[str, Any]]]:
        return _wide(seed), [{"target": target, "allow": words, "time": SECONDS, **how}]

    return call


def _uncut(words: str) -> Callable[[int], tuple[Graph, list[dict[str, Any]]]]:
    def call(seed: int) -> tuple[Graph, list[dict[str, Any]]]:
        how = {"target": "strict", "allow": words, "time": SECONDS}
        return _wide(seed), [{**how, "budget": "64MiB"}, how]

    return call


def _cut_spill(seed: int) -> tuple[Graph, list[dict[str, Any]]]:
    graph = onnx_graph(pyramid().model())
    fast = (2048, 3000, 2500)[seed % 3]
    return graph, [{"target": "strict", "allow": "tile", "memories": {"fast": fast}, "time": 10 * SECONDS}]


def _passes(seed: int) -> tuple[Graph, list[dict[str, Any]]]:
    """A norm and a mean as sums, and ops that run again, between images that are larger than what comes and goes."""
    net = NormNet(lambda options: options[0], width=4, side=16, opset=(20, 17, 21)[seed % 3])
    net.stretch()
    net.stretch()
    for kind in (("groups", "channels"), ("channels", "mean"), ("op", "pool"))[seed % 3]:
        net.block(kind, residual=False)
    net.shrink()
    how = {"target": "generic", "allow": "tile,recompute", "max_overhead": 2, "time": 6 * SECONDS}
    return onnx_graph(net.model()), [how]


def _seams(words: str) -> Callable[[int], tuple[Graph, list[dict[str, Any]]]]:
    return lambda seed: (onnx_graph(dense_block().model()), [{"target": "generic", "allow": words, "time": SECONDS}])


def _sections(seed: int) -> tuple[Graph, list[dict[str, Any]]]:
    heads = (2, 4, 8)[seed % 3]
    way = ("swin", "slice", "swin", "split", "columns", "chunks", "gather", "heads")[seed % 8]
    net = attention(tokens=16, width=32, heads=heads, way=way).model()
    return onnx_graph(net), [{"target": "generic", "allow": "tile", "time": SECONDS}]


def _aliases(
    words: str, target: str = "generic", outer: int = 1
) -> Callable[[int], tuple[Graph, list[dict[str, Any]]]]:
    def call(seed: int) -> tuple[Graph, list[dict[str, Any]]]:
        graph = onnx_graph(AliasNets(Random(12 + seed).choice, outer).build(9))
        return graph, [{"target": target, "allow": words, "time": SECONDS}]

    return call


def _dead_ends(seed: int) -> tuple[Graph, list[dict[str, Any]]]:
    """An op whose result nobody reads, of blocks of rows; and a constant of one number."""
    net = Nets(Random(seed).choice)
    x = net.input((1, 4, 4, 4 + seed))
    (wide,) = net.node("Concat", [x] * 4, axis=1)
    net.node("DepthToSpace", [x], blocksize=2)
    (last,) = net.node("Relu", [wide])
    graph = onnx_graph(net.model([last]))
    inside = tuple(replace(t, kind=Kind.ACTIVATION) if t.name in net.shapes and t.name != last and t.name != x else t
                   for t in graph.tensors)  # fmt: skip
    one = Tensor(80, 4, Kind.CONSTANT, "one", (), "float32")
    return replace(graph, tensors=(*inside, one)), [{"target": "strict", "method": "own"}]


def _writes(seed: int) -> tuple[Graph, list[dict[str, Any]]]:
    """Ops that write over what others read."""
    draws = (drawn(Random(1000 * seed + k)) for k in range(1000))
    graph = next(graph for graph in draws if sum(bool(op.writes) for op in graph.ops) > 1 and len(graph.ops) > 4)
    if seed % 3 == 2:  # two that write, of which nobody reads
        tensors = (Tensor(0, 4, Kind.INPUT, "x"), Tensor(1, 4, Kind.OUTPUT, "kept"), Tensor(2, 4, alias_of=1))
        ops = (Op(0, (0,), (1,)), Op(1, (0,), (2,), writes=None), Op(2, (0,), (3,), writes=None))
        graph = Graph("two", (*tensors, Tensor(3, 4, alias_of=1)), ops)
    return replace(graph, sha256=f"{seed:064x}"), [{"target": "strict"}]


def _again(part: float, **how: Any) -> Callable[[int], tuple[Graph, list[dict[str, Any]]]]:
    """Ops that run again: within a budget, beside one that is large."""

    def call(seed: int) -> tuple[Graph, list[dict[str, Any]]]:
        graph = replace(costly_graph(Random(f"again {seed}"), 9), sha256=f"{seed:064x}")
        peak = lowtide.research.plan(graph, target="strict").peak_bytes
        common = {"target": "strict", "time": SECONDS, "allow": "recompute"}
        tight = {**common, "budget": max(1, int(peak * part)), **how}
        loose = {**common, "budget": 64 * peak}
        return graph, [loose, tight] if part < 0.9 and seed % 2 else [tight]

    return call


def _within(seed: int) -> tuple[Graph, list[dict[str, Any]]]:
    graph = replace(costly_graph(Random(f"again {seed}"), 9), sha256=f"{seed:064x}")
    return graph, [{"target": "strict", "time": SECONDS, "allow": "recompute", "max_overhead": (0.1, 0.5)[seed % 2]}]


def _swap(words: str) -> Callable[[int], tuple[Graph, list[dict[str, Any]]]]:
    def call(seed: int) -> tuple[Graph, list[dict[str, Any]]]:
        return random_step(7 + seed, batch=6), [{"allow": words, "budget": ("80%", "95%")[seed % 2], "time": SECONDS}]

    return call


def _step(**how: Any) -> Callable[[int], tuple[Graph, list[dict[str, Any]]]]:
    def call(seed: int) -> tuple[Graph, list[dict[str, Any]]]:
        graph = random_sibling_step(3 + 2 * seed) if "merge" in how["allow"] else random_step(7 + seed, batch=6)
        return graph, [{"time": SECONDS, **how}]

    return call


_MICRO = {"allow": "recompute,tile", "method": "microbatch", "options": {"parts": "3"}, "max_overhead": 900}


def _loops(**how: Any) -> Callable[[int], tuple[Graph, list[dict[str, Any]]]]:
    def call(seed: int) -> tuple[Graph, list[dict[str, Any]]]:
        net, height = Net(), (24, 16, 20)[seed % 3]
        x = net.tensor((1, height, 16, 3))
        a = net.conv(x, 8, (3, 3), (1, 1), SAME)
        b = net.conv(a, 1, (3, 3), (1, 1), SAME, depthwise=True)
        c = net.add(a, net.conv(b, 8, (1, 1)))
        d = net.conv(c, 4, (3, 3), (2, 2), SAME)
        e = net.conv(d, 32, (1, 1))
        f = net.pool(e, "AVERAGE_POOL_2D", (net.shape(e)[1], net.shape(e)[2]), (1, 1))
        net.ends([x], [net.reshape(f, (1, 32))])
        graph = graph_with_file(net.bytes())
        common = {"target": "loops", "allow": "row-streaming", "time": 30}
        return graph, [{**common, **how}]

    return call


def _around(flaw: str) -> Callable[[int], tuple[Graph, list[dict[str, Any]]]]:
    """Without a loop, which would be wrong."""

    def call(seed: int) -> tuple[Graph, list[dict[str, Any]]]:
        loop = HAND_LOOPS[flaw]()
        return loop.graph, [{"target": loop.target, "method": "own"}]

    return call


def _tflite(target: str, **how: Any) -> Callable[[int], tuple[Graph, list[dict[str, Any]]]]:
    def call(seed: int) -> tuple[Graph, list[dict[str, Any]]]:
        return graph_with_file(tflite_pyramid().bytes()), [{"target": target, "time": SECONDS, **how}]

    return call


def _rounds_by_hand(seed: int) -> tuple[Graph, list[Plan]]:
    """Rows of all ops, then channels of the first part: two rounds, which a search seldom needs on so small a net."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.onnx"
        path.write_bytes(pyramid().model().SerializeToString())
        graph = lowtide.load(path)
        cutter = Cutter(graph)
        some = graph.own_order[: len(graph.own_order) - seed % 2]
        axes = cutter.grow(some, graph.own_order[1], 2)
        assert axes is not None, seed
        first = apply(cutter, [cutter.region(graph.own_order, axes, 3 + seed % 3)])
        again, conv = Cutter(first.graph), next(op.id for op in first.graph.ops if op.type == "Conv")
        channels = again.grow([conv], conv, 1)
        assert channels is not None, seed
        parts = nested(first, apply(again, [again.region(first.graph.own_order, channels, 3)]))
        return graph, [plan_of_rounds(path, parts, "generic")]


Drawn = tuple[Graph, Sequence[dict[str, Any] | Plan]] | tuple[Graph, Sequence[Plan], by_hand.Near]
HAND = "no loop "

KINDS: Mapping[str, Callable[[int], Drawn]] = {
    "own order": _plain("strict"),
    "own order, plain": _plain("strict", plain=True),
    "own order, in place": _plain("generic"),
    "own order, hmcos": _plain("hmcos"),
    "best": _best("strict"),
    "best, in place": _best("generic"),
    "searched": _searched,
    "within a budget": _budget(1.5),
    "over budget": _budget(0.8),
    "over budget, in place": _over_in_place,
    "fixed": _fixed,
    "banks": _banks,
    "small banks": _small_banks,
    "odd banks": _odd_banks,
    "spill": _spill,
    "spill, and more than need be": _spill_more,
    "spill, in place": _spill_in_place,
    "spill, and back": _spill_back(outputs_end_fast="true", lead="1"),
    "spill, outputs late": _spill_back(outputs_written_early="false"),
    "spill, two memories": lambda seed: _spill(len(WAYS) * seed + 5),
    "cut": _cut("tile", "strict"),
    "cut, in place": _cut("tile"),
    "cut, over a part": _cut("tile", "generic,overlap=in_place"),
    "uncut": _uncut("tile"),
    "halos": _cut("tile,recompute-halos"),
    "rounds": _cut("tile,nest-tiles"),
    "rounds by hand": _rounds_by_hand,
    "cost": _cut("tile", cost=costs([])),
    "cut and spill": _cut_spill,
    "passes": _passes,
    "seams": _seams("concat"),
    "accumulate": _seams("concat,accumulate"),
    "sections": _sections,
    "aliases": _aliases("alias"),
    "aliases, row by row": _aliases("alias", "generic,pieces=strided", 2),
    "aliases and cuts": _aliases("alias,tile"),
    "writes": _writes,
    "dead ends": _dead_ends,
    "again": _again(0.8),
    "again, a little": _again(0.95),
    "again, cost": _within,
    "again and again": _again(0.7, max_overhead=5),
    "swap": _swap("offload"),
    "swap and again": _swap("recompute,offload"),
    "microbatch": _step(**_MICRO),
    "step": _step(allow="recompute,tile", max_overhead=2),
    "merge": _step(allow="recompute,tile,merge", max_overhead=2),
    **by_hand.KINDS,
    "loops": _loops(),
    "loops, streamed": _loops(stream_input=True),
    "onnxruntime": lambda seed: (_wide(seed), [{"target": "onnxruntime"}]),
    "tflm": _tflite("tflm"),
    "tflm, reference kernels": _tflite("tflm,kernels=reference"),
    "tflm, cut": _tflite("tflm", allow="tile"),
    "tflm, budget": _tflite("tflm", budget="20KiB", reserve=64),
    "tflm, arenas": _tflite("tflm", banks=["fast=48KiB", "slow=128KiB"]),
    "tflite": _tflite("tflite"),
    **{f"{HAND}{flaw}": _around(flaw) for flaw in HAND_LOOPS},
}
"""By kind a model of a seed, and the calls: what is forged is the plan of the first; the second may be beside it."""


def base(kind: str, seed: int) -> Base | None:
    """The honest plan of a kind for a seed; None if the call is refused for this draw."""
    graph, calls, *near = KINDS[kind](seed)
    try:
        plans = [how if isinstance(how, Plan) else lowtide.research.plan(graph, **how) for how in calls]
    except InputError:
        return None
    return Base(kind, seed, graph, plans[0], plans[1] if len(plans) > 1 else None, *near)
