"""Inputs and outputs of a model as its functions in C take them: complete, or passed slice by slice."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Protocol

from lowtide.emit.kernel import Material
from lowtide.emit.schedule import Source
from lowtide.emit.templates import filled, text
from lowtide.emit.weights import c_type
from lowtide.graph import Tensor
from lowtide.read.tflite.model import TfliteFile


class Scheduled(Protocol):
    """What a model's functions run: a schedule."""

    @property
    def places(self) -> Any:
        """Where its tensors lie: the `graph`, `offset_of`, and inputs `given` that stay where the caller has them."""
        ...

    @property
    def makers(self) -> Material:
        """What its kernels are made of."""
        ...

    @property
    def sources(self) -> Sequence[Source]:
        """Inputs that are passed in slices."""
        ...


class Ends:
    """What the functions take; `words`: what templates leave open."""

    def __init__(self, schedule: Scheduled) -> None:
        graph, places = schedule.places.graph, schedule.places
        file = graph.file
        assert isinstance(file, TfliteFile), file
        model = file.model.subgraphs[0]
        self.sources = schedule.sources
        self.state_bytes = schedule.makers.state_bytes
        self.inputs = [graph.tensor_by_id[t] for t in model.inputs]
        self.outputs = [graph.tensor_by_id[t] for t in model.outputs]
        self.at = {t.id: places.offset_of(t.id) for t in (*self.inputs, *self.outputs)}
        self.given = list(places.given)
        self.name = _names(self.inputs, "in") | _names(self.outputs, "out")
        self.number = {t.id: k for k, t in enumerate(self.inputs)}
        streamed = {source.tensor for source in self.sources}
        self.held = [t for t in self.inputs if t.id not in streamed]
        self.starts = list(accumulate((t.size for t in self.inputs), initial=0))
        self.words = self._words()

    def _words(self) -> dict[str, str]:
        at = {t.id: _cast("const ", t, f"&input[{start}]") for t, start in zip(self.inputs, self.starts, strict=False)}
        ends = list(accumulate((t.size for t in self.outputs), initial=0))
        to = {t.id: _cast("", t, f"&output[{start}]") for t, start in zip(self.outputs, ends, strict=False)}
        ins = [f"const {c_type(t.dtype or '')} *{self.name[t.id]}" for t in self.inputs]
        outs = [f"{c_type(t.dtype or '')} *{self.name[t.id]}" for t in self.outputs]
        words = {
            "INPUT": str(self.starts[-1]),
            "OUTPUT": str(ends[-1]),
            "ENDS": "\n".join(self._scales()),
            "RUN": ", ".join([*ins, *outs]),
            "CALL": ", ".join([*at.values(), *to.values()]),
            "OUTS": ", ".join(outs),
            "OUT_CALL": ", ".join(to.values()),
            "HELD": ", ".join(f"const {c_type(t.dtype or '')} *{self.name[t.id]}" for t in self.held) or "void",
            "HELD_CALL": ", ".join(at[t.id] for t in self.held),
            "STREAM": "",
        }
        if self.state_bytes:
            words["STREAM"] = filled("state.h", {"STATE": str(self.state_bytes)})
        if len(self.sources) == 1:
            source = self.sources[0]
            words |= {"ROW": str(source.row_bytes), "ROWS": str(source.rows)}
            words["AT"] = str(self.starts[self.number[source.tensor]])
            words["STREAM"] += filled("stream.h", words)
        elif self.sources:
            parts = {self.number[source.tensor]: source.position_bytes for source in self.sources}
            words["COUNT"] = str(len(parts))
            words["PARTS"] = "\n".join(f"#define MODEL_IN_{k}_PART_BYTES {parts[k]}" for k in sorted(parts))
            words["PART_BYTES"] = ", ".join(str(parts.get(k, 0)) for k in range(len(self.inputs)))
            words["PART_STARTS"] = ", ".join(map(str, self.starts[:-1]))
            words["STREAM"] += filled("parts.h", words)
        return words

    def _scales(self) -> list[str]:
        lines = []
        for t in (*self.inputs, *self.outputs):
            if t.quant is not None:
                stem = f"MODEL_{self.name[t.id].upper()}"
                lines.append(f"#define {stem}_SCALE {t.quant.scales[0]!r}f")
                lines.append(f"#define {stem}_ZERO_POINT ({t.quant.zero_points[0]})")
        return lines

    def feeding(self) -> list[str]:
        """Functions that take parts of inputs; none if all are held."""
        if not self.sources:
            return []
        rows = [
            f"    {{{s.view.base}, {s.view.slots}, {s.position_bytes}, {self.number[s.tensor]}}}," for s in self.sources
        ]
        table = "\n".join([f"static const source_t sources[{len(rows)}] = {{", *rows, "};"])
        return [filled("feed.c", {"SOURCES": table}) + text("feed_rows.c" if len(rows) == 1 else "feed_parts.c")]

    def next_inference(self) -> str:
        """What the host program runs a second time by: rows or parts; nothing if all inputs are held."""
        if not self.sources:
            return ""
        return filled("again_rows.c" if len(self.sources) == 1 else "again_parts.c", self.words)

    def functions(self) -> list[str]:
        """`model_run`, and with inputs that are passed in slices `model_begin` and `model_result`."""
        take = [self._take(t) for t in self.held]
        give = [f"    give({_bytes('', t, self.name[t.id])}, {self.at[t.id]}, {t.size});" for t in self.outputs]
        run, outs, held = (self.words[key] for key in ("RUN", "OUTS", "HELD"))
        if not self.sources:
            body = [*take, "    start_loop(0);", "    (void)run_on();", *give, "    return 0;"]
            return [f"int model_run({run})", "{", *body, "}", ""]
        call = ", ".join(self.name[t.id] for t in self.held)
        back = ", ".join(self.name[t.id] for t in self.outputs)
        return [
            f"void model_begin({held})", "{", *take, "    start_loop(0);", "    (void)run_on();", "}", "",
            f"void model_result({outs})", "{", *give, "}", "",
            f"int model_run({run})", "{", *self._complete(call), f"    model_result({back});", "    return 0;", "}", "",
        ]  # fmt: skip

    def _complete(self, call: str) -> list[str]:
        """Statements that pass complete inputs."""
        streamed = {source.tensor for source in self.sources}
        names = [
            _bytes("const ", t, self.name[t.id]) if t.id in streamed else "NULL" for t in self.inputs
        ]  # in the order of the numbers that sources have
        if len(streamed) == 1:
            name = next(name for name in names if name != "NULL")
            return [f"    model_begin({call});", f"    (void)model_feed_rows({name}, MODEL_ROWS);"]
        fill = [f"    whole[{k}] = {name};" for k, name in enumerate(names)]
        return [f"    const int8_t *whole[{len(names)}];", *fill, f"    model_begin({call});", "    feed_whole(whole);"]

    def _take(self, tensor: Tensor) -> str:
        """A statement that copies an input; one without a consumer has no place."""
        at, name = self.at[tensor.id], self.name[tensor.id]
        if tensor.id in self.given:
            held = f"(int8_t *)(uintptr_t)(const void *){name}"
            return f"    given_inputs[{self.given.index(tensor.id)}] = {held};"
        return (
            f"    (void){name};" if at is None else f"    take({at}, {_bytes('const ', tensor, name)}, {tensor.size});"
        )


def _cast(const: str, tensor: Tensor, bytes_: str) -> str:
    """Bytes as elements of a tensor."""
    return bytes_ if tensor.dtype == "int8" else f"({const}{c_type(tensor.dtype or '')} *)({const}void *){bytes_}"


def _bytes(const: str, tensor: Tensor, name: str) -> str:
    """A parameter's elements as bytes."""
    return name if tensor.dtype == "int8" else f"({const}int8_t *){name}"


def _names(tensors: list[Tensor], stem: str) -> dict[int, str]:
    return {t.id: stem if len(tensors) == 1 else f"{stem}_{k}" for k, t in enumerate(tensors)}
