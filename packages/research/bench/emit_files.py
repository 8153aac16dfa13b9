"""Which .tflite files become C, and whether the C makes what TFLM makes.

    python bench/emit_files.py FOLDER... [--inputs 20] [--time 10] -o results/emit_files

Each file is planned with row streaming (`lowtide emit`'s default) and with inputs read where the caller has them
(`--input caller`), becomes C, and runs (gcc, -O2) on random inputs, one after the other, so that variables are kept.
*Equal*: inputs of which all bytes of all outputs are those of TFLM's reference kernels (the pip package), in both
forms; `expf` and its like are those of one C library. *Different results*: of so many inputs. Where a classifier
gives the same one for most random inputs, its operands are outputs too, in TFLM and in C (*inside*: equal,
different). *TFLM's arena*: the smallest one that the pip package starts in, with 64-bit pointers; inputs, outputs and
the interpreter's own records are in it. *Arena*: static array of the C, with inputs in it, and with inputs by
pointer; *held*: bytes of inputs that the caller holds meanwhile in the second form; *kept*: variables and the like,
static in addition.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np

import lowtide
from lowtide.errors import InputError
from lowtide.graph import Graph, Kind
from lowtide.run.tflite_process import quiet, tflm_interpreter
from lowtide_research.bench.pages import about, document, method_of, say, script, table, write
from lowtide_research.bench.tflite_net import s

LARGEST = 64 << 20
STEP = 16
FEW = 3
CLASSIFIERS = (14, 25)
"""Numbers of LOGISTIC and SOFTMAX."""
FORMS = {"arena": "loops", "caller": "loops,count_inputs=false"}


def feeds_of(graph: Graph, inputs: Sequence[int], count: int) -> list[list[np.ndarray]]:
    """Random inputs: normal numbers, and integers of all sizes."""
    rng = np.random.default_rng(0)
    result = []
    for k in range(count):
        feed = []
        for t in inputs:
            shape, dtype = graph.tensor_by_id[t].shape or (), graph.tensor_by_id[t].dtype or ""
            if dtype == "float32":
                feed.append((rng.standard_normal(shape) * (1 + 2 * (k % 2))).astype(np.float32))
            else:
                limits = np.iinfo(dtype)
                low, high = limits.min >> (k % 8), limits.max >> (k % 8)
                feed.append(rng.integers(low, high, shape, endpoint=True).astype(dtype))
        result.append(feed)
    return result


def tflm_results(data: bytes, feeds: Sequence[Sequence[np.ndarray]], outputs: int) -> list[bytes] | None:
    """What TFLM makes of inputs, one after the other; None if it does not run the file."""
    interpreter, _ = quiet(lambda: tflm_interpreter(data, LARGEST))
    if interpreter is None:
        return None
    results = []
    for feed in feeds:
        for i, value in enumerate(feed):
            interpreter.set_input(value, i)
        interpreter.invoke()
        results.append(b"".join(np.array(interpreter.get_output(i)).tobytes() for i in range(outputs)))
    return results


def starts(data: bytes, size: int) -> bool:
    """Whether TFLM starts in an arena; in a process of its own, as it may end by a signal where one is too small."""
    child = os.fork()
    if child == 0:
        os._exit(int(quiet(lambda: tflm_interpreter(data, size))[0] is None))
    return os.waitpid(child, 0)[1] == 0


def tflm_arena(data: bytes) -> int:
    """Bytes of the smallest arena that TFLM starts in."""
    low, high = 0, LARGEST // STEP
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if starts(data, middle * STEP) else (middle, high)
    return high * STEP


def with_inner(data: bytes) -> bytes:
    """The file with the operands of its classifiers as further outputs."""
    model = s.ModelT.InitFromPackedBuf(bytearray(data), 0)
    graph = model.subgraphs[0]
    inner = [
        int(op.inputs[0]) for op in graph.operators if model.operatorCodes[op.opcodeIndex].builtinCode in CLASSIFIERS
    ]
    graph.outputs = list(dict.fromkeys([*map(int, graph.outputs), *inner]))
    builder = flatbuffers.Builder(len(data))
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def c_results(
    model: Path, target: str, feeds: Sequence[Sequence[np.ndarray]], seconds: float
) -> tuple[Any, list[bytes]]:
    """Sizes of a file's C, and what it makes of inputs; without row streaming where C is not written for that."""
    for allow in ("row-streaming", ""):
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made)
            plan = lowtide.research.plan(model, target=target, time=seconds, allow=allow)
            try:
                sizes = lowtide.emit_c(plan, model, folder)
            except InputError:
                if not plan.loops:
                    raise
                continue
            sources = ["model.c", "model_weights.c", "main.c"]
            words = ["gcc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O2", "-DMODEL_GUARD=64", *sources]
            subprocess.run([*words, "-o", "host", "-lm"], cwd=folder, check=True)
            (folder / "in.bin").write_bytes(b"".join(value.tobytes() for feed in feeds for value in feed))
            subprocess.run(["./host", "in.bin", "out.bin"], cwd=folder, check=True, capture_output=True)
            held = (folder / "out.bin").read_bytes()
            size = len(held) // len(feeds)
            return sizes, [held[i * size : (i + 1) * size] for i in range(len(feeds))]
    raise AssertionError(model)


def row_of(model: Path, inputs: int, seconds: float) -> dict[str, Any]:
    """A file's row."""
    graph, data = lowtide.load(model), model.read_bytes()
    row: dict[str, Any] = {"file": model.name, "ops": len(graph.ops)}
    row["types"] = sorted({str(t.dtype) for t in graph.tensors if t.kind is Kind.ACTIVATION and t.size})
    main = graph.file.model.subgraphs[0]  # type: ignore[union-attr]
    feeds = feeds_of(graph, main.inputs, inputs)
    wanted = tflm_results(data, feeds, len(main.outputs))
    if wanted is None:
        return row | {"refused": "TFLM does not run it"}
    row |= {"tflm_arena": tflm_arena(data), "results": len(set(wanted)), "held": sum(v.nbytes for v in feeds[0])}
    try:
        for form, target in FORMS.items():
            sizes, made = c_results(model, target, feeds, seconds)
            row |= {f"{form}_bytes": sizes.arena_bytes, "kept": sizes.state_bytes, f"{form}_loops": sizes.loops}
            row[f"{form}_equal"] = sum(a == b for a, b in zip(made, wanted, strict=True))
    except InputError as error:
        return row | {"refused": str(error).removeprefix(f"{model}: ")}
    if row["results"] <= FEW:
        row |= inner_of(data, feeds, seconds)
    return row


def inner_of(data: bytes, feeds: Sequence[Sequence[np.ndarray]], seconds: float) -> dict[str, int]:
    """How many results there are, and how many are equal, with the operands of classifiers among them."""
    with tempfile.TemporaryDirectory() as folder:
        changed = Path(folder) / "inner.tflite"
        changed.write_bytes(with_inner(data))
        outputs = len(lowtide.load(changed).file.model.subgraphs[0].outputs)  # type: ignore[union-attr]
        wanted = tflm_results(changed.read_bytes(), feeds, outputs)
        if wanted is None:
            return {}
        _, made = c_results(changed, FORMS["arena"], feeds, seconds)
        return {
            "inner_results": len(set(wanted)),
            "inner_equal": sum(a == b for a, b in zip(made, wanted, strict=True)),
        }


HEAD = (
    "file", "ops", "of", "C", "equal", "different results", "inside: equal, different", "TFLM's arena", "arena",
    "arena, input by pointer", "held", "kept", "loops",
)  # fmt: skip


def cells(row: dict[str, Any], inputs: int) -> tuple[Any, ...]:
    """A row of the table."""
    head = (row["file"], row["ops"], ", ".join(row["types"]))
    if "refused" in row:
        return (*head, f"no: {row['refused'][:120]}", *[""] * (len(HEAD) - 4))
    equal = f"{row['arena_equal']}, {row['caller_equal']} of {inputs}"
    inner = f"{row['inner_equal']}, {row['inner_results']}" if "inner_equal" in row else ""
    return (
        *head, "yes", equal, row["results"], inner, row["tflm_arena"], row["arena_bytes"], row["caller_bytes"],
        row["held"], row["kept"], f"{row['arena_loops']}, {row['caller_loops']}",
    )  # fmt: skip


def text(results: dict[str, Any]) -> list[str]:
    """The page."""
    rows, inputs = results["files"], results["inputs"]
    written = [row for row in rows if "refused" not in row]
    equal = [row for row in written if row["arena_equal"] == row["caller_equal"] == inputs]
    lines = ["# Files as C", "", f"{about(results['machine'])}; `bench/emit_files.py`.", "", *method_of(__doc__)]
    lines += [
        f"{len(written)} of {len(rows)} files become C; {len(equal)} are equal on all {inputs} inputs in both forms.",
        "",
    ]
    return [*lines, *table(HEAD, [cells(row, inputs) for row in rows])]


def main() -> None:
    """Rows as JSON and a page."""
    parser = script(__doc__)
    parser.add_argument("folders", type=Path, nargs="+", help="folders of .tflite files")
    parser.add_argument("--inputs", type=int, default=20, help="random inputs of each file (default 20)")
    parser.add_argument("--time", type=float, default=10.0, help="seconds for each plan (default 10)")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for model in (path for folder in options.folders for path in sorted(folder.glob("*.tflite"))):
        rows.append(row_of(model, options.inputs, options.time))
        say(json.dumps(rows[-1]))
        results = document(inputs=options.inputs, files=rows)
        write(options.out, results, text(results))


if __name__ == "__main__":
    main()
