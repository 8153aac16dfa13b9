"""A plan as custom node data of Model Explorer: the model's own graph, each op in the colour of the bytes at its steps.

Format: the node data of one graph, as google-ai-edge/model-explorer describes it (`NodeDataProviderGraphData` among its
types): `results` by node keys, which are a node's id or the name of a tensor that it makes. Its readers give nodes
other ids in each format (TFLite: the operator's index; ONNX: its name), so that an op has each of its keys; those that
are in no graph are not looked at.
"""

from __future__ import annotations

from lowtide.plan import Plan
from lowtide.report.view import PlanView

GRADIENT = ((0.0, "#fff7ec"), (0.5, "#fdbb84"), (1.0, "#b30000"))
"""Stops and colours, from the least bytes of an op to the most: light to dark, which those read too who see no red."""
_DARK = 0.8  # from which stop on text is white


def overlay_json(view: PlanView) -> str:
    """The node data as JSON text: of each of the user's ops the most bytes at a step at which any of it runs."""
    import msgspec

    values: dict[str, int] = {}
    for step, keys in enumerate(_keys(view)):
        for key in keys:
            values[key] = max(values.get(key, 0), view.live_bytes[step])
    least, most = min(values.values(), default=0), max(values.values(), default=0)
    dark = least + _DARK * (most - least)
    document = {
        "name": f"live bytes, peak {view.peak_bytes:,}",
        "results": {
            key: {"value": value, **({"textColor": "#ffffff"} if dark < value else {})} for key, value in values.items()
        },
        "gradient": [{"stop": stop, "bgColor": colour} for stop, colour in GRADIENT],
        "hideAggregatedStats": ["sum", "avg"],
    }
    return msgspec.json.encode(document).decode()


def _keys(view: PlanView) -> list[list[str]]:
    """What the user's op of each step is called: names, tensors that are there from then on, and ids if no name is
    a number."""
    plan = view.plan
    numbers = any(t.name.isdigit() for t in plan.tensors) or any(op.name.isdigit() for op in plan.ops)
    made: dict[int, list[str]] = {}
    for r in view.rectangles:
        if r.tensor is not None and r.kind != "input" and view.counts(r):
            made.setdefault(r.start, []).append(r.name)
    rows: list[list[str]] = []
    for step, op in enumerate(view.ops):
        ids = [] if numbers else [str(v) for v in _user_ids(plan, op.op)]
        names = [op.of] if op.of else []
        rows.append([*ids, *names, *(made.get(step, ()) if not op.edit else ())])
    return rows


def _user_ids(plan: Plan, op: int) -> list[int]:
    """Ids of the user's ops that an op is, recomputes, or is a part of."""
    by_id = {o.id: o for o in plan.ops}
    loops = {loop.op: loop.ops for loop in plan.loops or ()}
    if op in loops:
        return list(loops[op])
    found = by_id.get(op)
    while found is not None and found.recompute_of is not None:
        op = found.recompute_of
        found = by_id.get(op)
    return list(found.origin or ()) if found is not None and found.part is not None else [op]
