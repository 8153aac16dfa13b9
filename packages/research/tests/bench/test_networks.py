"""Graphs that suites run on: of the zoo, and of directories."""

from __future__ import annotations

from pathlib import Path

import pytest

from lowtide.api import load
from lowtide.errors import InputError
from lowtide_research import zoo
from lowtide_research.bench.networks import build, files_in, graph_of
from lowtide_research.zoo.merge import one_op_per_convolution
from lowtide_research.zoo.published.cases import FILE, Case
from support.small_models import branches, graph_file


def test_a_network_of_the_zoo_or_of_a_file(tmp_path: Path) -> None:
    """By its name, or by that of a file in the directory; without one it says which option gives it."""
    assert build("unet", None, "U-Net") == zoo.build("unet").graph()
    path = graph_file(tmp_path, branches())
    stem = path.name.removesuffix(".graph.json")
    assert build(f"{FILE}{stem}", tmp_path, "m") == load(path)
    with pytest.raises(InputError, match=r"Net is in no zoo; give --graphs .* net.graph.json"):
        build(f"{FILE}net", None, "Net")
    with pytest.raises(InputError, match="--graphs"):
        graph_of(Case(f"{FILE}x"))


def test_a_case_has_its_papers_ops() -> None:
    """What the paper takes for one is one."""
    name = "hrnet_w18_small_v1:side=32"
    merged = one_op_per_convolution(zoo.build(name).graph())
    assert graph_of(Case(name, form="convolutions with activation")) == merged
    assert len(graph_of(Case(name)).ops) > len(merged.ops)


def test_files_come_smallest_first(tmp_path: Path) -> None:
    """Of the endings asked for; a directory without any, or none at all, is said."""
    for name, size in (("b.csv", 3), ("a.csv", 5), ("c.onnx", 4), ("d.txt", 1)):
        (tmp_path / name).write_bytes(b"x" * size)
    assert [p.name for p in files_in(tmp_path, ".csv", ".onnx")] == ["b.csv", "c.onnx", "a.csv"]
    with pytest.raises(InputError, match=r"there is no \*\.pt2 or \*\.pte here"):
        files_in(tmp_path, ".pt2", ".pte")
    with pytest.raises(InputError, match="cannot read this directory"):
        files_in(tmp_path / "nowhere", ".csv")
