"""Runs the original and the planned ONNX file under onnxruntime, on the same random inputs.

Both keep the file's order (`ort_session.py`); the original runs once more as onnxruntime runs it by default.
onnxruntime counts initializers, and not the inputs, which the caller holds; what it had in use before the first node
is taken off. `Shape` nodes it runs early whatever the file says.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from lowtide.errors import InputError, VerificationError, first_line
from lowtide.plan import Plan
from lowtide.rewrites import Recompute, Sections, Sums, in_parts, recomputes_ops
from lowtide.run.optimise import level_of
from lowtide.run.ort_session import (
    AS_SHIPPED,
    PLANNED,
    UNMODIFIED,
    NodeEvent,
    SessionProfile,
    open_session,
    read_profile,
    runtime,
)
from lowtide.run.random_weights import check_weights
from lowtide.run.timing import SLOW_SECONDS
from lowtide.run_reports import FileRun, NodeMemory, OutputComparison, RunReport, rounding
from lowtide.sizes import NO_DIMS, Dims, split_dims

if TYPE_CHECKING:
    from lowtide.run_reports import Timing

_DTYPES: dict[str, Any] = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
    "tensor(bool)": np.bool_,
    "tensor(uint8)": np.uint8,
    "tensor(int8)": np.int8,
    "tensor(uint16)": np.uint16,
    "tensor(int16)": np.int16,
    "tensor(uint32)": np.uint32,
    "tensor(int32)": np.int32,
    "tensor(uint64)": np.uint64,
    "tensor(int64)": np.int64,
}
_INDEX_LIMITS = (64, 8, 2, 1)
"""Integer inputs may be indices: they are drawn below the first of these with which the original runs."""


_INPUTS = 2
"""How many different random inputs; with fewer than two nothing can be said about `RunReport.vacuous`."""


def run_onnx(
    original: Path,
    planned: Path,
    plan: Plan,
    *,
    dims: Dims = NO_DIMS,
    footprint_bytes: Sequence[int] = (),
    model: Path | None = None,
    timed: bool = False,
) -> RunReport:
    """Run two files on the same random inputs and compare what comes out.

    `original`, `planned`, `plan`: the model, what `lowtide plan` wrote, and its plan, whose seed is that of the inputs.
    `dims`: size of each symbolic dimension by name, or by ``"input:axis"``. `footprint_bytes`: the plan's footprint per
    step, without workspace, for comparison with what is measured. `model`: what onnxruntime's defaults are measured on,
    if not `original`: what that was made of. `timed`: whether to run both in turn, each in a process of its own, for
    `RunReport.timing`. Raises `InputError`: weights are missing, the original does not load or run, or an input has a
    free dimension or an unknown type. Raises `MissingExtraError`: onnxruntime is not installed. Raises
    `VerificationError`: ``run``: the planned nodes are not the original's in the plan's order, or onnxruntime does not
    run them.
    """
    runtime()
    check_weights(original)
    default_model = model or original
    original_nodes, planned_nodes = _nodes(original), _nodes(planned)
    place = _check_nodes(original_nodes, planned_nodes, plan, planned)
    with tempfile.TemporaryDirectory(prefix="lowtide-run-") as folder:
        own = _run_original(original, default_model, plan, dims, folder)
        planned_outputs, planned_profile, exact_profile = _run_planned(planned, plan, folder, own.feeds, own.profiled)
    footprints = dict(zip(plan.order, footprint_bytes, strict=False))
    measured = _measure(planned, planned_nodes, place, planned_profile, footprints)
    kept = {i: i for i in range(len(original_nodes)) if i not in plan.folded}
    return RunReport(
        _compared(own, planned_outputs, plan),
        _measure(original, original_nodes, kept, own.profile),
        measured,
        _measure(default_model, [], {}, own.shipped),
        exact_profile and _measure(planned, planned_nodes, place, exact_profile, footprints, planned_block(plan)),
        planned_block(plan),
        sum(a.nbytes for a in own.feeds[0].values()),
        _INPUTS,
        own.deterministic,
        _in_order(measured, plan),
        own.unmodified and _measure(original, [], {}, own.unmodified),
        _timing(default_model, planned, plan, dims) if timed else None,
        level_of(original),
        plan.comparison,
    )


@dataclass(frozen=True)
class _Original:
    """Runs of the original: random inputs, outputs and their names, and profiles.

    `shipped`: at onnxruntime's defaults. `unmodified`: without its optimiser, if the plan predicts that. `profiled`: of
    how many inputs these are.
    """

    feeds: list[dict[str, np.ndarray]]
    names: list[str]
    outputs: list[list[Any]]
    deterministic: bool
    profile: SessionProfile
    shipped: SessionProfile
    unmodified: SessionProfile | None
    profiled: int


def _run_original(original: Path, default_model: Path, plan: Plan, dims: Dims, folder: str) -> _Original:
    unmodified = None
    try:
        session = open_session(original, PLANNED, folder, "original")
        shipped = open_session(default_model, AS_SHIPPED, folder, "shipped")
        if has_figures(plan):
            unmodified = open_session(original, UNMODIFIED, folder, "unmodified")
    except Exception as error:  # onnxruntime's own kinds of error have no common base
        raise InputError(f"onnxruntime cannot load it: {first_line(error)}", str(original)) from None
    seconds = list[float]()

    def run(drawn: list[Feed]) -> list[Any]:
        began = time.perf_counter()
        first = session.run(None, drawn[0])
        seconds.append(time.perf_counter() - began)
        return [first, *(session.run(None, feed) for feed in drawn[1:])]

    feeds, outputs = draw(session, original, plan.seed, _INPUTS, dims, run)
    repeated = session.run(None, feeds[0])
    profiled = feeds[:1] if seconds[-1] > SLOW_SECONDS else feeds
    return _Original(
        feeds,
        [o.name for o in session.get_outputs()],
        outputs,
        all(same(a, b) for a, b in zip(outputs[0], repeated, strict=True)),
        read_profile(session.end_profiling()),
        _profile_of(shipped, profiled),
        None if unmodified is None else _profile_of(unmodified, profiled),
        len(profiled),
    )


def _run_planned(
    planned: Path, plan: Plan, folder: str, feeds: Sequence[Mapping[str, Any]], profiled: int
) -> tuple[list[list[Any]], SessionProfile, SessionProfile | None]:
    """Outputs of the planned file and its profile, and the profile of runs in one block of the plan's size, of so many
    inputs."""
    block, exact = planned_block(plan), None
    try:
        session = open_session(planned, PLANNED, folder, "planned")
        outputs = [session.run(None, feeds[0])]
        profile = session.end_profiling()
        outputs += [session.run(None, feed) for feed in feeds[1:]]
        if block is not None:
            exact = _profile_of(
                open_session(planned, replace(PLANNED, arena_bytes=block), folder, "exact"), feeds[:profiled]
            )
    except Exception as error:  # onnxruntime's own kinds of error have no common base
        raise VerificationError("run", f"{planned}: onnxruntime fails: {first_line(error)}") from None
    return outputs, read_profile(profile), exact


def planned_block(plan: Plan) -> int | None:
    """The block of onnxruntime's arena that a plan reports, of its own target or as a runtime figure."""
    if plan.runtime_arena_bytes is not None:
        return plan.runtime_arena_bytes
    arenas = (f for f in plan.runtime_figures or () if f.runtime == "onnxruntime" and f.what == "arena")
    return next((f.planned_bytes for f in arenas), None)


def has_figures(plan: Plan) -> bool:
    """Whether a plan says what onnxruntime takes by its defaults."""
    return any(f.runtime == "onnxruntime" for f in plan.runtime_figures or ())


def _profile_of(session: Any, feeds: Sequence[Mapping[str, Any]]) -> SessionProfile:
    """What a session's profile says of one run of each."""
    for feed in feeds:
        session.run(None, feed)
    return read_profile(session.end_profiling())


def _timing(original: Path, planned: Path, plan: Plan, dims: Dims) -> Timing | None:
    """Both as their users run them."""
    from lowtide.run.session_texts import SessionSettings, session_text
    from lowtide.run.timing import Setup, time_onnx

    with tempfile.TemporaryDirectory(prefix="lowtide-run-") as name:
        folder = Path(name)
        module, given = folder / "session.py", msgspec.structs.replace(plan, runtime_arena_bytes=planned_block(plan))
        module.write_text(session_text(SessionSettings.of_plan(given, planned, planned, module), module.name))
        setups = Setup(original, folder / "a.npz"), Setup(planned, folder / "b.npz", module)
        return time_onnx(*setups, folder / "feeds.npz", dims, plan.seed)


Feed = dict[str, np.ndarray]


def draw(
    session: Any, path: Path, seed: int, count: int, dims: Dims, run: Callable[[list[Feed]], Any] | None = None
) -> tuple[list[Feed], Any]:
    """Random inputs with which the model runs, and what it gives for the first; or what `run` gives for them, which
    runs the model. Raises `InputError`: a free dimension has no size in `dims`, an input has a type that cannot be
    drawn, or the model does not run."""
    sizes, given = split_dims(dims)
    shapes: dict[str, tuple[int, ...]] = {}
    free: list[str] = []
    for wanted in session.get_inputs():
        if wanted.type not in _DTYPES:
            raise InputError(f"input {wanted.name!r} is a {wanted.type}, which --run cannot draw", str(path))
        shape = []
        for axis, d in enumerate(wanted.shape):
            key = f"{wanted.name}:{axis}"
            size = d if isinstance(d, int) and d >= 0 else sizes.get(key, sizes.get(d) if isinstance(d, str) else None)
            if size is None and axis < len(given.get(wanted.name, ())):
                size = given[wanted.name][axis]
            if size is None:
                free.append(d if isinstance(d, str) else key)
            shape.append(size or 0)
        shapes[wanted.name] = tuple(shape)
    if free:
        names = ", ".join(dict.fromkeys(free))
        raise InputError(f"these dimensions are free: {names}; give each a size with --dim NAME=SIZE", str(path))
    types = {i.name: i.type for i in session.get_inputs()}
    trouble: Exception | None = None
    for limit in _INDEX_LIMITS:
        rng = np.random.default_rng(seed)
        feeds = [{n: _random(rng, types[n], s, limit) for n, s in shapes.items()} for _ in range(count)]
        _take_both_sides(feeds)
        try:
            if run is not None:
                return feeds, run(feeds)
            for feed in feeds[1:]:
                session.run(None, feed)
            return feeds, session.run(None, feeds[0])
        except Exception as error:  # onnxruntime's own kinds of error have no common base
            trouble = trouble or error
    tried = ", ".join(f"{name} {'x'.join(map(str, shape))}" for name, shape in shapes.items())
    fix = " (a size may have to be a multiple of 32, say)" if sizes or given else ""
    raise InputError(f"onnxruntime cannot run it: {first_line(trouble)}; tried {tried}{fix}", str(path))


def _take_both_sides(feeds: Sequence[dict[str, np.ndarray]]) -> None:
    """Conditions, single truths among the inputs, are true in every other run: both branches of an If are measured."""
    for k, feed in enumerate(feeds):
        for name, array in feed.items():
            if array.dtype == bool and array.size == 1:
                feed[name] = np.full(array.shape, k % 2 == 0)


def _random(rng: np.random.Generator, kind: str, shape: tuple[int, ...], limit: int) -> np.ndarray:
    dtype = np.dtype(_DTYPES[kind])
    if dtype.kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(dtype)
    if dtype.itemsize == 1:
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, endpoint=True).astype(dtype)
    return rng.integers(0, limit, shape).astype(dtype)


def _nodes(path: Path) -> list[Any]:
    """Top-level nodes of a file, in the file's order; none if it is no ONNX file (onnxruntime will say so)."""
    import onnx
    from google.protobuf.message import DecodeError

    try:
        return list(onnx.load(str(path), load_external_data=False).graph.node)
    except OSError as error:
        raise InputError(f"cannot read it: {error.strerror}", str(path)) from None
    except DecodeError:
        return []


def _check_nodes(original: list[Any], rewritten: list[Any], plan: Plan, planned: Path) -> dict[int, int]:
    """Place in the planned file to op id; folded nodes keep theirs, the others follow the plan's order."""
    if not original or not rewritten:
        return {}
    if recomputes_ops(plan.rewrites):
        return _check_runs(original, rewritten, plan, planned)
    if in_parts(plan.rewrites):
        return _check_parts(original, rewritten, plan, planned)
    place = dict(zip(sorted(plan.order), plan.order, strict=True))
    for i, node in enumerate(rewritten):
        op = place.get(i, i)
        if op >= len(original) or node != original[op]:
            raise VerificationError("run", f"{planned}: node {i} is not node {op} of the original")
    if len(rewritten) != len(original):
        raise VerificationError("run", f"{planned}: {len(rewritten)} nodes, and {len(original)} in the original")
    return place


def _check_runs(original: list[Any], rewritten: list[Any], plan: Plan, planned: Path) -> dict[int, int]:
    """The same for a file with recomputed ops: each node is the original's but for the names of what it reads and
    makes, at its place in the plan."""
    first = {i: next((name for name in node.output if name), "") for i, node in enumerate(original)}
    names = {t.id: t.name for t in plan.tensors}
    clones = {r.op: r for r in plan.rewrites or () if isinstance(r, Recompute)}
    op_of = {name: i for i, name in first.items() if name} | {names[r.outputs[0]]: v for v, r in clones.items()}
    place = {}
    for i, node in enumerate(rewritten):
        op = op_of.get(next((name for name in node.output if name), ""))
        if op is None:
            raise VerificationError("run", f"{planned}: node {i} is no run of an op of the original")
        of = op
        while of in clones:
            of = clones[of].of
        nameless = [type(node).FromString(n.SerializeToString()) for n in (node, original[of])]
        for n in nameless:
            n.name = ""
            n.input[:], n.output[:] = [bool(x) * "x" for x in n.input], [bool(x) * "x" for x in n.output]
        if nameless[0] != nameless[1]:
            raise VerificationError("run", f"{planned}: node {i} is not node {of} of the original once more")
        place[i] = op
    if [v for v in place.values() if v not in plan.folded] != plan.order:
        raise VerificationError("run", f"{planned}: its nodes do not run in the plan's order")
    return place


def _check_parts(original: list[Any], rewritten: list[Any], plan: Plan, planned: Path) -> dict[int, int]:
    """The same for a file in parts: new nodes have the names of the plan's ops, the others are the original's, or where
    ops are recomputed the original's but for what they read."""
    own = {node.output[0]: i for i, node in enumerate(original) if node.output}
    rewrites = plan.all_rewrites
    replaced = {r.op for r in rewrites if isinstance(r, Recompute)}
    replaced.update(op for r in rewrites if isinstance(r, Sections | Sums) for op in r.ops)
    replaced.update(op.id for one in plan.rounds or () for op in one.ops if op.part is not None)
    new = {op.name: op.id for op in plan.ops if op.part is not None or op.id in replaced}
    place = {}
    for i, node in enumerate(rewritten):
        op = own.get(node.output[0]) if node.output else None
        if op is not None and node == original[op]:
            place[i] = op
        elif node.name in new:
            place[i] = new[node.name]
        elif op is not None and replaced and node.op_type == original[op].op_type:
            place[i] = op
    missing = set(plan.order) - set(place.values())
    if missing:
        raise VerificationError("run", f"{planned}: op {min(missing)} of the plan is not there")
    return place


def _in_order(measured: FileRun, plan: Plan) -> bool:
    """Whether the nodes ran in the plan's order; `Shape` nodes run early whatever the file says."""
    step = {v: i for i, v in enumerate(plan.order)}
    ran = [step[n.op] for n in measured.nodes if n.type != "Shape"]
    return ran == sorted(ran)


def _measure(
    path: Path,
    nodes: list[Any],
    op_at: Mapping[int, int],
    profile: SessionProfile,
    planned: Mapping[int, int] = MappingProxyType({}),
    first_block: int | None = None,
) -> FileRun:
    """Give each event its op: onnxruntime counts nodes without `Constant`, and names those without a name."""
    kept = [(i, n) for i, n in enumerate(nodes) if n.op_type != "Constant"]
    node_of = {(n.name or f"{n.op_type}_{index}", str(index)): (op_at.get(i), n) for index, (i, n) in enumerate(kept)}
    events: list[tuple[NodeEvent, tuple[int | None, Any]]] = [
        (event, node_of[event.name, event.index]) for event in profile.nodes if (event.name, event.index) in node_of
    ]
    return FileRun(
        str(path),
        max((event.requested_bytes for event in profile.nodes), default=0),
        max((max(event.in_use_bytes, event.mark_bytes) for event in profile.nodes), default=0),
        profile.held_bytes(first_block),
        tuple(
            NodeMemory(op, node.name, node.op_type, event.requested_bytes, planned.get(op))
            for event, (op, node) in events
            if op is not None
        ),
        profile.grown_at,
    )


def _compared(own: _Original, planned: list[list[Any]], plan: Plan) -> tuple[OutputComparison, ...]:
    """Each output of both files, over all inputs."""
    promised = plan.exactness or "bits", rounding(t.dtype for t in plan.tensors)
    rows = []
    for name, first, second in zip(own.names, zip(*own.outputs, strict=True), zip(*planned, strict=True), strict=True):
        pairs = list(zip(first, second, strict=True))
        equal = all(same(a, b) for a, b in pairs)
        apart = None if equal else max((distance(a, b) for a, b in pairs), default=None)
        changes = bool(own.feeds[0]) and any(not same(first[0], other) for other in first[1:])
        largest = max((distance(a, np.zeros_like(a)) for a in first if isinstance(a, np.ndarray)), default=0.0)
        rows.append(OutputComparison(name, equal, apart, not changes, largest, *promised))
    return tuple(rows)


def same(a: Any, b: Any) -> bool:
    """Whether two outputs are equal bit by bit."""
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and a.dtype != object:
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    return bool(np.array_equal(a, b))


def distance(a: Any, b: Any) -> float:
    """The largest difference of two arrays; NaN if they cannot be subtracted."""
    if (
        not (isinstance(a, np.ndarray) and isinstance(b, np.ndarray))
        or a.shape != b.shape
        or a.dtype.kind not in "fiub"
    ):
        return float("nan")
    return float(np.max(np.abs(a.astype(np.float64) - b.astype(np.float64)), initial=0.0))
