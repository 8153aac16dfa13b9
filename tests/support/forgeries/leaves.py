"""One word of a plan changed, whichever it is: all that a plan says follows from the model and from what it decides, so
that with all else as it was another word is wrong.

The exceptions stand below, each with what makes it one. A key that a later version adds is none of them, and so is
forged from the day on which it is written.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from functools import cache
from itertools import accumulate
from random import Random
from typing import Any, NamedTuple

import msgspec

from lowtide.analyse.storage import memory_model
from lowtide.errors import InputError
from lowtide.graph import Graph
from lowtide.optimize.region_bound import RegionBounds
from lowtide.plan import from_json
from lowtide.target import resolve
from lowtide.transform.cut import Cutter
from support.forgeries.bases import Base

Document = dict[str, Any]
Path = tuple[str | int, ...]


class Forgery(NamedTuple):
    """A plan that is wrong, and why; `graph`: the model that it is said to be of, if that is not the base's."""

    family: str
    document: Document
    why: str
    graph: Graph | None = None


FREE = {
    "version": "which keys may be there",
    "lowtide": "who wrote it",
    "graph": "a title",
    "method": "how it was searched",
    "seed": "how it was searched",
    "stopped": "how it was searched",
    "seconds*": "how it was searched",
    "search*": "the search's own word",
    "certificate.states": "the search's own word",
    "certificate.direction": "which way is tried first",
    "certificate.switches*": "the search's own word",
    "*traffic_proof.states": "the search's own word",
    "target": "the rules under which it is read",
    "rules*": "the rules under which it is read",
    "overwrite_inputs": "the rules under which it is read",
    "pin_inputs": "the rules under which it is read",
    "persistent*": "the rules under which it is read",
    "double_buffered*": "the rules under which it is read",
    "fixed*": "the rules under which it is read",
    "spilling*": "the rules under which it is read",
    "dims*": "of which sizes it is a plan",
    "budget_bytes": "what was asked for",
    "reserve_bytes": "what was asked for",
    "allow*": "what was asked for",
    "model_sha256": "of which model it is a plan",
    "cost.cost_file": "a cost file that is not there",
    "cost.level": "a cost file that is not there",
    "cost.device": "a cost file that is not there",
    "cost.threads": "a cost file that is not there",
    "cost.max_overhead": "what was asked for",
    "fission.cost_file": "a cost file that is not there",
    "fission.families*": "a cost file that is not there",
    "fission.device": "a cost file that is not there",
    "fission.method": "how it was searched",
    "fission.max_overhead": "what was asked for",
    "recomputation.max_overhead": "what was asked for",
    "swapping.cost_file": "a cost file that is not there",
    "swapping.to_host": "a cost file that is not there",
    "swapping.from_host": "a cost file that is not there",
    "memories.*.capacity_bytes": "what was asked for",
    "memories.*.alignment": "what was asked for",
    "runtime_figures.*.default_bytes": "what a runtime takes today: `--run` measures it",
    "runtime_parts.build": "a title",
}
"""What no claim rests on, with what it is; what is taken on trust, with who measures it."""

BOUNDS = {
    "lower_bound_bytes": 1,
    "arena_lower_bound_bytes": 1,
    "traffic_lower_bound_bytes": 1,
    "region_bound.bytes": 1,
    "recomputation.lower_bound": 1,
    "recomputation.least_peak_bytes": 1,
    "fission.floor_bytes": 1,
    "fission.least_peak_bytes": 1,
    "fission.least_seconds": 1,
    "certificate.refuted_bytes": 1,
    "runtime_parts.least_*": 1,
    "runtime_arenas.least_*": 1,
}
"""What may be said with less; `families.py` raises it."""

DECISIONS = {
    "order*": "another order may be as good",
    "offsets*": "may lie elsewhere",
    "workspace_offsets*": "may lie elsewhere",
    "residency.*.offset": "may lie elsewhere",
    "residency.*.memory": "may lie elsewhere",
    "residency.*.start": "may be there for longer",
    "residency.*.end": "may be there for longer",
    "loops.*.keep.*.offset": "may lie elsewhere",
    "loops.*.sums.*.offset": "may lie elsewhere",
    "moves.*.step": "may come earlier",
    "certificate.op": "another flow may show as much",
    "*certificate.flow.*.[!3]": "another flow may show as much",
    "certificate.cases.*.flow.*.[!3]": "another flow may show as much",
    "recomputation.*certificate.*": "another price may show as much",
    "fission.cuts*": "another price may show as much",
    "traffic_proof*": "other parts may show as much",
    "conflict.step": "they may be there together at others",
}
"""What may be decided in another way; `families.py` decides what cannot be."""

WORDS: dict[str, tuple[str, ...]] = {
    "exactness": ("bits", "kernel", "sum"),
    "kind": ("input", "output", "activation", "constant"),
    "role": ("part", "slice", "join", "merge", "pad"),
    "status": ("ok", "over_budget", "impossible", "unproved"),
    "proved_over": ("orders", "orders_and_regions", "orders_and_joined_regions"),
    "counted": ("cost", "flops", "bytes", "nanoseconds"),
    "merge": ("concat", "sum", "max", "min"),
}  # fmt: skip


BODY = "fission.parts.*.body."
"""A plan of its own."""


def pattern(path: Path) -> str:
    """A path with its numbers left out: ``tensors.*.size``. Of an arc of a flow, its place in the arc stays."""
    words = ["*" if isinstance(k, int) or str(k).isdecimal() else str(k) for k in path]
    if len(path) > 2 and path[-3] == "flow":
        words[-1] = str(path[-1])
    return ".".join(words).removeprefix(BODY)


def listed(table: dict[str, Any], name: str) -> bool:
    """Whether a table of patterns has this one."""
    return _listed(tuple(table), name)


@cache
def _listed(patterns: tuple[str, ...], name: str) -> bool:
    return any(fnmatchcase(name, p) for p in patterns)


def walk(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every value of a document, those that hold others too."""
    yield path, value
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from walk(inner, (*path, key))


def at(document: Document, path: Path) -> Any:
    """What is at a path."""
    value: Any = document
    for key in path:
        value = value[key]
    return value


def put(document: Any, path: Path, value: Any) -> Any:
    """The document with another value at a path; what is not on the way is shared with the first."""
    if not path:
        return value
    holder = copy.copy(document)
    holder[path[0]] = put(document[path[0]], path[1:], value) if path[1:] else value
    return holder


def forgeable(base: Base) -> dict[str, list[tuple[Path, Any]]]:
    """By pattern what can be forged one by one."""
    found: dict[str, list[tuple[Path, Any]]] = {}
    for path, value in walk(base.document):
        name = pattern(path)
        if not (listed(FREE, name) or listed(BOUNDS, name) or listed(DECISIONS, name)):
            found.setdefault(name, []).append((path, value))
    return found


def another(random: Random, path: Path, value: Any, alike: list[Any]) -> Any:
    """Another value for a leaf."""
    others = [v for v in alike if type(v) is type(value) and v != value]
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        near = [value - 1, value + 1, value - 64, value + 64, value // 2, 2 * value + 1, 0, -value - 1, value + 2**40]
        return random.choice([v for v in (*near, *random.sample(others, min(3, len(others)))) if v != value])
    if isinstance(value, float):
        return random.choice([value + 1, value - 1, value * 0.5 - 1e-3, value * 1.5 + 1e-3, -value - 1])
    words = [w for w in WORDS.get(str(next((k for k in reversed(path) if isinstance(k, str)), "")), ()) if w != value]
    return random.choice(words or others or [f"{value}'"])


def leaf(base: Base, random: Random, paths: list[tuple[Path, Any]]) -> Forgery | None:
    """One of some values alike changed; of a list, an element less or twice; of an object, a key less."""
    path, value = random.choice(paths)
    name = pattern(path)
    if isinstance(value, list | dict):
        if not value:
            return None
        holder: Any = copy.copy(value)
        key = random.choice(list(holder) if isinstance(value, dict) else range(len(value)))
        twice = isinstance(value, list) and random.random() < 0.3
        inner = pattern((*path, key))
        if listed(FREE, inner) or listed(BOUNDS, inner) or listed(DECISIONS, inner) or harmless(base, inner, twice):
            return None
        if key == "recomputation" and not base.plan.rewrites:
            return None  # nothing runs again, and nothing is said of it
        if not twice and inner == "tensors.*" and value[key]["kind"] == "constant":
            return None  # it counts for nothing, and need not be listed
        if not twice and inner == "ops.*" and value[key]["id"] in base.plan.folded:
            return None  # it does not run, and need not be listed
        if twice:
            holder.insert(key, holder[key])
        else:
            del holder[key]
        changed = put(base.document, path, holder)
        if says_the_same(base, changed) or true_still(base, name, path, value, holder):
            return None
        return Forgery(f"{'twice' if twice else 'left out'}: {inner}", changed, f"{(*path, key)} of {base.kind}")
    new = another(random, path, value, [v for _, v in paths])
    if true_still(base, name, path, value, new):
        return None
    return Forgery(f"changed: {name}", put(base.document, path, new), f"{path}: {value!r} -> {new!r}")


Still = Callable[[Base, Path, Any, Any], bool]


def _made_by_a_cut(base: Base, path: Path, value: Any, new: Any) -> bool:
    """A name that is new; of a tensor of an ONNX file, which knows tensors by their names, the only one."""
    if len(path) != 3:  # of a body, which makes none
        return False
    what, k, _ = path
    there: Any = base.document[str(what)]
    mine = base.graph.tensor_by_id if what == "tensors" else base.graph.op_by_id
    alike = what == "tensors" and base.graph.dialect == "onnx" and any(other["name"] == new for other in there)
    return there[k]["id"] not in mine and not alike


def _weaker(*words: str) -> Still:
    return lambda base, path, value, new: words.index(new) > words.index(value)


def _rows(cut: dict[str, Any]) -> set[tuple[int, int]]:
    """The parts in which a cut says that an op runs; a stripe may be without a row."""
    begins = cut.get("begins") or [0, *cut["ends"][:-1]]
    return {(a, b) for a, b in zip(begins, cut["ends"], strict=False) if a < b}


def _same_rows(base: Base, path: Path, value: Any, new: Any) -> bool:
    """Other ends between which the same parts run; or in which a concat that is not run still has each operand in
    pieces of its own."""
    k = max(k for k, key in enumerate(path) if key in ("ends", "begins"))
    region, cut = at(base.document, path[: k - 2]), at(base.document, path[:k])
    after = put(cut, path[k:], new)
    if region["kind"] == "cut" and len(region["ops"]) > 1 and len(cut["ends"]) != len(after["ends"]):
        return False  # not one end for each stripe of the region
    listed = at(base.document, path[:2])["ops"] if path[0] == "rounds" else base.document["ops"]
    op = base.graph.op_by_id.get(cut["op"])
    if op is None or op.type != "Concat" or any(own.get("origin") == [op.id] for own in listed):
        return _rows(cut) == _rows(after)
    shapes = [base.graph.tensor_by_id[t].shape or () for t in op.inputs]
    sizes = [shape[int(op.attributes["axis"]) % len(shape)] for shape in shapes]
    ends = after["ends"]
    return {*accumulate(sizes)} <= {*ends} <= {*range(1, sum(sizes) + 1)} and ends == sorted({*ends})


def _proved_there(base: Base, path: Path, value: Any, new: Any) -> bool:
    """Another op at which as many bytes are needed whatever is cut, by the planner's own reckoning."""
    if new not in base.graph.op_by_id:
        return False
    target, bound = resolve(base.target), base.document["region_bound"]
    graph = target.as_seen(base.graph)
    found = RegionBounds(Cutter(graph), memory_model(graph, target), materialised=bound.get("joined", False))
    return found.at(new) >= bound["bytes"]


def _same_times(base: Base, path: Path, value: Any, new: Any) -> bool:
    """Other times of ops, as of another cost file, that add up to the same, and so may those that run again."""
    times = base.document["swapping"]["op_nanoseconds"]
    other = put(times, path[2:], new)
    return sum(times) == sum(other) and len(times) == len(other) and min(other) >= 0


def _kept_on_trust(base: Base, path: Path, value: Any, new: Any) -> bool:
    """A build less of those that need more, whose head alone is not more: what it keeps is taken on trust, as all that
    TFLM keeps is. A head is played through of plans that change nothing of the graph."""
    said, left = (x.get("beyond", {}) if len(path) == 1 else x for x in (value, new))
    parts, block = base.document["runtime_parts"], base.document["runtime_arena_bytes"]
    gone = said.keys() - left.keys()
    played = not base.plan.rewrites and any(said[build] - 2 * parts["persistent"] > block for build in gone)
    return bool(gone) and not played


STILL: dict[str, tuple[str, Still]] = {
    "*rewrites.*.ops.*.ends*": ("the same parts run", _same_rows),
    "*rewrites.*.ops.*.begins*": ("the same parts run", _same_rows),
    "region_bound.op": ("as much is needed there", _proved_there),
    "swapping.op_nanoseconds*": ("times of another file", _same_times),
    "tensors.*.name": ("a new name", _made_by_a_cut),
    "ops.*.name": ("a new name", _made_by_a_cut),
    "exactness": ("less is promised", _weaker("bits", "kernel", "sum")),
    "status": ("less is said", lambda base, path, *words: words in (("ok", "unproved"), ("impossible", "over_budget"))),
    "runtime_parts": ("taken on trust", _kept_on_trust),
    "runtime_parts.beyond": ("taken on trust", _kept_on_trust),
    "runtime_parts.exact": ("less is said", lambda base, path, value, new: not new),
    "loops.*.slots": ("there may be room for more", lambda base, path, value, new: new > value),
    "conflict.minimal": ("less is said", lambda base, path, value, new: not new),
}
"""By pattern when another value is as true as the one that stands there, and in words."""


def true_still(base: Base, name: str, path: Path, value: Any, new: Any) -> bool:
    """Whether a changed plan says nothing that is wrong."""
    return any(test(base, path, value, new) for p, (_, test) in STILL.items() if fnmatchcase(name, p))


SETS = {
    "certificate.downset.*": "a set",
    "fission.cuts.*": "cuts of parts already covered",
    "residency.*": "said twice",
    "overlap.*": "said twice",
    "runtime_figures.*": "said twice",
}
"""What may be listed twice."""

DROPPED = {
    "memories.*.size_bytes": "nothing is said of what is used",
    "runtime_figures": "nothing is said of the runtime",
    "runtime_figures.*": "nothing is said of the runtime",
    "runtime_figures.*.sure": "the default",
    "runtime_parts.own_planned": "nothing is said of what was there before",
    "runtime_parts.least_*": "nothing is said of other builds",
    "tensors.*.dtype": "a title",
    "tensors.*.shape": "a title",
    "runtime_arena_bytes": "nothing is said of the runtime",
    "arena_lower_bound_bytes": "no bound",
    "arena_optimal": "nothing is said of it",
    "runtime_unknown": "nothing is said of the runtime",
    "traffic_proof": "no proof",
    "traffic_lower_bound_bytes": "no bound",
    "cost": "nothing is said of time",
    "profile": "nothing is drawn",
    "conflict": "no reason is given",
    "exactness": "nothing is promised",
    "region_bound": "nothing is said of regions",
    "recomputation.least_peak_bytes": "nothing is said of peaks",
    "fission.least_peak_bytes": "nothing is said of peaks",
    "fission.least_seconds": "nothing is said of times",
}
"""What may be left out, as less is said then."""


def harmless(base: Base, inner: str, twice: bool) -> bool:
    """Whether a list may have an element twice, or an object do without a key."""
    return listed(SETS if twice else DROPPED, inner)


def says_the_same(base: Base, document: Document) -> bool:
    """Whether a document reads as the honest one: a default written out or left out."""
    try:
        return from_json(msgspec.json.encode(document)) == base.plan
    except InputError:
        return False
