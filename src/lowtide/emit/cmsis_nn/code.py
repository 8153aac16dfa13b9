"""The texts of a project whose layers are CMSIS-NN's: parameters of each layer, the steps, and a host program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lowtide.emit import arithmetic
from lowtide.emit.cmsis_nn.arena import Arena, scratch_of
from lowtide.emit.cmsis_nn.choice import Choice, Chosen
from lowtide.emit.cmsis_nn.layers import SIMD, Layer, Layers
from lowtide.emit.cmsis_nn.replay import check_segments
from lowtide.emit.cmsis_nn.stripes import Call, Move
from lowtide.emit.ends import Ends
from lowtide.emit.kernel import Kernel, Material, scale_of, zero_of
from lowtide.emit.kernels import Kernels
from lowtide.emit.places import View, complete, element_bytes, sizes_of
from lowtide.emit.project import PARTS, CodeSizes, Project, kernel_limits, parameters, rounding, used
from lowtide.emit.schedule import Source
from lowtide.emit.templates import filled, text
from lowtide.emit.weights import Weights
from lowtide.errors import InputError
from lowtide.graph import Graph, Kind, Tensor
from lowtide.ops.index import Window
from lowtide.write.c_header import comment

_MOST_STEPS = 1 << 16
_LONGEST = 96
"""Steps that are tried as a run."""
_TABLES = {
    "conv": ("rows_t", "convs"),
    "depthwise": ("rows_t", "depthwises"),
    "average": ("rows_t", "averages"),
    "largest": ("rows_t", "largests"),
    "overall": ("rows_t", "overalls"),
    "product": ("product_t", "products"),
    "add": ("sum_of_two_t", "sums_of_two"),
    "softmax": ("exponents_t", "softmaxes"),
    "concat": ("channels_t", "joined"),
    "total": ("total_t", "totals"),
}
"""Type and name of the parameters of each kind of call."""
_CALLS = {
    "conv": "nn_conv(&convs[layer->index], y, rows)",
    "depthwise": "nn_depthwise(&depthwises[layer->index], y, rows)",
    "average": "nn_pool(&averages[layer->index], y, rows, 1)",
    "largest": "nn_pool(&largests[layer->index], y, rows, 0)",
    "overall": "nn_pool(&overalls[layer->index], 0, 1, 1)",
    "product": "nn_product(&products[layer->index])",
    "add": "nn_add(&sums_of_two[layer->index], y, rows)",
    "softmax": "nn_softmax(&softmaxes[layer->index])",
    "concat": "nn_concat(&joined[layer->index], y, rows)",
    "total": "nn_total(&totals[layer->index], y, rows)",
}
_TEMPLATES = {
    "conv": ("rows", "conv"),
    "depthwise": ("rows", "depthwise"),
    "average": ("rows", "pool"),
    "largest": ("rows", "pool"),
    "overall": ("rows", "pool"),
    "product": ("product",),
    "add": ("add",),
    "softmax": ("softmax",),
    "concat": ("concat",),
    "total": ("rows", "total"),
}
"""Files of C of each kind, after ``cmsis_``."""
_SIMD_CHECKS = {
    "none": ("ARM_MATH_DSP", "ARM_MATH_MVEI"),
    "dsp": ("ARM_MATH_MVEI",),
    "mve": (),
    "any": (),
}
"""What CMSIS-NN must not be compiled for."""


@dataclass
class Places:
    """Where tensors lie: `Ends` asks."""

    graph: Graph
    layers: Layers
    arena: Arena

    def offset_of(self, tensor: int) -> int | None:
        """Byte at which a complete tensor begins; None if it has no place."""
        return self.arena.at.get(("tensor", self.layers.held(tensor)))


@dataclass
class Code:
    """What is written of chosen segments.

    Attributes
    ----------
    tables
        Parameters of each kind of call, initialisers.
    own
        lowtide's own kernels.
    """

    choice: Choice
    chosen: Chosen
    places: Places = field(init=False)
    makers: Kernels = field(init=False)
    sources: tuple[Source, ...] = ()
    tables: dict[str, list[str]] = field(default_factory=dict)
    rows: list[tuple[str, int]] = field(default_factory=list)
    own: dict[str, list[Kernel]] = field(default_factory=dict)
    macs: int = 0

    def __post_init__(self) -> None:
        layers = self.choice.layers
        self.places = Places(layers.graph, layers, self.chosen.arena)
        self.makers = Kernels(layers.graph, layers.weights)
        self.fronts = {t: k for k, t in enumerate(t for part in self.chosen.parts for t in part.buffers)}
        self.part_of = {k: part for part in self.chosen.parts for k in range(part.begin, part.end)}
        for k, layer in enumerate(layers.listed):
            kind, row = self._row(k, layer)
            listed = self.tables.setdefault(kind, []) if kind != "own" else []
            if kind != "own":
                self.rows.append((kind, len(listed)))
                listed.append(f"    {row}, /* op {layer.op.id}, {layer.op.type} */")
            self.macs += layer.macs * layer.rows

    @property
    def layers(self) -> Layers:
        """Of the model."""
        return self.choice.layers

    def _row(self, k: int, layer: Layer) -> tuple[str, str]:
        """Kind of call, and its parameters."""
        calls = [c for c in self.part_of[k].calls if c.layer == k]
        if layer.kind in ("conv", "depthwise"):
            return layer.kind, self._window(k, layer)
        if layer.kind == "pool":
            return ("average" if layer.op.type == "AVERAGE_POOL_2D" else "largest"), self._window(k, layer)
        if layer.kind == "sum":
            return self._total(k, layer, single=len(calls) == 1)
        if layer.kind == "own":
            return self._own(layer)
        make = {"product": self._product, "add": self._add, "softmax": self._softmax, "concat": self._concat}
        return layer.kind, make[layer.kind](layer)

    def _place(self, tensor: int) -> str:
        """An initialiser of `place_t`."""
        at = self.chosen.arena.at
        front = self.fronts.get(tensor, -1)
        return f"{{{at[('rows' if front >= 0 else 'tensor', tensor)]}, {self.layers.row_bytes(tensor)}, {front}}}"

    def _window(self, k: int, layer: Layer) -> str:
        """Of a convolution or pool; a product of several rows is a convolution of one tap over them."""
        operand = layer.operands[0]
        x, y = self.layers.tensor(operand.tensor), self.layers.tensor(layer.result)
        sizes, made, rows, columns = sizes_of(self._shaped(layer, x)), sizes_of(y), operand.window, layer.columns
        if layer.kind == "sum":
            taps = (layer.op.attributes["filter_height"], layer.op.attributes["filter_width"])
            rows, columns = self.layers.window(layer.op, x, y, taps)
        if layer.op.type == "FULLY_CONNECTED":
            depth = (self._constant(layer, 1).shape or (0, 0))[1]
            sizes, made = (1, x.size // depth, depth), (1, x.size // depth, y.size // (x.size // depth))
        rows = rows or self._whole_rows(layer, x, y)
        part = self.part_of[k]
        scratch = scratch_of(self.choice.flow, part)
        numbers = (
            *sizes, *made[1:], rows.taps, columns.taps, rows.stride, columns.stride, rows.dilation, columns.dilation,
            rows.before, columns.before, -zero_of(x), zero_of(y), *self._bounds(layer, y),
            self.chosen.arena.at.get(("scratch", part.begin), 0), scratch,
        )  # fmt: skip
        arrays = ("NULL", "NULL", "NULL", "NULL")
        if layer.kind in ("conv", "depthwise"):
            arrays = self._filters(layer, x, y, made[2], 3 if layer.kind == "depthwise" else 0)
        return _row(self._place(operand.tensor), self._place(layer.result), numbers, *arrays)

    def _shaped(self, layer: Layer, x: Tensor) -> Tensor:
        """The tensor as the op has it, whose bytes another one holds."""
        given = self.layers.graph.tensor_by_id[layer.op.inputs[0]]
        return given if self.layers.held(given.id) == x.id else x

    def _whole_rows(self, layer: Layer, x: Tensor, y: Tensor) -> Window:
        """The window over rows of a layer that runs in one call."""
        if layer.op.type == "FULLY_CONNECTED":
            return Window(1)
        attributes = layer.op.attributes
        taps = (
            (attributes["filter_height"], attributes["filter_width"])
            if layer.kind == "pool"
            else (self._constant(layer, 1).shape or ())[1:3]
        )
        return self.layers.window(layer.op, self._shaped(layer, x), y, taps)[0]

    def _filters(self, layer: Layer, x: Tensor, y: Tensor, channels: int, axis: int) -> tuple[str, ...]:
        """Names of weights, bias, multipliers and shifts."""
        w, weights = self._constant(layer, 1), self.layers.weights
        quant, given = w.quant, layer.op.operands or layer.op.inputs
        assert quant is not None, layer
        scales = quant.scales if len(quant.scales) > 1 else quant.scales * channels
        if len(scales) != channels or (len(quant.scales) > 1 and quant.axis != axis):
            raise InputError(f"{layer.op.label}: its weights have {len(scales)} scales for {channels} channels")
        factors = [arithmetic.convolution(scale_of(x), scale, scale_of(y)) for scale in scales]
        bias = "NULL"
        if len(given) > 2 and given[2] is not None:
            numbers = weights.numbers(given[2])
            if self.layers.tensor(given[2]).dtype != "int32" or len(numbers) != channels:
                raise InputError(f"{layer.op.label}: its bias is not one number of type int32 for each channel")
            bias = weights.array("bias", "int32", numbers)
        return (
            weights.array("weights", "int8", weights.numbers(w.id)),
            bias,
            weights.array("multiplier", "int32", [m for m, _ in factors]),
            weights.array("shift", "int32", [s for _, s in factors]),
        )

    def _product(self, layer: Layer) -> str:
        """Of FULLY_CONNECTED with one row."""
        x, y = self.layers.tensor(layer.operands[0].tensor), self.layers.tensor(layer.result)
        w = self._constant(layer, 1)
        channels, depth = w.shape or (0, 0)
        assert w.quant is not None, layer
        arrays = self._filters(layer, x, y, channels, 0)
        numbers = (depth, channels, -zero_of(x), zero_of(y), *self._bounds(layer, y), int(len(w.quant.scales) > 1))
        sums = "NULL"
        if self.layers.simd in ("mve", "any"):
            weights = self.layers.weights.numbers(w.id)
            given = layer.op.operands or layer.op.inputs
            bias = self.layers.weights.numbers(given[2]) if len(given) > 2 and given[2] is not None else [0] * channels
            totals = [b - zero_of(x) * sum(weights[c * depth : (c + 1) * depth]) for c, b in enumerate(bias)]
            sums = self.layers.weights.array("sums", "int32", totals)
        return _row(self._place(layer.operands[0].tensor), self._place(layer.result), numbers, *arrays, sums)

    def _add(self, layer: Layer) -> str:
        """Of ADD."""
        given = [self.layers.tensor(t) for t in (layer.op.operands or layer.op.inputs) if t is not None]
        a, b, y = *given[:2], self.layers.tensor(layer.result)
        one, other, out = arithmetic.addition(scale_of(a), scale_of(b), scale_of(y))
        numbers = (-zero_of(a), *one, -zero_of(b), *other, zero_of(y), *out, *self._bounds(layer, y))
        first, second = (self._place(self.layers.held(t.id)) for t in (a, b))
        return _row(f"{first}, {second}", self._place(layer.result), numbers)

    def _softmax(self, layer: Layer) -> str:
        """Of SOFTMAX."""
        x = self.layers.tensor(layer.operands[0].tensor)
        depth = (self.layers.tensor(layer.result).shape or (1,))[-1]
        (multiplier, shift), least = arithmetic.softmax(scale_of(x), float(layer.op.attributes["beta"]))
        numbers = (x.size // depth, depth, multiplier, shift, least)
        return _row(self._place(layer.operands[0].tensor), self._place(layer.result), numbers)

    def _concat(self, layer: Layer) -> str:
        """Of CONCATENATION along channels: a row for each operand; the layer's index is the first one's."""
        made = sizes_of(self.layers.tensor(layer.result))
        rows, begin = [], 0
        given = [t for t in (layer.op.operands or layer.op.inputs) if t is not None]
        for i, t in enumerate(given):
            channels = sizes_of(self.layers.tensor(t))[2]
            numbers = (made[1], channels, begin, made[2], int(i == len(given) - 1))
            rows.append(_row(self._place(self.layers.held(t)), self._place(layer.result), numbers))
            begin += channels
        return ",\n    ".join(rows)

    def _total(self, k: int, layer: Layer, *, single: bool) -> tuple[str, str]:
        """Of a mean over all rows and columns."""
        x, y = self.layers.tensor(layer.operands[0].tensor), self.layers.tensor(layer.result)
        height, width, channels = sizes_of(x)
        is_mean = layer.op.type == "MEAN"
        if single and not is_mean:
            return "overall", self._window(k, layer)
        factor = arithmetic.mean(scale_of(x), scale_of(y), height * width) if is_mean else (0, 0)
        bounds = arithmetic.LIMITS["int8"] if is_mean else self._bounds(layer, y)
        numbers = (
            height, width, channels, 1, channels, height, width, 1, 1, 1, 1, 0, 0, -zero_of(x), zero_of(y), *bounds, 0, 0
        )  # fmt: skip
        places = self._place(layer.operands[0].tensor), self._place(layer.result)
        pool = _row(*places, numbers, "NULL", "NULL", "NULL", "NULL")
        at = self.chosen.arena.at[("sums", layer.result)]
        return "total", f"{{{pool}, {at}, {0 if is_mean else height * width}, {factor[0]}, {factor[1]}}}"

    def _own(self, layer: Layer) -> tuple[str, str]:
        """Of lowtide's own kernel: it is listed apart."""

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
        return "own", ""

    def _constant(self, layer: Layer, which: int) -> Tensor:
        tensor = (layer.op.operands or layer.op.inputs)[which]
        assert tensor is not None, layer
        return self.layers.tensor(tensor)

    def _bounds(self, layer: Layer, y: Tensor) -> tuple[int, int]:
        kind = layer.op.attributes.get("fused_activation_function", 0)
        if kind not in (0, 1, 2, 3):
            raise InputError(f"{layer.op.label}: it has activation {kind}; C is written for none and for ReLUs")
        return arithmetic.activation(kind, scale_of(y), zero_of(y))

    def steps(self) -> tuple[list[str], list[str], list[str]]:
        """The tables of steps, of runs of steps that repeat, and of moves."""
        steps: list[str] = []
        runs: list[str] = []
        moves: dict[Move, int] = {}
        count = 0
        for part in self.chosen.parts:
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
        rows = [f"    {{{self._place(move.tensor)}, {move.kept}}}," for move in moves]
        if count >= _MOST_STEPS:
            raise InputError("it has more steps than the code counts; allow a larger budget", self.layers.graph.source)
        return steps, runs, rows or ["    {{0, 0, -1}, 0},"]

    def text(self, title: str, ends: Ends) -> str:
        """All of model.c."""
        simd = self.layers.simd
        checks = "".join(
            f"#if defined({name})\n#error made for CMSIS-NN with --simd {simd}: make it again\n#endif\n"
            for name in _SIMD_CHECKS[simd]
        )
        shown = ", ".join(SIMD) if simd == "any" else simd
        steps, runs, moves = self.steps()
        most = max(part.end - part.begin for part in self.chosen.parts)
        limits = [f"RUNS = {len(runs)}", f"MOST_LAYERS = {most}"]
        limits += [f"FRONTS = {max(1, len(self.fronts))}", f"MOVES = {len(self.layers.listed)}"]
        limits += ["LEFT_SHIFT = 20"] if "add" in self.tables else []
        limits += kernel_limits(self.own)
        limits += [f"STATE_BYTES = {self.makers.state_bytes}"] if self.makers.state_bytes else []
        kinds = [*self.tables, *(f"own_{name}" for name in sorted(self.own))]
        lines = [
            filled("cmsis_head.c", {"TITLE": title, "SIMD": shown, "CHECKS": checks}),
            f"enum {{ {', '.join(limits)} }};",
            f"enum {{ {', '.join(f'LAYER_{kind.upper()}' for kind in kinds)} }};",
            "",
            text("cmsis_places.c") + self._functions(),
        ]
        lines += parameters(self.own) + self._parameters()
        for kind, name, rows in (("step_t", "steps", steps), ("run_of_steps_t", "runs", runs), ("move_t", "moves", moves)):
            lines += [f"static const {kind} {name}[] = {{", *rows, "};", ""]
        lines += self._runs(kinds)
        lines += [text("cmsis_run.c") + text("cmsis_move.c")]
        lines += [text("reset.c")] if self.makers.state_bytes else []
        lines += [*ends.functions(), filled("guard.c", {"ARRAYS": "{arena.bytes, MODEL_ARENA_BYTES}"})]
        return "\n".join(lines)

    def _functions(self) -> str:
        """C of the kinds of calls that there are, and of own kernels."""
        names = sorted(self.own)
        parts = [part for name in names for part in PARTS[name]]
        parts = list(dict.fromkeys([*parts, *(("fixed", "scaled") if "total" in self.tables else ())]))
        own = "".join(rounding(part, names) for part in parts)
        kinds = dict.fromkeys(f"cmsis_{name}.c" for kind in self.tables for name in _TEMPLATES[kind])
        base = used(text("base.c"), own) if parts else ""
        return base + own + "".join(map(text, kinds))

    def _parameters(self) -> list[str]:
        """The tables of the library's calls."""
        lines = []
        for kind, rows in self.tables.items():
            type_, name = _TABLES[kind]
            lines += [f"static const {type_} {name}[] = {{", *rows, "};", ""]
        return lines

    def _runs(self, kinds: Sequence[str]) -> list[str]:
        """What runs a layer."""
        lines = ["typedef struct {", "    uint8_t kind;", "    uint16_t index;", "} layer_t;", ""]
        rows = [f"    {{LAYER_{kind.upper()}, {index}}}," for kind, index in self._indices()]
        lines += ["static const layer_t layers[] = {", *rows, "};", ""]
        lines += ["static void run_layer(const layer_t *layer, int32_t y, int32_t rows)", "{", "    switch (layer->kind) {"]
        for kind in kinds:
            if kind in _CALLS:
                lines += [f"    case LAYER_{kind.upper()}:", f"        {_CALLS[kind]};", "        break;"]
                continue
            name = kind.removeprefix("own_")
            boxes = [f"{{0, {k.sizes[0]}, 0, {k.sizes[1]}, 0, {k.sizes[2]}}}" for k in self.own[name]]
            lines += [
                f"    case LAYER_{kind.upper()}: {{",
                f"        static const box_t boxes[] = {{{', '.join(boxes)}}};",
                f"        {name}(&{name}s[layer->index], &boxes[layer->index]);", "        break;", "    }",
            ]  # fmt: skip
        return [*lines, "    default:", "        (void)y;", "        (void)rows;", "        break;", "    }", "}", ""]

    def _indices(self) -> list[tuple[str, int]]:
        """Kind and index of each layer; of concatenations each operand has a row."""
        result, begin = [], 0
        joined = [layer for layer in self.layers.listed if layer.kind == "concat"]
        starts: list[int] = []
        for layer in joined:
            starts.append(begin)
            begin += len([t for t in (layer.op.operands or layer.op.inputs) if t is not None])
        for kind, index in self.rows:
            result.append((kind, starts[index] if kind == "concat" else index))
        return result


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


def _row(first: str, second: str, numbers: Sequence[int], *names: str) -> str:
    """An initialiser: places, numbers, names of arrays."""
    return f"{{{', '.join([first, second, *map(str, numbers), *names])}}}"


def library_project(graph: Graph, data: bytes, order: Sequence[int], simd: str, budget: int | None) -> tuple[Project, Chosen]:
    """A model as a project in C that calls CMSIS-NN, and what was chosen.

    Parameters
    ----------
    graph
        Of a .tflite file with one subgraph.
    data
        The file.
    order
        Its ops in turn.
    simd
        Instructions that CMSIS-NN will be compiled for: ``none``, ``dsp``, ``mve`` or ``any``.
    budget
        Bytes that the arena may have; None: the least arena that costs little time.

    Raises
    ------
    InputError
        It has an op or a tensor that no kernel takes.
    """
    weights = Weights(graph, data)
    layers = Layers(graph, weights, order, simd)
    choice = Choice(layers, budget)
    chosen = choice.best()
    check_segments(layers, chosen)
    layers.weights = weights = Weights(graph, data)  # without what the search asked for
    code = Code(choice, chosen)
    ends = Ends(code)
    title = f"{comment(Path(graph.source).stem or graph.name)}: {len(graph.ops)} ops, {len(chosen.parts)} segments."
    most = max(part.end - part.begin for part in chosen.parts)
    source = code.text(title, ends)
    sizes = CodeSizes(
        arena_bytes=chosen.arena.size,
        weight_bytes=weights.bytes,
        counter_bytes=4 + -(-2 * (most + max(1, len(code.fronts))) // 4) * 4,
        state_bytes=code.makers.state_bytes,
        macs=code.macs,
        moved_bytes=sum(graph.tensor_by_id[t].size for op in graph.ops for t in (*op.inputs, *op.outputs)),
        loops=sum(part.end - part.begin > 1 for part in chosen.parts),
        ops=len(graph.ops),
    )
    words = {
        "ARENA": str(sizes.arena_bytes), "COUNTERS": str(sizes.counter_bytes), "WEIGHTS": str(sizes.weight_bytes),
        "MACS": str(sizes.macs), "TITLE": title, "BANKS": "",
    }  # fmt: skip
    files = {
        "model.h": filled("model.h", {**ends.words, **words}),
        "model.c": source,
        "model_weights.h": weights.header(),
        "model_weights.c": weights.source(),
        "main.c": filled("main.c", {**ends.words, "AGAIN": ends.next_inference()}),
        "CMakeLists.txt": text("cmsis_CMakeLists.txt"),
    }
    return Project(files, sizes), chosen
