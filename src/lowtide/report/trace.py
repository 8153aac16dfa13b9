"""A plan as a trace for Perfetto and ``chrome://tracing``: a step is a microsecond.

Format: the Trace Event Format's JSON object form. Counters hold live bytes by kind; ops are slices of one thread; what
is in memory are asynchronous slices, which may overlap, one track a memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lowtide.report.view import PlanView

_OPS, _BYTES = 1, 1  # process and thread of the ops; process of the counters


def trace_json(view: PlanView) -> str:
    """The trace as JSON text; times are steps, not how long ops take."""
    import msgspec

    document = {
        "displayTimeUnit": "ns",
        "otherData": {"graph": view.plan.graph, "peak_bytes": view.peak_bytes, "a microsecond": "is a step"},
        "traceEvents": list(_events(view)),
    }
    return msgspec.json.encode(document).decode()


def _events(view: PlanView) -> Iterator[dict[str, Any]]:
    yield _named("process_name", _OPS, 0, view.plan.graph or "graph")
    yield _named("thread_name", _OPS, _OPS, "ops")
    for m, memory in enumerate(view.memories):
        yield _named("process_name", 2 + m, 0, f"memory {memory.name}")
    for step, op in enumerate(view.ops):
        arguments = {"type": op.type, "live_bytes": view.live_bytes[step], **({"of": op.of} if op.edit else {})}
        yield _event("X", op.name, op.edit or "op", step, pid=_OPS, tid=_OPS, dur=1, args=arguments)
        kinds = {kind: column[step] for kind, column in view.kinds.items()}
        yield _event("C", "live bytes", "memory", step, pid=_BYTES, args=kinds)
    yield _event("C", "live bytes", "memory", view.steps, pid=_BYTES, args=dict.fromkeys(view.kinds, 0))
    for i, r in enumerate(view.rectangles):
        arguments = {"bytes": r.size, "kind": r.kind, **({} if r.offset is None else {"offset": r.offset})}
        place = {"pid": 2 + r.memory, "tid": 0, "id": i}
        yield _event("b", r.name, "memory", r.start, args=arguments, **place)
        yield _event("e", r.name, "memory", r.end, **place)
    for m in view.moves:
        arguments = {"bytes": m.bytes, "from": m.source, "to": m.goal}
        yield _event("i", m.kind, "move", m.step, pid=_OPS, tid=_OPS, s="t", args=arguments)


def _event(phase: str, name: str, category: str, step: int, **more: Any) -> dict[str, Any]:
    return {"ph": phase, "name": name, "cat": category, "ts": step, **more}


def _named(what: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "args": {"name": name}}
