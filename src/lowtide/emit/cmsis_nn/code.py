"""The text of `model.c` whose layers are CMSIS-NN's: tables of calls, of steps and of moves, and what runs them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from lowtide.emit.arithmetic import ADD_SHIFT, WIDE_ADD_SHIFT
from lowtide.emit.cmsis_nn.arena import Arena
from lowtide.emit.cmsis_nn.layers import SIMD, Layer, Layers
from lowtide.emit.cmsis_nn.parameters import Parameters
from lowtide.emit.cmsis_nn.stripes import Call, Move
from lowtide.emit.ends import Ends
from lowtide.emit.kernel import Kernel
from lowtide.emit.kernels import Kernels
from lowtide.emit.places import View, complete, element_bytes, sizes_of
from lowtide.emit.project import includes, kernel_limits, parameters, parts_of, rounding, used
from lowtide.emit.schedule import Source
from lowtide.emit.templates import filled, text
from lowtide.errors import InputError
from lowtide.graph import Graph

_MOST_STEPS = 1 << 16
_LONGEST = 96
"""Steps that are tried as a run."""


@dataclass(frozen=True)
class Kind:
    """A kind of call: type and name of its parameters, the call of them, and files of C after ``cmsis_``."""

    type: str
    table: str
    call: str
    files: tuple[str, ...]


KINDS = {
    "conv": Kind("rows_t", "convs", "nn_conv({}, y, rows)", ("rows", "conv")),
    "depthwise": Kind("rows_t", "depthwises", "nn_depthwise({}, y, rows)", ("rows", "depthwise")),
    "average": Kind("rows_t", "averages", "nn_pool({}, y, rows, 1)", ("rows", "pool")),
    "largest": Kind("rows_t", "largests", "nn_pool({}, y, rows, 0)", ("rows", "pool")),
    "overall": Kind("rows_t", "overalls", "nn_pool({}, 0, 1, 1)", ("rows", "pool")),
    "product": Kind("product_t", "products", "nn_product({})", ("product_type", "product")),
    "add": Kind("sum_of_two_t", "sums_of_two", "nn_add({}, y, rows)", ("add_type", "add")),
    "mul": Kind("product_of_two_t", "products_of_two", "nn_mul({}, y, rows)", ("mul_type", "mul")),
    "softmax": Kind("exponents_t", "softmaxes", "nn_softmax({})", ("softmax",)),
    "concat": Kind("channels_t", "joined", "nn_concat({}, y, rows)", ("concat",)),
    "total": Kind("total_t", "totals", "nn_total({}, y, rows)", ("rows", "total")),
    "wide_conv": Kind("rows_t", "wide_convs", "nn_wide_conv({}, y, rows)", ("rows", "wide", "wide_conv")),
    "wide_depthwise": Kind(
        "rows_t", "wide_depthwises", "nn_wide_depthwise({}, y, rows)", ("rows", "wide", "wide_depthwise")
    ),
    "wide_average": Kind("rows_t", "wide_averages", "nn_wide_pool({}, y, rows, 1)", ("rows", "wide", "wide_pool")),
    "wide_largest": Kind("rows_t", "wide_largests", "nn_wide_pool({}, y, rows, 0)", ("rows", "wide", "wide_pool")),
    "wide_product": Kind("product_t", "wide_products", "nn_wide_product({})", ("product_type", "wide", "wide_product")),
    "wide_add": Kind("sum_of_two_t", "wide_sums_of_two", "nn_wide_add({}, y, rows)", ("add_type", "wide", "wide_add")),
    "wide_mul": Kind(
        "product_of_two_t", "wide_products_of_two", "nn_wide_mul({}, y, rows)", ("mul_type", "wide", "wide_mul")
    ),
    "wide_concat": Kind("channels_t", "wide_joined", "nn_concat({}, y, rows)", ("concat",)),
}
_OTHER_BUILDS = {
    "none": "defined(ARM_MATH_DSP) || defined(ARM_MATH_MVEI)",
    "dsp": "defined(ARM_MATH_MVEI)",
    "mve": "defined(ARM_MATH_DSP) && !defined(ARM_MATH_MVEI)",
}
"""Where CMSIS-NN is compiled for other instructions, and may ask for more scratch than there is."""


@dataclass
class Places:
    """Where tensors lie: `Ends` asks."""

    graph: Graph
    layers: Layers
    arena: Arena
    given: tuple[int, ...] = ()

    def offset_of(self, tensor: int) -> int | None:
        """Byte at which a complete tensor begins; None if it has no place."""
        return self.arena.at.get(("tensor", self.layers.held(tensor)))


@dataclass
class Code:
    """What is written of chosen segments."""

    parameters: Parameters
    places: Places = field(init=False)
    makers: Kernels = field(init=False)
    sources: tuple[Source, ...] = ()
    tables: dict[str, list[str]] = field(default_factory=dict)  # parameters of each kind of call, initialisers
    rows: list[tuple[str, int]] = field(default_factory=list)  # of each layer its kind, and the index of its parameters
    own: dict[str, list[Kernel]] = field(default_factory=dict)  # lowtide's own kernels
    macs: int = 0

    def __post_init__(self) -> None:
        layers = self.layers
        self.places = Places(layers.graph, layers, self.parameters.chosen.arena)
        self.makers = Kernels(layers.graph, layers.weights)
        for k, layer in enumerate(layers.listed):
            kind, rows = self.parameters.of(k, layer)
            if kind == "own":
                self._own(layer)
                continue
            listed = self.tables.setdefault(kind, [])
            self.rows.append((kind, len(listed)))
            listed += [f"    {row}, /* op {layer.op.id}, {layer.op.type} */" for row in rows]
            self.macs += layer.macs * layer.rows

    @property
    def layers(self) -> Layers:
        """Of the model."""
        return self.parameters.layers

    def _own(self, layer: Layer) -> None:
        """A layer that lowtide's own kernel runs."""

        def find(tensor: int) -> View:
            t = self.layers.tensor(tensor)
            at = self.places.offset_of(tensor)
            assert at is not None, t
            return complete(at, sizes_of(t), element_bytes(t))

        kernel = self.makers.kernel(layer.op, find)
        listed = self.own.setdefault(kernel.name, [])
        self.rows.append((f"own_{kernel.name}", len(listed)))
        listed.append(kernel)
        self.macs += kernel.macs

    def steps(self) -> tuple[list[str], list[str], list[str]]:
        """The tables of steps, of runs of steps that repeat, and of moves. Raises `InputError` if they are too long."""
        steps: list[str] = []
        runs: list[str] = []
        moves: dict[Move, int] = {}
        count = 0
        for part in self.parameters.chosen.parts:
            words = [f"{{{part.begin}, 0}}"]
            for step in part.steps:
                if isinstance(step, Call):
                    words.append(f"{{{step.layer}, {step.end - step.first}}}")
                else:
                    key = Move(step.tensor, 0, step.kept)
                    words.append(f"{{MOVES + {moves.setdefault(key, len(moves))}, {step.rows}}}")
            steps.append(f"    /* layers {part.begin} to {part.end - 1} */")
            for listed, times in repeated(words):
                runs.append(f"    {{{count}, {len(listed)}, {times}}},")
                count += len(listed)
                steps += [f"    {', '.join(listed[i : i + 8])}," for i in range(0, len(listed), 8)]
        rows = [f"    {{{self.parameters.place(move.tensor)}, {move.kept}}}," for move in moves]
        if count >= _MOST_STEPS:
            raise InputError("it has more steps than the code counts; allow a larger budget", self.layers.graph.source)
        return steps, runs, rows or ["    {{0, 0, -1}, 0},"]

    def text(self, title: str, ends: Ends) -> str:
        """All of model.c."""
        simd = self.layers.simd
        others = _OTHER_BUILDS.get(simd, "")
        checks = f"#if {others}\n#error made for CMSIS-NN with --simd {simd}: make it again\n#endif\n" if others else ""
        shown = ", ".join(SIMD) if simd == "any" else simd
        steps, runs, moves = self.steps()
        most = max(part.end - part.begin for part in self.parameters.chosen.parts)
        limits = [f"RUNS = {len(runs)}", f"MOST_LAYERS = {most}"]
        limits += [f"FRONTS = {max(1, len(self.parameters.fronts))}", f"MOVES = {len(self.layers.listed)}"]
        limits += [f"LEFT_SHIFT = {ADD_SHIFT}"] if "add" in self.tables else []
        limits += [f"WIDE_LEFT_SHIFT = {WIDE_ADD_SHIFT}"] if "wide_add" in self.tables else []
        limits += kernel_limits(self.own)
        limits += [f"STATE_BYTES = {self.makers.state_bytes}"] if self.makers.state_bytes else []
        kinds = [*self.tables, *(f"own_{name}" for name in sorted(self.own))]
        functions, run = self._functions(), text("cmsis_run.c")
        functions = used(text("cmsis_places.c"), f"{functions}{run}run_of_steps_t;") + functions
        words = {"TITLE": title, "SIMD": shown, "CHECKS": checks, "INCLUDES": includes([functions])}
        lines = [
            filled("cmsis_head.c", words),
            f"enum {{ {', '.join(limits)} }};",
            f"enum {{ {', '.join(f'LAYER_{kind.upper()}' for kind in kinds)} }};",
            "",
            functions,
        ]
        lines += parameters(self.own) + self._parameters()
        for kind, name, rows in (
            ("step_t", "steps", steps),
            ("run_of_steps_t", "runs", runs),
            ("move_t", "moves", moves),
        ):
            lines += [f"static const {kind} {name}[] = {{", *rows, "};", ""]
        lines += self._runs(kinds)
        lines += [run + text("cmsis_move.c")]
        lines += [text("reset.c")] if self.makers.state_bytes else []
        lines += [*ends.functions(), filled("guard.c", {"ARRAYS": "{arena_bytes, MODEL_ARENA_BYTES}"})]
        return "\n".join(lines)

    def _functions(self) -> str:
        """C of the kinds of calls that there are, and of own kernels."""
        names = sorted(self.own)
        parts = parts_of(self.own)
        parts = list(dict.fromkeys([*parts, *(("fixed", "scaled") if "total" in self.tables else ())]))
        own = "".join(rounding(part, names) for part in parts)
        kinds = dict.fromkeys(f"cmsis_{name}.c" for kind in self.tables for name in KINDS[kind].files)
        base = used(text("base.c"), own) if parts else ""
        return base + own + "".join(map(text, kinds))

    def _parameters(self) -> list[str]:
        """The tables of the library's calls."""
        lines = []
        for kind, rows in self.tables.items():
            lines += [f"static const {KINDS[kind].type} {KINDS[kind].table}[] = {{", *rows, "};", ""]
        return lines

    def _runs(self, kinds: Sequence[str]) -> list[str]:
        """What runs a layer."""
        guards = [layer.guard for layer in self.layers.listed]
        guarded = any(guards)
        lines = ["typedef struct {", "    uint8_t kind;", "    uint16_t index;"]
        lines += (
            ["    int32_t condition; /* its byte, of an op of a branch, or -1 */", "    int8_t holds;"]
            if guarded
            else []
        )
        lines += ["} layer_t;", "", "static const layer_t layers[] = {"]
        for (kind, index), guard in zip(self.rows, guards, strict=True):
            at = "" if not guarded else ", -1, 0" if guard is None else self._guard(*guard)
            lines.append(f"    {{LAYER_{kind.upper()}, {index}{at}}},")
        lines += ["};", "", "static void run_layer(const layer_t *layer, int32_t y, int32_t rows)", "{"]
        if guarded:
            lines += [
                "    if ((layer->condition >= 0) && ((*bytes_at(layer->condition) != 0) != (layer->holds != 0))) {",
                "        return;",
                "    }",
            ]
        lines += ["    switch (layer->kind) {"]
        for kind in kinds:
            if kind in KINDS:
                call = KINDS[kind].call.format(f"&{KINDS[kind].table}[layer->index]")
                lines += [f"    case LAYER_{kind.upper()}:", f"        {call};", "        break;"]
                continue
            name = kind.removeprefix("own_")
            boxes = [f"{{0, {k.sizes[0]}, 0, {k.sizes[1]}, 0, {k.sizes[2]}}}" for k in self.own[name]]
            lines += [
                f"    case LAYER_{kind.upper()}: {{",
                f"        static const box_t boxes[] = {{{', '.join(boxes)}}};",
                f"        {name}(&{name}s[layer->index], &boxes[layer->index]);", "        break;", "    }",
            ]  # fmt: skip
        return [*lines, "    default:", "        (void)y;", "        (void)rows;", "        break;", "    }", "}", ""]

    def _guard(self, tensor: int, holds: bool) -> str:
        """Where the condition of an op of a branch is, and what it has to be."""
        return f", {self.places.offset_of(tensor)}, {int(holds)}"


def repeated(words: Sequence[str]) -> list[tuple[list[str], int]]:
    """Words as runs, each with how often it repeats: the one that saves most from the left on.

    >>> repeated(["a", "b", "c", "b", "c", "d"])
    [(['a'], 1), (['b', 'c'], 2), (['d'], 1)]
    """
    result: list[tuple[list[str], int]] = []
    plain: list[str] = []
    at = 0
    while at < len(words):
        best, length = 1, 1
        for size in range(1, min(_LONGEST, (len(words) - at) // 2) + 1):
            times = 1
            while words[at : at + size] == words[at + times * size : at + (times + 1) * size]:
                times += 1
            if size * (times - 1) > length * (best - 1):
                best, length = times, size
        if best == 1:
            plain.append(words[at])
            at += 1
            continue
        result += [(plain, 1)] if plain else []
        result.append((list(words[at : at + length]), best))
        plain = []
        at += length * best
    return [*result, *([(plain, 1)] if plain else [])]
