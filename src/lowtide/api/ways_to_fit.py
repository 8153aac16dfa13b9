"""What would make a model fit that is over its budget: a ladder of plans that were each searched for a few seconds.

That no order of untiled operators fits says nothing of plans that tile, stream or recompute operators, take a smaller
input or another memory. Each rung here is a plan that was made and checked; what gives none is no rung.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from lowtide.api.models import load
from lowtide.api.objects import Model, is_program
from lowtide.api.planning import plan
from lowtide.arguments import typed
from lowtide.errors import InputError
from lowtide.graph import Graph
from lowtide.rewrites import COUNTED
from lowtide.sizes import NO_DIMS, Size

if TYPE_CHECKING:
    from lowtide.plan import Plan
    from lowtide.stop import Progress

RUNG_SECONDS = 3.0  # of search for each rung
LADDER_SECONDS = 20.0  # after which no further rung is searched
_NOT_HERE = ("banks", "board", "memories")
_LEAST_HALVED = 16
"""Smaller dimensions count batches or channels, and are not halved."""
_COMMAND = {
    "target": "--target", "reserve": "--reserve", "overwrite_inputs": "--overwrite-inputs",
    "pin_inputs": "--pin-inputs",
}  # fmt: skip
_OF_CHANGES = {"exact_bits": "--exact-bits", "max_ops": "--max-ops", "cost": "--cost", "max_overhead": "--max-overhead"}
"""Settings that go with `allow` alone."""


@dataclass(frozen=True)
class WayToFit:
    """A plan that needs less, or another memory.

    Attributes
    ----------
    how
        What is different, in a few words.
    required_bytes
        What the plan needs that was found, the reserve included; with slow memory what the fast one is to have. None:
        it was not searched, for the time was over.
    fits
        Whether that is within the budget (of a board: within its memories).
    costs
        What it costs, in words; empty where nothing.
    command
        The command that searches for it in full.
    within_seconds
        The search was cut short after so long, so that another machine may find another figure; None: it ended.
    """

    how: str
    required_bytes: int | None
    fits: bool
    costs: str
    command: str
    within_seconds: float | None = None


@dataclass(frozen=True)
class _Rung:
    how: str
    changes: Mapping[str, Any]
    flags: str
    more: bool = False
    """Whether it is the rung before it and more: left out where that fits, or where it needs no less."""
    command: str = "research plan"


@typed
def ways_to_fit(
    model: Model,
    budget: Size | None = None,
    *,
    report: Callable[[str, Progress], None] | None = None,
    **settings: Any,
) -> list[WayToFit]:
    """Search for a few seconds each what would make a model fit a budget that its plan exceeds.

    Parameters
    ----------
    budget, settings
        Those of the plan. With several memories there are no rungs.
    report
        Called with the name of a rung while it is searched.

    Returns
    -------
    list of WayToFit
        First the plan with untiled operators in a memory that is large enough; then plans with row streaming, smaller
        inputs, recomputed operators, the smallest built-in board with room, tiles, tiles with halos, and slow memory
        behind the budget. Empty where the model fits, or nothing is to be said.
    """
    if budget is None or any(settings.get(name) for name in _NOT_HERE):
        return []
    allowed = settings.pop("allow", ())
    allowed = allowed.split(",") if isinstance(allowed, str) else allowed
    of_changes = {name: settings.pop(name) for name in (*_OF_CHANGES,) if name in settings}
    settings.pop("stream_input", None)
    settings = {"time": 60.0, **settings, "budget": budget}
    graph = load(model, settings.get("dims", NO_DIMS)) if is_program(model) or isinstance(model, Graph) else None
    given: Model = model if graph is None else graph
    seconds: Any = min(RUNG_SECONDS, settings["time"])
    began = monotonic()
    plain = _uninterrupted(plan(given, **(settings | {"time": seconds})))
    limit = plain.budget_bytes or 0
    if plain.status not in ("over_budget", "impossible"):
        return []
    base = _command(model, settings)
    found = [WayToFit("untiled, more memory", plain.required_bytes, False, "",
                      f"{base} --budget {plain.required_bytes}", _cut_short(plain, seconds))]  # fmt: skip
    for rung in _rungs(given, settings, plain):
        allow = rung.changes.get("allow", ())
        if (rung.more and (found[-1].fits or found[-1].required_bytes is None)) or (
            allow and set(allow).issubset(allowed)
        ):
            continue
        if monotonic() - began > LADDER_SECONDS:
            base = _command(model, {**settings, **rung.changes}, of_changes if allow else NO_DIMS, rung.command)
            found.append(WayToFit(rung.how, None, False, "", f"{base} {rung.flags}"))
            continue
        tried = {**settings, "quick": True, "time": seconds, **rung.changes}
        tried |= of_changes if allow and "row-streaming" not in allow else {}
        name = rung.how
        if report is not None:
            tried["report"] = lambda progress, name=name: report(name, progress)
        candidate = _rung_plan(given, tried)
        before = found[-1].required_bytes or 0
        if candidate is not None and not (rung.more and candidate[0] >= before):
            base = _command(model, {**settings, **rung.changes}, tried, rung.command)
            found.append(_way(rung, *candidate, base, limit, seconds))
    return found


def _uninterrupted(candidate: Plan) -> Plan:
    """Raise `KeyboardInterrupt` if Ctrl-C ended a search: nothing else is tried then."""
    if candidate.stopped == "interrupt":
        raise KeyboardInterrupt
    return candidate


def _rungs(model: Model, settings: Mapping[str, Any], plain: Plan) -> Iterator[_Rung]:
    """What is tried, in this order: what is quick first."""
    limit, source = plain.budget_bytes or 0, str(model) if isinstance(model, str | Path) else ""
    budget = f"--budget {limit}"
    if source.lower().endswith(".tflite"):
        loops = {"target": "loops", "allow": ("row-streaming",), "quick": False, "budget": None}
        flags = f"{budget} -o FOLDER"
        yield _Rung("C with row loops", loops, flags, command="emit")
        yield _Rung("C with row loops, streamed input", {**loops, "stream_input": True}, f"{flags} --stream-input",
                    more=True, command="emit")  # fmt: skip
    dims = {name: size for name, size in dict(settings.get("dims") or {}).items() if isinstance(size, int)}
    for part in (2, 4):
        smaller = {name: size // part if size >= _LEAST_HALVED else size for name, size in dims.items()}
        if smaller != dims:
            rest = {**settings["dims"], **smaller}
            yield _Rung(f"input 1/{part}", {"dims": rest}, budget, more=part > 2)
    yield _Rung("recomputation", {"allow": ("recompute",)}, f"{budget} --allow recompute")
    if source.lower().endswith(".tflite"):
        yield from _boards(plain, settings)
    yield _Rung("tiles", {"allow": ("tile",)}, f"{budget} --allow tile")
    halos = {"allow": ("tile", "recompute-halos")}
    yield _Rung("tiles, recomputed halos", halos, f"{budget} --allow tile,recompute-halos", more=True)
    slow = {"budget": None, "reserve": None, "quick": False, "memories": (f"fast={limit}",), "allow": ("tile",)}
    yield _Rung("with slow memory", slow, f"--memory fast={limit} --allow tile")


def _boards(plain: Plan, settings: Mapping[str, Any]) -> Iterator[_Rung]:
    """The smallest built-in board that has room."""
    from lowtide.allocate.banks.boards import boards

    sizes = {name: sum(bank.capacity for bank in board.banks) for name, board in boards().items()}
    large = sorted((size, name) for name, size in sizes.items() if size >= plain.required_bytes)
    for _, name in large[:1]:
        yield _Rung(f"board {name}", {"budget": None, "board": name}, f"--board {name}")


def _rung_plan(model: Model, settings: dict[str, Any]) -> tuple[int, Plan] | None:
    """Bytes and the plan of a rung; of C all its static memory. None where it does not apply, or nothing of the kind
    was found."""
    try:
        candidate = _uninterrupted(plan(model, **settings))
        required = candidate.required_bytes
        if settings.get("target") == "loops":
            from lowtide.api.emitting import project_of

            code = project_of(candidate, model if isinstance(model, str | Path) else load(model))
            required += code.sizes.other_static_bytes
    except InputError:
        return None
    if settings.get("board") and candidate.status != "ok":
        return None
    if settings.get("memories"):
        return None if candidate.moves is None else (required, candidate)
    changed = bool(candidate.rewrites or candidate.loops or candidate.fission) or not settings.get("allow")
    changed = changed or settings.get("target") == "loops"
    never = settings.get("allow") and candidate.status == "impossible"
    return (required, candidate) if changed and not never else None


def _way(rung: _Rung, required: int, candidate: Plan, base: str, limit: int, seconds: float) -> WayToFit:
    needed = limit if candidate.moves is not None else required
    command, short = f"{base} {rung.flags}", _cut_short(candidate, seconds)
    as_c = rung.changes.get("target") == "loops"
    fits = needed <= limit if as_c else candidate.status == "ok"
    how = "C, without TFLM" if as_c and not candidate.loops else rung.how
    return WayToFit(how, needed, fits, _costs(candidate), command, short)


def _costs(candidate: Plan) -> str:
    """What a plan costs compared with untiled operators, in words."""
    if candidate.moves is not None:
        return f"{candidate.traffic_bytes or 0:,} B moved in a run"
    if candidate.recomputation is not None:
        told = candidate.recomputation
        return f"{100 * told.overhead:.3g} % more {COUNTED[told.counted].split(',')[0]}"
    if candidate.loops or candidate.fission is not None:
        return ""
    parts = {op for planned in candidate.ops for op in planned.origin or ()}
    return f"{len(candidate.order):,} ops run, {len(parts):,} of the model tiled" if parts else ""


def _cut_short(candidate: Plan, seconds: float) -> float | None:
    return seconds if candidate.stopped == "time" else None


def _command(
    model: Model, settings: Mapping[str, Any], changes: Mapping[str, Any] = NO_DIMS, command: str = "research plan"
) -> str:
    """The command without the budget, and without what a rung adds; `changes` has settings of `allow`."""
    words = ["lowtide", *command.split(), str(model) if isinstance(model, str | Path) else "MODEL"]
    options = {option: settings.get(name) for name, option in _COMMAND.items()}
    options |= {option: changes.get(name) for name, option in _OF_CHANGES.items()}
    for option, value in options.items():
        if value is True:
            words.append(option)
        elif value and value not in ("auto", "loops"):
            words += [option, str(getattr(value, "name", value))]
    for name, size in dict(settings.get("dims") or {}).items():
        shape = not isinstance(size, int)
        words += ["--shape" if shape else "--dim", f"{name}={'x'.join(map(str, size)) if shape else size}"]
    return shlex.join(words)
