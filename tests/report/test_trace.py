"""Traces: what Perfetto reads."""

from __future__ import annotations

import json

import lowtide
from lowtide.report.trace import trace_json
from lowtide.report.view import PlanView


def test_counters_slices_and_lives():
    """A counter and an op for each step, a begin and an end for each rectangle, all at the view's own steps."""
    view = PlanView.of(lowtide.research.plan("zoo:swiftnet_cell_a"))
    events = json.loads(trace_json(view))["traceEvents"]
    counters = [e for e in events if e["ph"] == "C"]
    assert [sum(e["args"].values()) for e in counters[:-1]] == list(view.live_bytes)
    assert sum(counters[-1]["args"].values()) == 0
    assert [e["name"] for e in events if e["ph"] == "X"] == [op.name for op in view.ops]
    begins = {e["id"]: e for e in events if e["ph"] == "b"}
    ends = {e["id"]: e["ts"] for e in events if e["ph"] == "e"}
    for i, r in enumerate(view.rectangles):
        assert (begins[i]["ts"], ends[i], begins[i]["args"]["bytes"]) == (r.start, r.end, r.size)


def test_moves_are_instants():
    """Spills and fills, with their bytes."""
    plan = lowtide.research.plan("zoo:swiftnet_cell_a", memories=["fast=190KiB"], target="strict", time=2)
    instants = [e for e in json.loads(trace_json(PlanView.of(plan)))["traceEvents"] if e["ph"] == "i"]
    assert sum(e["args"]["bytes"] for e in instants) == sum(m.bytes for m in plan.moves or ())
    assert instants
