"""Reports of each kind of plan in a real browser: drawn without complaint, in words, and with no name over another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import lowtide
from lowtide.api.writing import write_zoo
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.plan import Plan
from lowtide_research.bench.tflite_net import branches
from support.browser import Browser

pytestmark = pytest.mark.slow

STEP = "zoo:magis_unet:batch=4,width=8,image=64"
"""A training step: forward, backward, update."""

OVERLAPS = """(() => {
  const boxes = [...document.querySelectorAll('.arena .name')].map((name) => name.getBBox());
  return boxes.flatMap((a, i) => boxes.slice(i + 1).filter((b) =>
    a.x < b.x + b.width && b.x < a.x + a.width && a.y + 2 < b.y + b.height && b.y + 2 < a.y + a.height)).length;
})()"""
"""How many pairs of names in the arena meet."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for all of these."""
    with Browser() as opened:
        yield opened


def _int8(folder: Path, **options: str) -> Plan:
    (folder / "net.tflite").write_bytes(branches().bytes())
    return lowtide.research.plan(folder / "net.tflite", **options)  # type: ignore[arg-type]


def _striped(folder: Path) -> Plan:
    write_zoo("swiftnet_cell_a", folder / "net.onnx")
    return lowtide.research.plan(folder / "net.onnx", allow="tile", max_ops=60, time=1)


def _in_place(_: Path) -> Plan:
    """Each op writes over what it reads, the first one over the input: names begin at one place."""
    kinds = [Kind.INPUT, *[Kind.ACTIVATION] * 6, Kind.OUTPUT]
    tensors = tuple(Tensor(i, 4096, kind, f"tensor{i}") for i, kind in enumerate(kinds))
    ops = tuple(Op(i, (i,), (i + 1,), f"op{i}", "Relu") for i in range(len(kinds) - 1))
    return lowtide.research.plan(Graph("chain", tensors, ops), target="generic", overwrite_inputs=True)


KINDS: dict[str, tuple[Callable[[Path], Plan], tuple[str, ...]]] = {
    "int8": (lambda folder: _int8(folder, target="tflm,kernels=reference"), ("TFLM today", "in place")),
    "in place": (_in_place, ("in place",)),
    "spilled": (
        lambda _: lowtide.research.plan("zoo:swiftnet_cell_a", memories=["fast=190KiB"], time=5),
        ("spill", "fill"),
    ),
    "striped": (_striped, ("onnxruntime today", "in tiles", "tiled")),
    "training": (lambda _: lowtide.research.plan(STEP, allow="recompute", budget="70%", time=1), ("recomputed",)),
    "swapped": (lambda _: lowtide.research.plan(STEP, allow="offload", budget="70%", time=1), ("to host", "from host")),
    "loops": (
        lambda folder: _int8(folder, target="loops", allow="row-streaming", budget="2KiB"),
        ("the loop at step",),
    ),
}
"""What makes a plan of each kind, and words that its page has."""


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_drawn_and_answers(kind: str, browser: Browser, tmp_path: Path):
    """The peak first, the last step by keyboard; no error, no request, at most 300 kB; nothing over anything."""
    plan_of, words = KINDS[kind]
    path = tmp_path / "report.html"
    plan_of(tmp_path).report(path)
    assert path.stat().st_size < 300_000
    browser.open(path)
    readout = "document.querySelector('.readout').textContent"
    assert "this is the peak" in browser.run(readout)
    page = browser.run("document.body.textContent")
    for word in words:
        assert word in page
    assert browser.run("document.querySelectorAll('.arena .name').length") >= 3
    assert browser.run(OVERLAPS) == 0
    browser.run("document.querySelector('.live .box').focus()")
    browser.key("End")
    last = browser.run("document.querySelector('.live .box').getAttribute('aria-valuemax')")
    assert f"step {int(last):,} of" in browser.run(readout)
    assert browser.complaints() == []
