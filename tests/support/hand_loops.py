"""Plans with one loop around all ops of a small graph, written by hand: each holds but for one flaw.

A flaw of the graph is one that a planner would see: the plan is that of the same graph without it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import msgspec

import lowtide
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.sizes import round_up
from lowtide.target import resolve

LOOP = 90
"""Id of the op that stands for the loop."""

_BYTES = {"float32": 4, "float16": 2, "bool": 1}


@dataclass(frozen=True)
class HandLoop:
    """A graph and a loop around it; with `flawless`, the graph of which the loop could be."""

    graph: Graph
    loop: dict[str, Any]
    exact: str = "kernel"
    target: str = "loops"
    flawless: Graph | None = None
    keys: Mapping[str, Any] = field(default_factory=dict)
    failure: str = "loops"

    def document(self, graph: Graph | None = None) -> dict[str, Any]:
        """The plan, of the graph or of another one."""
        graph = graph or self.graph
        unit = resolve(self.target).alignment
        own = msgspec.json.decode(lowtide.research.plan(graph, target=self.target, method="own").to_json())
        loop = copy.deepcopy({"op": LOOP, "parts": 1, "merge": {}, **self.loop})
        aliases = {t.id: t.alias_of for t in graph.tensors}
        inside = {int(key) for key in (*loop.get("keep", {}), *loop.get("streamed", {}))}
        tensors = [t | {"alias_of": aliases[t["id"]]} for t in own["tensors"] if t["id"] not in inside]
        for t in tensors:
            if t["alias_of"] is None:
                del t["alias_of"]
        offsets, end, total = {}, 0, 0
        for t in (t for t in tensors if t["kind"] != "constant"):
            offsets[str(t["id"])] = end
            end, total = round_up(end + t["size"], unit), total + t["size"]
        kept = self._kept(unit)
        for inner in (*loop.get("keep", {}).values(), *loop.get("sums", {}).values()):
            inner["offset"] = end + inner.pop("at", 0)
        saved = [min(graph.tensor_by_id[t].size for t in (int(key), loop["over"])) - d
                 for key, d in loop.get("behind", {}).items() if loop.get("over") is not None]  # fmt: skip
        arena = round_up(end + kept, unit)
        gone = ("profile", "runtime_figures", "rules", "search", "arena_lower_bound_bytes", "arena_optimal",
                "workspace_offsets", "runtime_arena_bytes")  # fmt: skip
        said = {
            "version": 2,
            "ops": [{"id": LOOP, "name": "", "type": "RowLoop", "origin": loop["ops"]}],
            "tensors": tensors,
            "order": [LOOP],
            "peak_bytes": total + kept - sum(saved),
            "lower_bound_bytes": 0,
            "optimal": False,
            "certificate": {"kind": "none"},
            "in_place": [],
            "required_bytes": arena,
            "arena_bytes": arena,
            "offsets": offsets,
            "loops": [loop],
            "exactness": self.exact,
            "allow": ["row-streaming"],
            "proved_over": "orders",
        }
        works = {"workspace_offsets": {str(LOOP): end}} if kept else {}
        return {k: v for k, v in own.items() if k not in gone} | said | works | dict(self.keys)

    def _kept(self, unit: int) -> int:
        """Bytes of rings and accumulators."""
        if "kept_bytes" in self.loop:
            return self.loop["kept_bytes"]
        rings = [r["slots"] * r["bytes"] for r in self.loop.get("keep", {}).values()]
        return sum(round_up(n, unit) for n in (*rings, *(s["bytes"] for s in self.loop.get("sums", {}).values())))


def _graph(texts: list[str], shapes: list[tuple[int, ...]], dtype: str = "float32") -> Graph:
    """A chain of ops with these labels, of an input and results of these shapes."""
    last = len(shapes) - 1
    kinds = [Kind.INPUT, *[Kind.ACTIVATION] * (last - 1), Kind.OUTPUT]
    tensors = [
        Tensor(k, prod(shape) * _BYTES[dtype], kinds[k], f"t{k}", shape, dtype) for k, shape in enumerate(shapes)
    ]
    ops = [Op(k, (k,), (k + 1,), type="any", attributes={"labels": text}) for k, text in enumerate(texts)]
    return Graph("chain", tuple(tensors), tuple(ops), sha256="1" * 64, dialect="labels")


def _chain(many: int = 2) -> Graph:
    return _graph(["h w -> h w"] * many, [(8, 4)] * (many + 1))


def _ring(k: int, bytes_: int = 16, at: int = 0) -> dict[str, Any]:
    return {"name": f"t{k}", "slots": 1, "bytes": bytes_, "at": at}


def _rows(many: int = 2, **keys: Any) -> dict[str, Any]:
    """The loop over the rows of such a chain."""
    along, axis = {str(k): [0] for k in range(many)}, {str(k): [0] for k in range(1, many + 1)}
    keep = {str(k): _ring(k, at=16 * (k - 1)) for k in range(1, many)}
    merge = {str(many): "concat"}
    return {"ops": list(range(many)), "along": along, "axis": axis, "parts": 8, "merge": merge, "keep": keep} | keys


def _changed(graph: Graph, op: int, **how: Any) -> Graph:
    return replace(graph, ops=tuple(replace(o, **how) if o.id == op else o for o in graph.ops))


def _typed(graph: Graph, tensor: int, **how: Any) -> Graph:
    return replace(graph, tensors=tuple(replace(t, **how) if t.id == tensor else t for t in graph.tensors))


def _flaw(**how: Any) -> Callable[[], HandLoop]:
    """An op that cannot run in tiles, for a reason that its labels do not show."""
    return lambda: HandLoop(_changed(_chain(), 0, **how), _rows(), flawless=_chain())


def _no_dialect() -> HandLoop:
    return HandLoop(replace(_chain(), dialect=""), _rows(), flawless=_chain())


def _after() -> HandLoop:
    return HandLoop(_changed(_chain(), 1, after=(0,)), _rows(), flawless=_chain())


def _written_over() -> HandLoop:
    one = _graph(["h w -> h w"], [(8, 4)] * 2)
    plain = replace(_changed(one, 0, type="aten.square.default"), dialect="aten")
    return HandLoop(_changed(plain, 0, type="aten.square_.default"), _rows(1), "bits", flawless=plain)


def _alias() -> HandLoop:
    return HandLoop(_typed(_chain(3), 2, alias_of=1), _rows(3), flawless=_chain(3))


def _sum(dtype: str = "float16", **keys: Any) -> dict[str, Any]:
    """The loop over the rows of a result that is summed over them."""
    return {"ops": [0], "along": {"0": [1]}, "axis": {}, "parts": 8, "merge": {"1": "sum"}} | keys


def _no_numbers() -> HandLoop:
    graph = _graph(["h w -> w"], [(8, 4), (4,)])
    strange = _typed(_typed(graph, 1, dtype="bool"), 0, dtype="bool")
    plain = _typed(_typed(graph, 1, dtype="int32"), 0, dtype="int32")
    return HandLoop(strange, _sum(), "bits", flawless=plain)


def _no_accumulators() -> HandLoop:
    return HandLoop(_graph(["h w -> w"], [(8, 4), (4,)], "float16"), _sum(kept_bytes=16), "sum")


def _accumulators_on_a_ring() -> HandLoop:
    graph = _graph(["h w -> h w", "h w -> w"], [(8, 4), (8, 4), (4,)], "float16")
    loop = {"ops": [0, 1], "along": {"0": [0], "1": [1]}, "axis": {"1": [0]}, "parts": 8, "merge": {"2": "sum"}}
    more = {"keep": {"1": _ring(1, 8)}, "sums": {"2": {"bytes": 16, "at": 0}}, "kept_bytes": 32}
    return HandLoop(graph, loop | more, "sum")


def _sums_of_one_axis() -> HandLoop:
    graph = _graph(["h w -> h w", "h w -> w"], [(8, 4), (8, 4), (4,)])
    along, axis = {"0": [0, 1], "1": [1, 0]}, {"1": [0, 1]}
    loop = {"ops": [0, 1], "along": along, "axis": axis, "parts": 32, "merge": {"2": "sum"}}
    return HandLoop(graph, loop | {"keep": {"1": _ring(1, 4)}}, "sum")


def _groups_left_over() -> HandLoop:
    """Two groups of seven channels: positions of three channels, which are six."""
    x, y = (
        Tensor(0, 112, Kind.INPUT, "t0", (1, 7, 4), "float32"),
        Tensor(1, 112, Kind.OUTPUT, "t1", (1, 7, 4), "float32"),
    )
    beside = [Tensor(k, 28, Kind.CONSTANT, f"c{k}", (7,), "float32") for k in (2, 3)]
    op = Op(0, (0, 2, 3), (1,), type="GroupNormalization", operands=(0, 2, 3), attributes={"num_groups": 2})
    graph = Graph("groups", (x, y, *beside), (op,), sha256="1" * 64, dialect="onnx", opset=21)
    return HandLoop(graph, {"ops": [0], "along": {"0": [1]}, "axis": {"1": [1]}, "parts": 2, "merge": {"1": "concat"}})


def _over_in_pairs() -> HandLoop:
    """Pixels of two rows and one column: what is written first does not lie first."""
    x, y = Tensor(0, 160, Kind.INPUT, "t0", (4, 2, 5), "float32"), Tensor(1, 160, Kind.OUTPUT, "t1", (8, 5), "float32")
    shape = Tensor(
        2, 16, Kind.CONSTANT, "shape", (2,), "int64", value=(8).to_bytes(8, "little") + (5).to_bytes(8, "little")
    )
    op = Op(0, (0, 2), (1,), type="Reshape", operands=(0, 2))
    graph = Graph("pairs", (x, y, shape), (op,), sha256="1" * 64, dialect="onnx", opset=21)
    loop = {"ops": [0], "along": {"0": [0, 1]}, "axis": {"1": [0, 1]}, "parts": 20, "merge": {"1": "concat"}}
    return HandLoop(graph, loop | {"over": 1, "behind": {"0": 144}}, "bits")


def _over_in_columns() -> HandLoop:
    loop = {"ops": [0], "along": {"0": [1]}, "axis": {"1": [1]}, "parts": 8, "merge": {"1": "concat"}}
    return HandLoop(_graph(["h w -> h w"], [(8, 8)] * 2), loop | {"over": 1, "behind": {"0": 240}})


def _written_over_what_it_reads() -> HandLoop:
    keep = {"1": _ring(1), "2": _ring(2)}
    return HandLoop(_chain(3), _rows(3, keep=keep, kept_bytes=16))


def _over_too_far() -> HandLoop:
    """Rows of the result that begin where those of the input do; they have to begin a row lower."""
    keys = {"offsets": {"0": 0, "1": 0}, "in_place": [[1, 0]], "arena_bytes": 144, "required_bytes": 144}
    loop = _rows(1, over=1, behind={"0": 16})
    return HandLoop(_chain(1), loop, keys=keys, failure="in_place_offset")


def _side_by_side(texts: list[str], shapes: list[tuple[int, ...]], kind: Kind, *reads: tuple[int, ...]) -> Graph:
    """Of an input two results, one by an op each; the first one of this kind."""
    chain = _graph(texts, [(8, 4), *shapes])
    graph = _changed(chain, 1, inputs=reads[0], operands=reads[0])
    return _typed(graph, 1, kind=kind)


def _ring_of_sums() -> HandLoop:
    """Sums that nobody reads, in a ring of one position."""
    graph = _side_by_side(["h w -> w", "h w -> h w"], [(4,), (8, 4)], Kind.ACTIVATION, (0,))
    loop = {"ops": [0, 1], "along": {"0": [1], "1": [0]}, "axis": {"2": [0]}, "parts": 8, "merge": {"2": "concat"}}
    return HandLoop(graph, loop | {"keep": {"1": _ring(1)}}, "sum")


def _sums_read_at_once() -> HandLoop:
    """Rows of a result need all of a sum that is made beside them."""
    graph = _side_by_side(["h w -> w", "h w, w -> h w"], [(4,), (8, 4)], Kind.OUTPUT, (0, 1))
    loop = {"ops": [0, 1], "along": {"0": [1], "1": [0]}, "axis": {"2": [0]}, "parts": 8}
    return HandLoop(graph, loop | {"merge": {"1": "sum", "2": "concat"}}, "sum")


def _around_another() -> HandLoop:
    """The loop makes what an op outside reads, and reads what that makes."""
    merge = {"1": "concat", "3": "concat"}
    return HandLoop(_chain(3), _rows(3, ops=[0, 2], along={"0": [0], "2": [0]}, merge=merge, keep={}))


def _handed(key: str, **keys: Any) -> HandLoop:
    """Each row of the result needs all rows of an input, which is handed over row by row."""
    loop = {"ops": [0], "along": {"0": [0]}, "axis": {"0": [0], "1": [0]}, "parts": 8, "merge": {"1": "concat"}}
    graph = _graph([". w -> h w"], [(8, 4)] * 2)
    return HandLoop(graph, loop | {"streamed": {key: "t0"}} | keys)


HAND_LOOPS: Mapping[str, Callable[[], HandLoop]] = {
    "of no dialect": _no_dialect,
    "of a random op": _flaw(attributes={"labels": "h w -> h w", "random": 1}),
    "of an op with a body": _flaw(bodies=(Graph("inside", (), ()),)),
    "of an op that writes over what it reads": _written_over,
    "of an op after another": _after,
    "of an alias": _alias,
    "of sums of no numbers": _no_numbers,
    "without accumulators": _no_accumulators,
    "with accumulators on a ring": _accumulators_on_a_ring,
    "with sums over one of two axes": _sums_of_one_axis,
    "with channels left over": _groups_left_over,
    "with pairs of rows over an input": _over_in_pairs,
    "with columns over an input": _over_in_columns,
    "with a result too far over an input": _over_too_far,
    "with a ring on what it is made of": _written_over_what_it_reads,
    "with a ring off the alignment": lambda: HandLoop(_chain(), _rows(keep={"1": _ring(1, at=8)}, kept_bytes=32)),
    "with an op twice": lambda: HandLoop(_chain(), _rows(ops=[0, 0, 1])),
    "of a runtime": lambda: HandLoop(_chain(), _rows(), target="tflite"),
    "that promises too much": lambda: HandLoop(_chain(), _rows(), "bits"),
    "with an input handed over and kept nowhere": lambda: _handed("0"),
    "with a ring whose key nobody finds": lambda: _handed("00", keep={"00": _ring(0)}),
    "with sums in a ring": _ring_of_sums,
    "with sums that are read at once": _sums_read_at_once,
    "with sums that are said to be the greatest": lambda: HandLoop(
        _graph(["h w -> w"], [(8, 4), (4,)]), _sum(merge={"1": "max"}), "sum"
    ),
    "around an op that is outside": _around_another,
    "proved over nothing": lambda: HandLoop(_chain(), _rows(), keys={"proved_over": None}),
}
"""By what is wrong with it."""
