"""All tensors of a model as its own runtime makes them: LiteRT keeps them by option, onnxruntime returns them as
outputs.

LiteRT runs in a process of its own, as it trusts its files.
"""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from lowtide.errors import InputError, MissingExtraError, first_line
from lowtide.graph import Graph, Kind
from lowtide.plan import Plan
from lowtide.run.forks import CallEndedError, call
from lowtide.run.loop_arena import Array, LoopArena
from lowtide.run_reports import LoopRunReport, OutputComparison
from lowtide.sizes import Dims

_PATIENCE_SECONDS = 600

Values = dict[int, Array]


def litert_values(graph: Graph, model: Path, seed: int, inputs: int) -> list[Values]:
    """Tensors by id, for each of some random inputs. Raises `InputError`: liteRT does not run the model. Raises
    `MissingExtraError`: it is not installed."""
    if importlib.util.find_spec("ai_edge_litert") is None:
        raise MissingExtraError("ai-edge-litert", "tflite", "lowtide verify --run")
    wanted = [t.id for t in graph.tensors if t.kind is not Kind.CONSTANT]
    with tempfile.TemporaryDirectory(prefix="lowtide-") as folder:
        what = [str(model), seed, inputs, wanted, folder]
        try:
            call("tflite", "lowtide.run.tensor_values:save_values", *what, seconds=_PATIENCE_SECONDS)
        except CallEndedError as error:
            message = f"LiteRT does not run it, so that its tensors are not known: {error}"
            raise InputError(message, str(model)) from None
        results = []
        for k in range(inputs):
            with np.load(Path(folder) / f"{k}.npz", allow_pickle=False) as kept:
                results.append({int(name): kept[name] for name in kept.files})
    return results


def save_values(file: str, seed: int, inputs: int, tensors: Sequence[int], folder: str) -> None:
    """Write a file of arrays for each input."""
    for k, kept in enumerate(kept_by_litert(Path(file), seed, inputs, tensors)):
        np.savez(Path(folder) / f"{k}.npz", allow_pickle=False, **{str(t): value for t, value in kept.items()})


def kept_by_litert(model: Path, seed: int, inputs: int, tensors: Sequence[int]) -> Iterator[Values]:
    """Some tensors, for each of some random inputs, from LiteRT in this process: only for files that are trusted."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    from lowtide.run.tflite_process import draw

    interpreter = Interpreter(
        model_content=model.read_bytes(),
        experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
        experimental_preserve_all_tensors=True,
        num_threads=1,
    )
    interpreter.allocate_tensors()
    rng = np.random.default_rng(seed)
    for _ in range(inputs):
        for d in interpreter.get_input_details():
            interpreter.set_tensor(d["index"], draw(rng, d["dtype"], tuple(int(n) for n in d["shape"])))
        interpreter.invoke()
        yield {t: np.array(interpreter.get_tensor(t)) for t in tensors}


def onnxruntime_values(graph: Graph, model: Path, seed: int, inputs: int, dims: Dims) -> list[Values]:
    """The same of an ONNX file, every node's results made outputs, nothing optimised. Raises `InputError`:
    onnxruntime does not run it. Raises `MissingExtraError`: it is not installed."""
    from lowtide.run.onnx import draw
    from lowtide.run.ort_session import new_session, runtime

    runtime()
    import onnx

    proto = onnx.load(str(model))
    have = {o.name for o in proto.graph.output}
    names = _names(graph)
    produced = {name for node in proto.graph.node for name in node.output}
    for name in names:
        if name in produced and name not in have:
            proto.graph.output.append(onnx.ValueInfoProto(name=name))
    try:
        session = new_session(proto.SerializeToString(), "DISABLE_ALL", threads=0)
    except Exception as error:  # onnxruntime's own kinds of error have no common base
        raise InputError(f"onnxruntime does not return all tensors: {first_line(error)}", str(model)) from None
    feeds, _ = draw(session, model, seed, inputs, dims)
    listed = [o.name for o in session.get_outputs()]
    results = []
    for feed in feeds:
        values = dict(feed) | dict(zip(listed, session.run(None, feed), strict=True))
        results.append({names[name]: np.asarray(value) for name, value in values.items() if name in names})
    return results


def _names(graph: Graph) -> dict[str, int]:
    """Tensors that are no constants, by name."""
    return {t.name: t.id for t in graph.tensors if t.kind is not Kind.CONSTANT and t.name}


def replay_loops(
    graph: Graph, plan: Plan, values: Sequence[Mapping[int, Array]], runtime: str, *, channels_last: bool = False
) -> LoopRunReport:
    """Replay a plan. `graph`: the user's. `values`: for each input what the runtime made of every tensor that is no
    constant, by id. `channels_last`: whether images lie with their channels last under the plan's target. Raises
    `InputError`: a tensor has other bytes in the runtime, or it does not say what is in one. Raises
    `VerificationError`: ``simulation``: what an op reads is not where the plan has it."""
    positions = compared = 0
    for each in values:
        arena = LoopArena(graph, plan, each, channels_last)
        arena.replay()
        positions, compared = positions + arena.positions, compared + arena.compared_bytes
    outputs = []
    for t in graph.tensors:
        if t.kind is Kind.OUTPUT:
            seen = [each[t.id] for each in values if t.id in each]
            same = all(np.array_equal(seen[0], other) for other in seen[1:])
            outputs.append(OutputComparison(t.label, equal=True, max_abs_difference=None, vacuous=same))
    return LoopRunReport(tuple(outputs), runtime, len(values), plan.arena_bytes or 0, positions, compared)
