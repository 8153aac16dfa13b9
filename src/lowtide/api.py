"""The front door: one function for each command, each a recipe of the steps in which data flows.

Heavy imports are inside the functions, so that `import lowtide` and `lowtide check` start at once.
"""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lowtide.errors import InputError
from lowtide.graph import Graph, Kind
from lowtide.plan import Certificate, CutCertificate, NoCertificate, Plan, PlanOp, PlanTensor, Seconds, Status
from lowtide.sizes import parse_size
from lowtide.stop import Limits, Progress
from lowtide.target import Target, resolve

if TYPE_CHECKING:
    from lowtide.allocate.together import Layout
    from lowtide.analyse.storage import MemoryModel
    from lowtide.schedule.method import Schedule
    from lowtide.verify.prove import Proof
    from lowtide.verify.report import Report
    from lowtide.verify.run_onnx import RunReport

Size = str | int
Options = Mapping[str, str]
_NONE: Mapping[str, Any] = {}


def load(model: str | Path, dims: Mapping[str, int] = _NONE) -> Graph:
    """Read a model.

    Parameters
    ----------
    model
        A `.onnx` or `.graph.json` file, ``zoo:NAME``, or ``FILE.py:FUNCTION``, which runs the user's own code: the
        function takes no arguments and returns a `Graph` or the path of a model.
    dims
        Sizes of free dimensions, by name or as ``"INPUT:AXIS"``.

    Raises
    ------
    InputError
        The file, the place in it and the mend.
    """
    name = str(model)
    if name.startswith("zoo:"):
        from lowtide import zoo

        return zoo.build(name[4:]).graph()
    file, separator, function = name.rpartition(":")
    if separator and file.endswith(".py"):
        made = _call(Path(file), function)
        return made if isinstance(made, Graph) else load(made, dims)
    from lowtide.read import read_model

    return read_model(model, dims)


def _call(file: Path, function: str) -> Graph | str | Path:
    """Run a function of the user's own file."""
    import runpy

    if not file.is_file():
        raise InputError("there is no such file", str(file))
    found = runpy.run_path(str(file)).get(function)
    if not callable(found):
        raise InputError(f"it defines no function {function!r}", str(file))
    made = found()
    if not isinstance(made, Graph | str | Path):
        raise InputError(f"{function}() returned {type(made).__name__}; return a Graph or a path", str(file))
    return made


def plan(
    model: Graph | str | Path,
    *,
    target: str | Target = "auto",
    budget: Size | None = None,
    reserve: Size | None = None,
    method: str = "exact",
    options: Options = _NONE,
    time: float = 60.0,
    search_memory: Size = "2GiB",
    seed: int = 0,
    dims: Mapping[str, int] = _NONE,
    require_optimal: bool = False,
    overwrite_inputs: bool = False,
    pin_inputs: bool = False,
    report: Callable[[Progress], None] | None = None,
) -> Plan:
    """Find the order of least peak, its arena, and the proof of how good they are; check them.

    Parameters
    ----------
    model
        A graph, or what `load` takes.
    target
        Name of a target, a TOML file, or a `Target`; ``"auto"`` goes by the model.
    budget
        Bytes that the arena and the reserve may take together; sizes such as ``"256KiB"``. Decides `status`.
    reserve
        Bytes kept free of the budget.
    method, options
        Name of a scheduling method, and values for its fields.
    time
        Seconds of search.
    search_memory
        Bytes for states that the search stores.
    require_optimal
        Whether a plan that is not proved optimal has status ``"unproved"``.
    overwrite_inputs, pin_inputs
        Whether graph inputs may be overwritten in place, or stay to the end; the default is the target's.
    report
        Called now and then while the search runs.

    Raises
    ------
    InputError
        The model or an argument is wrong. Everything else is in `Plan.status`.
    VerificationError
        The plan does not hold: a bug of lowtide's.
    """
    from lowtide.allocate.together import best_layout
    from lowtide.analyse.storage import memory_model
    from lowtide.schedule.registry import make
    from lowtide.verify.check import verify_plan

    began = clock.perf_counter()
    scheduler = make(method, options)
    rules = resolve(target, overwrite_inputs=overwrite_inputs, pin_inputs=pin_inputs)
    budget_bytes = None if budget is None else parse_size(budget, "budget")
    reserve_bytes = 0 if reserve is None else parse_size(reserve, "reserve")
    memory_bytes = parse_size(search_memory, "search memory")
    _check_time(time)
    graph = model if isinstance(model, Graph) else load(model, dims)
    memory = memory_model(graph, rules)
    reason = scheduler.supports(memory)
    if reason is not None:
        raise InputError(
            f"method {method} cannot do this: {reason}; use another one", graph.source or graph.name
        )
    read = clock.perf_counter()

    peak_budget = None if budget_bytes is None else budget_bytes - reserve_bytes
    limits = Limits(time, memory_bytes, seed, peak_budget, report)
    schedule = scheduler.schedule(memory, limits)
    scheduled = clock.perf_counter()
    layout = (
        best_layout(memory, schedule.order, limits) if method == "exact" else _as_is(memory, schedule, limits)
    )
    placed = clock.perf_counter()

    made = _assemble(graph, memory, rules, schedule, layout, method, seed)
    made = _judge(made, budget_bytes, reserve_bytes, require_optimal)
    # A replay of a large arena adds nothing to the checks of its offsets but time.
    verify_plan(graph, made, rules, replay_bytes=len(graph.ops) <= 2000)
    done = clock.perf_counter()
    seconds = Seconds(
        read=read - began,
        schedule=scheduled - read,
        allocate=placed - scheduled,
        verify=done - placed,
        total=done - began,
    )
    return _replaced(made, seconds=seconds)


def _check_time(seconds: float) -> None:
    if not 0 < seconds < 1e9:
        raise InputError(f"time is {seconds!r}; give a positive number of seconds")


def _as_is(memory: MemoryModel, schedule: Schedule, limits: Limits) -> Layout:
    from lowtide.allocate.together import place

    return place(memory, schedule.order, limits)


def _assemble(
    graph: Graph,
    memory: MemoryModel,
    target: Target,
    schedule: Schedule,
    layout: Layout,
    method: str,
    seed: int,
) -> Plan:
    """Put what was found into a plan; its peak is that of the in-place choices that the arena really makes."""
    from lowtide import __version__
    from lowtide.analyse.liveness import largest_single_op, profile
    from lowtide.analyse.storage import effective_aliases

    allocation = layout.allocation
    taken = set(allocation.in_place)
    steps = layout.profile
    if allocation.dropped:
        kept = tuple(tuple(o for o in row if (o.output, o.input) in taken) for row in memory.overwrites)
        steps = profile(replace(memory, overwrites=kept), layout.order)
    bound, certificate = _bound(schedule, largest_single_op(memory), steps.peak)
    aliases = effective_aliases(graph, target)
    interrupted = layout.interrupted and schedule.stopped != "proof"
    return Plan(
        version=1,
        lowtide=__version__,
        graph=graph.name,
        model_sha256=graph.sha256,
        target=target.name,
        method=method,
        seed=seed,
        status="ok",
        stopped="interrupt" if interrupted else schedule.stopped,
        ops=[PlanOp(id=op.id, name=op.name, type=op.type) for op in sorted_by_id(graph)],
        folded=sorted(op.id for op in graph.folded),
        tensors=[
            PlanTensor(
                id=t.id,
                name=t.name,
                size=t.size,
                kind=str(t.kind),
                alias_of=aliases[t.id][0] if t.id in aliases and t.kind is not Kind.CONSTANT else t.alias_of,
            )
            for t in graph.tensors
        ],
        order=[graph.ops[i].id for i in layout.order],
        own_order_peak_bytes=profile(memory, range(len(graph.ops))).peak,
        peak_bytes=steps.peak,
        lower_bound_bytes=bound,
        optimal=bound == steps.peak,
        certificate=certificate,
        in_place=list(allocation.in_place),
        alignment=target.alignment,
        required_bytes=allocation.arena_bytes,
        seconds=Seconds(),
        arena_bytes=allocation.arena_bytes,
        arena_lower_bound_bytes=allocation.lower_bound_bytes,
        arena_optimal=allocation.optimal,
        offsets={str(t): offset for t, offset in sorted(allocation.offsets.items())},
        workspace_offsets={str(o): at for o, at in sorted(allocation.workspace_offsets.items())} or None,
        search=dict(schedule.counters) or None,
    )


def sorted_by_id(graph: Graph) -> list[Any]:
    """Every op of a graph, folded ones included, by id."""
    return sorted((*graph.folded, *graph.ops), key=lambda op: op.id)


def _bound(schedule: Schedule, single_op: int, peak: int) -> tuple[int, Certificate]:
    """The better of the method's own bound and the largest single op; a proof only of the one that is taken."""
    if schedule.lower_bound > single_op:
        return min(schedule.lower_bound, peak), schedule.certificate
    if isinstance(schedule.certificate, CutCertificate) and schedule.lower_bound == single_op:
        return single_op, schedule.certificate
    return single_op, NoCertificate()


def _judge(made: Plan, budget: int | None, reserve: int, require_optimal: bool) -> Plan:
    """Compare with the budget. Where several things are wrong, the most final one is said."""
    required = (made.arena_bytes or 0) + reserve
    status: Status = "ok"
    if require_optimal and not made.optimal:
        status = "unproved"
    if budget is not None and required > budget:
        status = "over_budget"
    if budget is not None and made.lower_bound_bytes + reserve > budget:
        status = "impossible"
    return _replaced(
        made, status=status, required_bytes=required, budget_bytes=budget, reserve_bytes=reserve or None
    )


def _replaced(made: Plan, **changes: Any) -> Plan:
    import msgspec

    return msgspec.structs.replace(made, **changes)


def verify(
    model: Graph | str | Path,
    made: Plan | str | Path,
    *,
    target: str | Target = "auto",
    dims: Mapping[str, int] = _NONE,
    overwrite_inputs: bool = False,
    pin_inputs: bool = False,
) -> Report:
    """Check a plan with code that shares no algorithm with the planners.

    Parameters
    ----------
    target
        As it was given to `plan`; needed only for a target of the user's own, or with changed input rules.

    Raises
    ------
    InputError
        The plan is for another model or cannot be read.
    VerificationError
        What does not hold, by name.
    """
    from lowtide.verify.check import verify_plan

    graph, made, rules = _to_check(model, made, target, dims, overwrite_inputs, pin_inputs)
    return verify_plan(graph, made, rules)


def prove(
    model: Graph | str | Path,
    made: Plan | str | Path,
    *,
    target: str | Target = "auto",
    dims: Mapping[str, int] = _NONE,
    overwrite_inputs: bool = False,
    pin_inputs: bool = False,
    time: float = 60.0,
) -> Proof:
    """Prove a plan's bound again, with a second, plain search where it was proved by one. Raises as `verify`."""
    from lowtide.verify.prove import prove as search_again

    graph, made, rules = _to_check(model, made, target, dims, overwrite_inputs, pin_inputs)
    return search_again(graph, made, rules, seconds=time)


def _to_check(
    model: Graph | str | Path,
    made: Plan | str | Path,
    target: str | Target,
    dims: Mapping[str, int],
    overwrite_inputs: bool,
    pin_inputs: bool,
) -> tuple[Graph, Plan, Target]:
    from lowtide.plan import read_plan
    from lowtide.target import BUILT_IN

    if not isinstance(made, Plan):
        made = read_plan(made)
    if target == "auto":
        if made.target not in BUILT_IN:
            raise InputError(f"the plan is for target {made.target!r}; name its file with --target")
        target = made.target
    rules = resolve(target, overwrite_inputs=overwrite_inputs, pin_inputs=pin_inputs)
    graph = model if isinstance(model, Graph) else load(model, dims)
    return graph, made, rules


def apply(made: Plan, model: str | Path, out: str | Path, *, copy_external: bool = False) -> None:
    """Write the model with its ops in the plan's order; every byte that need not change stays as it was.

    Raises
    ------
    InputError
        The plan is for another model, or the output cannot be written (SPEC, Files).
    """
    write_all(made, model, out=out, copy_external=copy_external)


def write_all(
    made: Plan,
    model: str | Path,
    *,
    out: str | Path | None = None,
    plan_file: str | Path | None = None,
    copy_external: bool = False,
) -> None:
    """Write the model, the plan, or both: together or not at all, and never over the input."""
    import tempfile

    from lowtide.write.atomic import Outputs

    name = str(model)
    from_file = not name.startswith("zoo:") and ".py:" not in name
    with tempfile.TemporaryDirectory(prefix="lowtide-") as folder:
        source = Path(model)
        if name.startswith("zoo:") and out is not None:
            from lowtide import zoo

            source = Path(folder) / "model.onnx"
            source.write_bytes(zoo.build(name[4:]).onnx(made.seed).SerializeToString())
        with Outputs([source] if from_file else []) as outputs:
            if out is not None:
                from lowtide.write import write_model

                _same_model(made, source if from_file else None)
                if not from_file and not name.startswith("zoo:"):
                    raise InputError(
                        "a model that a function makes has no file to write back; save it first", name
                    )
                write_model(source, made.order, out, copy_external, outputs)
            if plan_file is not None:
                outputs.write(plan_file, made.to_json())


def _same_model(made: Plan, source: Path | None) -> None:
    import hashlib

    if source is None:
        return
    try:
        with source.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"cannot read the file: {error.strerror}", str(source)) from None
    if digest != made.model_sha256:
        raise InputError("the plan is for another model, or the file has changed; plan it again", str(source))


def run(
    model: str | Path,
    planned: str | Path | None,
    made: Plan | str | Path,
    *,
    dims: Mapping[str, int] = _NONE,
    footprint_bytes: Sequence[int] = (),
) -> RunReport:
    """Run a model and its planned form in onnxruntime on the same random inputs, and compare.

    Parameters
    ----------
    planned
        What `apply` wrote; None to write it to a temporary place.
    footprint_bytes
        The plan's footprint per step (`Report.footprint_bytes`), to stand beside what the runtime measures.

    Raises
    ------
    InputError
        Not an ONNX model, or onnxruntime cannot run it as it is.
    MissingExtraError
        onnxruntime is not installed.
    VerificationError
        The planned file does not run.
    """
    import tempfile

    from lowtide.plan import read_plan
    from lowtide.verify.run_onnx import run_onnx

    if not isinstance(made, Plan):
        made = read_plan(made)
    name = str(model)
    if not (name.startswith("zoo:") or name.lower().endswith(".onnx")):
        raise InputError("only ONNX models can be run; verify it without --run", name)
    with tempfile.TemporaryDirectory(prefix="lowtide-") as folder:
        original = Path(model)
        if name.startswith("zoo:"):
            from lowtide import zoo

            original = Path(folder) / "original.onnx"
            original.write_bytes(zoo.build(name[4:]).onnx(made.seed).SerializeToString())
        if planned is None:
            from lowtide.write import write_model

            target = Path(folder) / "planned.onnx"
            write_model(original, made.order, target, copy_external=True)
            planned = target
        return run_onnx(
            original, Path(planned), made, seed=made.seed, dims=dims, footprint_bytes=footprint_bytes
        )


@dataclass(frozen=True)
class Check:
    """Whether a model fits. Sizes are bytes; `excess_bytes` is 0 if it does.

    `exit_status` is 0 if it fits, 3 if the best plan found needs more, 4 if no plan can fit.
    """

    required_bytes: int
    available_bytes: int
    excess_bytes: int
    lower_bound_bytes: int
    optimal: bool
    target: str
    exit_status: int


def check(model: Graph | str | Path, budget: Size, *, as_is: bool = False, **settings: Any) -> Check:
    """Say whether a model fits a budget, without writing anything; weights are not needed.

    Parameters
    ----------
    as_is
        Judge the file's own order instead of the best one.
    settings
        Those of `plan`.
    """
    if as_is:
        settings["method"] = "own"
    made = plan(model, budget=budget, **settings)
    available = parse_size(budget, "budget")
    return Check(
        made.required_bytes,
        available,
        max(0, made.required_bytes - available),
        made.lower_bound_bytes,
        made.optimal,
        made.target,
        made.exit_status,
    )
