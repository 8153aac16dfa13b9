"""Words that are almost right: every refusal of a name or of a word of a few says which one was meant."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lowtide
from support.onnx_builder import model, node, saved, value
from support.small_models import branches, graph_file

NET = "zoo:swiftnet_cell_a"
FAST: dict[str, Any] = {"memories": ["fast=256KiB"]}
AT: dict[str, Any] = {"dims": {"batch": 4}}
BANKS: dict[str, Any] = {"banks": ["sram=1MiB", "psram=8MiB"]}
WORDS: dict[str, tuple[Callable[[Path], object], str]] = {
    "method": (lambda _: lowtide.research.plan(NET, method="exat"), "exact"),
    "method that spills": (lambda _: lowtide.research.plan(NET, method="beladi", **FAST), "belady"),
    "method that runs ops again": (
        lambda _: lowtide.research.plan(NET, method="moccasn", allow="recompute", budget="90%"),
        "moccasin",
    ),
    "option": (lambda _: lowtide.research.plan(NET, options={"cutt": "true"}), "cut"),
    "value of an option": (
        lambda _: lowtide.research.plan(NET, method="cosma", options={"solver": "higs"}, **FAST),
        "highs",
    ),
    "moves": (lambda _: lowtide.research.plan(NET, moves={"write_onse": "true"}, **FAST), "write_once"),
    "target": (lambda _: lowtide.research.plan(NET, target="genric"), "generic"),
    "value of a target": (lambda _: lowtide.research.plan(NET, target="generic,pieces=contigous"), "contiguous"),
    "rule": (lambda _: lowtide.Target("t", rule="tflmm"), "tflm"),
    "allow": (lambda _: lowtide.research.front(NET, allow="recmpute"), "recompute"),
    "schema": (lambda _: lowtide.research.schema("plann"), "plan"),
    "level of a cost file": (lambda _: lowtide.research.measure("m.onnx", level="extnded"), "extended"),  # type: ignore[arg-type]
    "what a sweep varies": (lambda _: lowtide.research.sweep([NET], vary={"metod": ["own"]}), "method"),
    "network": (lambda _: lowtide.load("zoo:swiftnet_cel_a"), "swiftnet_cell_a"),
    "file": (lambda folder: lowtide.load(graph_file(folder, branches()).with_name("m.grph.json")), "m.graph.json"),
    "tensor": (lambda folder: lowtide.research.plan(onnx(folder), persistent=["resullt"], **AT), "result"),
    "tensor in a memory": (
        lambda folder: lowtide.research.plan(onnx(folder), places={"resullt": "sram"}, **BANKS, **AT),
        "result",
    ),
    "memory": (
        lambda folder: lowtide.research.plan(onnx(folder), places={"result": "psrm"}, **BANKS, **AT),
        "psram or sram",
    ),
    "dimension": (lambda folder: lowtide.load(onnx(folder), {"bach": 3}), "batch"),
    "buffer": (lambda folder: lowtide.research.allocate(buffers(folder), places={"frist": "sram"}, **BANKS), "first"),
}


def onnx(folder: Path) -> Path:
    """A model with a free dimension and names."""
    return saved(model([node("Relu", "x", "result")], [value("x", ("batch",))], [value("result", ("batch",))]), folder)


def buffers(folder: Path) -> Path:
    """A buffer with a name."""
    path = folder / "b.csv"
    path.write_text("id,lower,upper,size\nfirst,0,2,16\n")
    return path


@pytest.mark.parametrize("name", WORDS)
def test_what_was_meant_is_said(name: str, tmp_path: Path) -> None:
    """One letter off, and the line ends with the word itself."""
    call, meant = WORDS[name]
    with pytest.raises(lowtide.InputError) as caught:
        call(tmp_path)
    assert f"; did you mean {meant}" in str(caught.value)


def test_no_such_folder(tmp_path: Path) -> None:
    """Then nothing beside the file was meant."""
    with pytest.raises(lowtide.InputError, match="there is no such folder"):
        lowtide.load(tmp_path / "nowhere" / "m.onnx")
