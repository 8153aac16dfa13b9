"""A planned step as plain Python: a line for each op, views where they are read, `del` where a tensor dies.

The source is what runs: nothing interprets a graph, the order of the plan is kept, and a debugger steps through it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from lowtide.read.aten.trace import Ref
from lowtide.torch.program import Action, Call, Program, Word
from lowtide.torch.sequence import Sequence
from lowtide.torch.swap import HOST, IMPORTS, begin_load, begin_store, end_load, end_store


def source_of(program: Program, sequence: Sequence) -> str:
    """Source of a function ``step(given, h)``: the given tensors in the order of `Program.givens`, and the numbers
    that the optimizer gives; it returns what `Program.results` says, in that order."""
    moves = any(instance.moved is not None for instance in sequence.instances)
    lines = [
        f'"""{program.name}: one step, as lowtide planned it."""',
        "",
        *(IMPORTS[program.device[0]] if moves else "import torch").split("\n"),
        "",
        "aten = torch.ops.aten",
        *(HOST.split("\n") if moves and program.device[0] == "cpu" else []),
        "",
        "",
        *(line for body in program.bodies.values() for line in (*body.source.split("\n"), "")),
        "def step(given, h):",
        '    """Run the step, under torch.no_grad(), on the tensors below and numbers of the optimizer by name."""',
        "    [",
        *(f"        {g.name},  # {g.role} {g.target!r} {g.form.dtype}{list(g.form.shape)}" for g in program.givens),
        "    ] = given",
        *(["    host = {}"] if moves and program.device[0] != "cpu" else []),
    ]
    for k, instance in enumerate(sequence.instances):
        lines += [f"    {end_load(name, program.forms[name])}" for name in instance.waits]
        if instance.moved is not None:
            name, load = instance.moved
            lines.append(f"    {(begin_load if load else end_store)(name, program.forms[name])}")
        else:
            lines += _lines(program.actions[instance.op], instance.made, instance.recomputed)
        lines += [f"    {begin_store(name, program.forms[name])}" for name in instance.begins]
        dies = sequence.dies[k]
        if dies:
            lines.append(f"    del {', '.join(dies)}")
    results = ", ".join(expression(result.value) for result in program.results)
    lines += [f"    return [{results}]", ""]
    return "\n".join(lines)


def _lines(action: Action, read: frozenset[str], recomputed: bool) -> Iterator[str]:
    """The line of an op, and what becomes of results without a consumer."""
    call, note = expression(action.call), "  # again" if recomputed else ""
    if not action.several:
        name = action.outputs[0] if action.outputs else None
        yield f"    {name} = {call}{note}" if name is not None and name in read else f"    {call}{note}"
        return
    targets = [name if name is not None and name in read else "_" for name in action.outputs]
    yield f"    {', '.join(targets)}{',' if len(targets) == 1 else ''}{' = ' if targets else ''}{call}{note}"
    if "_" in targets:
        yield "    del _"


def expression(value: Any, names: Mapping[str, str] | None = None) -> str:
    """A value as source; `names`: other texts for references.

    >>> expression(Call("aten.t.default", (Ref("w"),)))
    'aten.t.default(w)'
    """
    if isinstance(value, Ref):
        return value.name if names is None else names.get(value.name, value.name)
    if isinstance(value, Call):
        parts = [expression(arg, names) for arg in value.args]
        parts += [f"{key}={expression(arg, names)}" for key, arg in value.kwargs]
        space, _, name = value.target.partition(".")
        known = {"aten": value.target, "body": name, "optimizer": f'h["{name}"]'}
        target = known.get(space, f"torch.ops.{value.target}")
        picked = "" if value.pick is None else f"[{value.pick}]"
        return f"{target}({', '.join(parts)}){picked}"
    if isinstance(value, tuple):
        return f"[{', '.join(expression(inner, names) for inner in value)}]"
    if isinstance(value, Word):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return repr(value)


def executable(source: str, name: str) -> Any:
    """The function ``step`` of a source that `source_of` made."""
    namespace: dict[str, Any] = {}
    exec(compile(source, f"<{name}: planned step>", "exec"), namespace)
    return namespace["step"]
