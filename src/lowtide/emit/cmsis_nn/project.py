"""A project in C that calls CMSIS-NN: segments are chosen and checked, then written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lowtide.emit.bodies import with_bodies
from lowtide.emit.cmsis_nn.choice import Choice, Chosen
from lowtide.emit.cmsis_nn.code import Code
from lowtide.emit.cmsis_nn.layers import Layers
from lowtide.emit.cmsis_nn.parameters import Parameters
from lowtide.emit.cmsis_nn.replay import check_segments
from lowtide.emit.ends import Ends
from lowtide.emit.project import CodeSizes, Project, named
from lowtide.emit.templates import filled, text
from lowtide.emit.weights import Weights
from lowtide.graph import Graph
from lowtide.write.c_header import comment


def library_project(
    graph: Graph, data: bytes, order: Sequence[int], simd: str, budget: int | None, name: str = "model"
) -> tuple[Project, Chosen]:
    """A model as a project in C that calls CMSIS-NN, and what was chosen. `graph`: of a .tflite file with one subgraph.
    `data`: the file. `order`: its ops in turn. `simd`: instructions that CMSIS-NN will be compiled for: ``none``,
    ``dsp``, ``mve`` or ``any``. `budget`: bytes that the arena may have; None: the least arena that costs little time.
    `name`: what all files, functions and macros begin with. Raises `InputError`: it has an op or a tensor that no
    kernel takes."""
    graph, branches = with_bodies(graph)
    weights = Weights(graph, data)
    layers = Layers(graph, weights, order, simd, branches)
    choice = Choice(layers, budget)
    chosen = choice.best()
    check_segments(layers, chosen)
    layers.weights = weights = Weights(graph, data)  # without what the search asked for
    code = Code(Parameters(choice, chosen))
    ends = Ends(code)
    title = f"{comment(Path(graph.source).stem or graph.name)}: {len(graph.ops)} ops, {len(chosen.parts)} segments."
    most = max(part.end - part.begin for part in chosen.parts)
    source = code.text(title, ends)
    sizes = CodeSizes(
        arena_bytes=chosen.arena.size,
        weight_bytes=weights.bytes,
        counter_bytes=-(-2 * (1 + most + max(1, len(code.parameters.fronts))) // 4) * 4,
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
    return Project(named(files, name), sizes, ends.words["CALL"]), chosen
