"""Small networks under the names by which reference pages speak of a reader's own files."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

import msgspec

from lowtide.cli import main
from lowtide.cost.file import CostBandwidth
from support.costs import costs
from support.small_models import graph_file, op, tensor


def _zoo(name: str) -> Callable[[Path], None]:
    return lambda path: _run("research", "zoo", name, "-o", str(path))


def _run(*words: str) -> None:
    assert main([*words, "-q"]) == 0, words


def _tflite(path: Path) -> None:
    from support.tflite_builder import residual

    path.write_bytes(residual().bytes())


def _planned_tflite(path: Path) -> None:
    _tflite(path)
    _run("research", "plan", str(path), "-o", str(path.with_name("planned.tflite")))
    path.with_name("planned.tflite").replace(path)


def _pt2(path: Path) -> None:
    import torch  # pyright: ignore[reportMissingImports]

    torch.export.save(torch.export.export(torch.nn.Linear(64, 64), (torch.ones(2, 64),)), str(path))


def _cost(path: Path) -> None:
    path.write_bytes(
        msgspec.json.encode(
            msgspec.structs.replace(costs([]), bandwidth=CostBandwidth(to_host=1.2e10, from_host=1.2e10))
        )
    )


def _step(path: Path) -> None:
    """Eight layers and their gradients: each reads the layer's result and the gradient behind it."""
    n, seconds = 8, {"cost": 1e-3}
    tensors = [tensor(0, 1000, "input"), *(tensor(i, 1000) for i in range(1, 2 * n)), tensor(2 * n, 1000, "output")]
    ops = [op(i, [i], [i + 1], **seconds) for i in range(n)]
    ops += [op(i, [2 * n - i, i], [i + 1], **seconds) for i in range(n, 2 * n)]
    graph_file(path.parent, {"name": "step", "tensors": tensors, "ops": ops}, path.name)


FILES: dict[str, Callable[[Path], None]] = {
    "model.onnx": _zoo("swiftnet_cell_a"),
    "decoder.onnx": _zoo("vae_decoder:side=8,filters=32"),
    "step.graph.json": _step,
    "cost.json": _cost,
    "model.tflite": _tflite,
    "somebody.tflite": _planned_tflite,
    "model.pt2": _pt2,
}


def lay(page: str, folder: Path, missing: Collection[str] = ()) -> None:
    """Write the files that a page reads before anything in it has made them; none by a package that is `missing`."""
    for name, write in FILES.items():
        if (f" {name}" in page or f'"{name}"' in page) and not (name.endswith(".pt2") and "torch" in missing):
            write(folder / name)
