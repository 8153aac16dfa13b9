"""The files of a project: code, tables, weights, a host program and a CMake file, as text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lowtide.emit.arithmetic import ADD_SHIFT, WIDE_ADD_SHIFT
from lowtide.emit.bodies import with_bodies
from lowtide.emit.ends import Ends
from lowtide.emit.kernel import Kernel
from lowtide.emit.kernels import Kernels
from lowtide.emit.parts import PARTS
from lowtide.emit.places import ELEMENT_BYTES, Places, View, complete, element_bytes, sizes_of
from lowtide.emit.schedule import INPUT, Node, Schedule
from lowtide.emit.templates import Part, filled, part_text, text
from lowtide.emit.weights import Weights
from lowtide.errors import InputError
from lowtide.graph import Graph, Kind
from lowtide.plan import Plan
from lowtide.read.tflite.model import TfliteFile
from lowtide.write.c_header import comment

_COUNTER_WORDS = 3
"""Short counters beside those of the nodes."""


@dataclass(frozen=True)
class CodeSizes:
    """What the code takes."""

    # arena_bytes, weight_bytes: the plan's arena; constants of the model, multipliers and shifts among them
    arena_bytes: int
    weight_bytes: int
    counter_bytes: int  # counters of the schedule, static, in addition to the arena
    state_bytes: int  # what operators keep from one run to the next, static too
    macs: int  # multiply-accumulates of one run
    moved_bytes: int  # that ops read and write in one run: each tensor and each constant once for each op
    # loops, ops: row loops, and ops in all
    loops: int
    ops: int
    boards: tuple[dict[str, Any], ...] = ()  # a row for each board that the code was run on (`docs/contract.md`)

    @property
    def other_static_bytes(self) -> int:
        """Static memory in addition to the arena."""
        return self.counter_bytes + self.state_bytes


@dataclass(frozen=True)
class Project:
    """Texts by the names of their files, sizes, and what `model_run` is called with for arrays `input` and `output`."""

    files: dict[str, str]
    sizes: CodeSizes
    call: str


def check(graph: Graph, data: bytes) -> None:
    """Whether C can be written for a graph: asked before it is planned. Raises `InputError`: it is of no .tflite file,
    or has an op or a tensor that no kernel takes."""
    place = graph.source or graph.name
    if not isinstance(graph.file, TfliteFile):
        raise InputError("C is written for .tflite files; convert the model", place)
    if graph.folded or not graph.ops:
        raise InputError("it has no ops, or some that read constants alone; C is not written for that", place)
    inlined, branches = with_bodies(graph)
    kernels = Kernels(inlined, Weights(inlined, data))

    def anywhere(tensor: int) -> View:
        t = inlined.tensor_by_id[tensor]
        return complete(0, sizes_of(t), element_bytes(t))

    inner = [op for pair in branches.values() for branch in pair for op in branch.ops]
    for op in (*graph.ops, *inner):
        if op.type != "IF":
            kernels.kernel(op, anywhere)
    for t in graph.tensors:
        if t.kind in (Kind.INPUT, Kind.OUTPUT) and t.dtype not in ELEMENT_BYTES:
            raise InputError(f"{t.label} is {t.dtype}; C is not written for that: quantise inputs and outputs", place)


def files_of(name: str) -> tuple[str, ...]:
    """Names of the files of a project.

    >>> files_of("kws")
    ('kws.h', 'kws.c', 'kws_weights.h', 'kws_weights.c', 'main.c', 'CMakeLists.txt')
    """
    return f"{name}.h", f"{name}.c", f"{name}_weights.h", f"{name}_weights.c", "main.c", "CMakeLists.txt"


def named(files: dict[str, str], name: str) -> dict[str, str]:
    """The files with another word in the place of ``model`` in all names, so that several models link."""
    if name == "model":
        return files
    result = {}
    for file, code in files.items():
        own = re.sub(r"\bmodel(?=_|\.h\b|\.c\b)", name, code)
        own = re.sub(r"\bMODEL(?=_)", name.upper(), own)
        if file == "CMakeLists.txt":
            own = re.sub(r"(?m)^(?!#)(.*)$", lambda line: re.sub(r"\bmodel\b", name, line[1]), own)
        result[re.sub(r"^model(?=_|\.)", name, file)] = own
    return result


def project(graph: Graph, plan: Plan, data: bytes, name: str = "model") -> Project:
    """A plan as a project in C. `graph`: of a .tflite file, as `check` lets it pass. `plan`: for it, in one arena, with
    or without row loops. `data`: the file. `name`: what all files, functions and macros begin with. Raises
    `InputError`: as `check`, or the plan has what code is not written for."""
    check(graph, data)
    _check_plan(plan, graph)
    inlined, branches = with_bodies(graph)
    weights = Weights(inlined, data)
    schedule = Schedule(Places(inlined, plan, branches), Kernels(inlined, weights), branches)
    if not schedule.loops:
        raise InputError(
            "it has no operator that computes anything; C is written for models that have one", graph.source
        )
    ends = Ends(schedule)
    most = max(len(nodes) for nodes in schedule.loops)
    kernels = [kernel for listed in schedule.kernels.values() for kernel in listed]
    sizes = CodeSizes(
        arena_bytes=schedule.places.arena_bytes,
        weight_bytes=weights.bytes,
        counter_bytes=-(-(6 * most + 2 * _COUNTER_WORDS) // 4) * 4,
        state_bytes=schedule.makers.state_bytes,
        macs=sum(kernel.macs for kernel in kernels),
        moved_bytes=sum(graph.tensor_by_id[t].size for op in graph.ops for t in (*op.inputs, *op.outputs)),
        loops=len(plan.loops or ()),
        ops=len(graph.ops),
    )
    words = {**ends.words, "ARENA": str(sizes.arena_bytes), "COUNTERS": str(sizes.counter_bytes)}
    words["BANKS"] = schedule.places.memories.sizes()
    words["TITLE"] = f"{comment(Path(graph.source).stem or graph.name)}: {sizes.ops} ops, {sizes.loops} row loops."
    return Project(
        named(
            {
                "model.h": filled("model.h", {**words, "WEIGHTS": str(weights.bytes), "MACS": str(sizes.macs)}),
                "model.c": _code(schedule, ends, words["TITLE"], most),
                "model_weights.h": weights.header(),
                "model_weights.c": weights.source(),
                "main.c": filled("main.c", {**ends.words, "AGAIN": ends.next_inference()}),
                "CMakeLists.txt": text("CMakeLists.txt"),
            },
            name,
        ),
        sizes,
        ends.words["CALL"],
    )


def _check_plan(plan: Plan, graph: Graph) -> None:
    """That nothing is in a plan that the code does not do."""
    over_inputs = {loop.over for loop in plan.loops or ()}
    changes = plan.rewrites or plan.fission or any(out not in over_inputs for out, _, _ in plan.overlap or ())
    moves = plan.moves or plan.streams or len({r.tensor for r in plan.residency or ()}) != len(plan.residency or ())
    placed = plan.offsets is not None or plan.residency is not None
    if plan.rules is not None and plan.rules.chains != "apart":
        raise InputError(f"the plan is for {plan.target}: C is written op by op; plan with chains=apart", graph.source)
    if plan.rules is not None and plan.rules.rule:
        raise InputError(
            f"the plan is for {plan.target}, whose own kernels it counts on; plan with --target loops", graph.source
        )
    if changes or moves or plan.arena_bytes is None or not placed:
        raise InputError(
            "the plan changes ops, moves tensors or lets them overlap, and C is written for plans in one arena or in "
            "several memories; plan with --target loops, and with no --allow but row-streaming",
            graph.source,
        )


def _code(schedule: Schedule, ends: Ends, title: str, most: int) -> str:
    """All of model.c."""
    names = sorted(schedule.kernels)
    parts = parts_of(schedule.kernels)
    limits = [f"MOST_NODES = {most}", f"LOOPS = {len(schedule.loops)}", *kernel_limits(schedule.kernels)]
    limits += [f"STATE_BYTES = {schedule.makers.state_bytes}"] if schedule.makers.state_bytes else []
    memories = schedule.places.memories
    tables = parameters(schedule.kernels)
    guards = _guards(any(node.guard is not None for nodes in schedule.loops for node in nodes))
    run = filled("run.c", guards)
    operands = [*(rounding(part, names) for part in parts), filled("schedule.c", guards)]
    operands += [text("reads.c")] if any(node.reads for nodes in schedule.loops for node in nodes) else []
    head = filled("head.c", {"TITLE": title, "INCLUDES": includes([*operands, *tables])})
    head += memories.arrays(list(schedule.places.given.values()))
    lines = [head, f"enum {{ {', '.join(limits)} }};", ""]
    lines += [used(text("base.c"), "".join((*operands, run))), *operands, *tables]
    lines += [line for nodes in schedule.loops for node in nodes for line in _function(schedule, node)]
    lines += [*_nodes(schedule), run]
    copied = any(ends.at[t.id] is not None and t.id not in ends.given for t in ends.held)
    lines += [text("take.c")] if copied else []
    lines += [text("give.c"), *ends.feeding()]
    lines += [text("reset.c")] if schedule.makers.state_bytes else []
    lines += [*ends.functions(), filled("guard.c", {"ARRAYS": memories.guarded()})]
    return "\n".join(lines)


def parts_of(kernels: Mapping[str, Sequence[Kernel]]) -> list[Part]:
    """Parts of C that kernels need, each once, in their order."""
    parts = [kernels[name][0].parts or PARTS.get(name, (name,)) for name in sorted(kernels)]
    return list(dict.fromkeys(part for needed in parts for part in needed))


def kernel_limits(kernels: Mapping[str, Sequence[Kernel]]) -> list[str]:
    """Constants that kernels count on."""
    most = {f"MOST_{name.upper()}": kernels[name] for name in ("conv", "depthwise") if name in kernels}
    limits = [f"{name} = {max(kernel.taps for kernel in listed)}" for name, listed in most.items()]
    limits += [f"ADD_FACTOR = {1 << ADD_SHIFT}"] if "add" in kernels else []
    return limits + ([f"WIDE_ADD_FACTOR = {1 << WIDE_ADD_SHIFT}"] if "wide_add" in kernels else [])


def includes(operands: Sequence[str]) -> str:
    """Further headers of C that the code needs."""
    code = "".join(operands)
    names = [
        ("float.h", r"\bFLT_MAX\b"),
        ("math.h", r"\b(?:exp|expm1|log|sqrt|tanh|sin|cos|pow|fabs|floor|ceil|round)f\("),
    ]
    return "".join(f"#include <{name}>\n" for name, used in names if re.search(used, code))


def rounding(part: Part, names: Sequence[str]) -> str:
    """A template of code; what only two roundings and softmax need, without softmax for two roundings alone."""
    code = part_text(part)
    if part != "fixed" or {"softmax", "wide_softmax"} & set(names):
        return code
    return f"#if !MODEL_SINGLE_ROUNDING\n{code}#endif\n"


def used(base: str, rest: str) -> str:
    """What all models have, without functions that this one's code does not call: compilers warn of them."""
    kept: list[str] = []
    for block in reversed(base.rstrip("\n").split("\n\n")):
        name = re.search(r"^(?:static|INLINED) \w+ \*?(\w+)\(|^} (\w+);", block, re.MULTILINE)
        if name is None or re.search(rf"\b{name[1] or name[2]}\b", rest):
            kept.append(block)
            rest += block
    return "\n\n".join(reversed(kept)) + "\n"


def parameters(kernels: Mapping[str, Sequence[Kernel]]) -> list[str]:
    """The parameters of all kernels."""
    lines: list[str] = []
    for name in sorted(kernels):
        rows = []
        for k, kernel in enumerate(kernels[name]):
            if kernel.operands:
                lines += [f"static const {kernel.operand_type} {name}_pieces_{k}[{len(kernel.operands)}] = {{"]
                lines += [*(f"    {code}," for code in kernel.operands), "};", ""]
            rows.append(f"    {kernel.text.replace('PIECES', f'{name}_pieces_{k}')}, /* {comment(kernel.op)} */")
        lines += [f"static const {name}_t {name}s[{len(rows)}] = {{", *rows, "};", ""]
    return lines


def _guards(guarded: bool) -> dict[str, str]:
    """What the code of the schedule says of branches."""
    if not guarded:
        return {"GUARDS": "", "RUN": "        node->run(first, second);\n"}
    return {
        "GUARDS": "    int32_t condition;        /* byte of the one that it runs by, or -1 */\n"
        "    int8_t holds;             /* whether that has to hold */\n",
        "RUN": "        if ((node->condition < 0) || ((*bytes_at(node->condition) != 0) == (node->holds != 0))) {\n"
        "            node->run(first, second);\n        }\n",
    }


def _function(schedule: Schedule, node: Node) -> list[str]:
    """What runs an op at a position of its loop, with all other sizes as constants."""
    if node.kernel == INPUT:
        return []
    kernel, name = schedule.kernels[node.kernel][node.index], f"{node.kernel}_{node.index}"
    box, unused = [f"0, {size}" for size in node.sizes], []
    for axis, place in zip(node.axes, ("first", "second"), strict=True):
        if axis >= 0:
            box[axis] = f"{place}, {place} + 1"
        else:
            unused.append(f"    (void){place};")
    place = "(int32_t first, int32_t second)"
    lines = [
        f"/* {comment(kernel.op)} */",
        f"static void {name}{place}",
        "{",
        f"    const box_t box = {{{', '.join(box)}}};",
    ]
    lines += [*unused, f"    {node.kernel}(&{node.kernel}s[{node.index}], &box);", "}", ""]
    if node.reads:
        lines += [f"/* {_READS} */", f"static const read_t {name}_reads[{len(node.reads)}] = {{"]
        lines += [*(f"    {{{', '.join(map(str, read))}}}," for read in node.reads), "};", ""]
        lines += [f"static int16_t {name}_missing{place}", "{"]
        lines += [f"    return first_missing({name}_reads, {len(node.reads)}, first, second);", "}", ""]
    return lines


_READS = "row_step, row_first, row_last, rows, column_step, column_first, column_last, columns, maker, axes"
_NODES = "positions, width, run, missing, input, first follower, followers, leaves, aside"
"""What the columns of tables are."""


def _nodes(schedule: Schedule) -> list[str]:
    """The tables of the schedule."""
    loops = schedule.loops
    guarded = any(node.guard is not None for listed in loops for node in listed)
    nodes, followers, starts = [], [], []
    for listed in loops:
        starts.append(f"    {{{len(nodes)}, {len(listed)}}},")
        first = len(followers)  # all nodes of a loop have the same ones
        followers += [f"    {which}," for which in listed[0].followers]
        for node in listed:
            name, given = f"{node.kernel}_{node.index}", node.kernel == INPUT
            runs = "an input" if given else schedule.kernels[node.kernel][node.index].op
            numbers = (
                node.positions, node.width, "NULL" if given else name, f"{name}_missing" if node.reads else "NULL",
                node.index if given else 0, first, len(node.followers), int(node.leaves), int(node.aside),
                *(map(int, node.guard or (-1, False)) if guarded else ()),
            )  # fmt: skip
            nodes.append(f"    {{{', '.join(map(str, numbers))}}}, /* {comment(runs)} */")
    if max(len(nodes), len(followers)) >= 1 << 15:
        raise InputError("it has more ops than the tables of the code count; C is written for fewer than 32,768")
    result = [f"/* {_NODES} */"]
    for kind, name, rows in (
        ("node_t", "nodes", nodes),
        ("int16_t", "followers", followers or ["    0,"]),
        ("loop_t", "loops", starts),
    ):
        result += [f"static const {kind} {name}[{len(rows)}] = {{", *rows, "};", ""]
    return result
