"""The core's search of regions, held to the part graph that its answer gives."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from lowtide.analyse.liveness import profile
from lowtide.api.problem import Problem
from lowtide.errors import InputError
from lowtide.optimize.regions import best_regions
from lowtide.read import read_model
from lowtide.stop import Limits
from lowtide.target import resolve
from lowtide.transform.cut import Cutter
from lowtide.transform.parts import apply
from support.small_nets import random_net


@pytest.mark.parametrize("target", ["generic", "onnxruntime"])
def test_the_peak_is_that_of_the_parts(target: str, tmp_path: Path) -> None:
    """Of random networks, to the byte, in the order in which the stripes run."""
    cut = 0
    for seed in range(40):
        source = tmp_path / f"{seed}.onnx"
        generator = random.Random(seed)
        source.write_bytes(random_net(generator.choice, generator.choice((6, 10, 16))).SerializeToString())
        try:
            graph = read_model(source)
        except InputError:
            continue  # onnx types a network otherwise as a whole than node by node
        problem = Problem.of(graph, resolve(target))
        own = range(len(graph.ops))
        cutter = Cutter(graph)
        way = best_regions(cutter, problem.memory, own, Limits(seconds=20))
        assert way.peak <= max(profile(problem.memory, own).footprint)
        if way.regions:
            cut += 1
            parts = Problem.of(apply(cutter, way.regions).graph, problem.target)
            assert way.peak == max(profile(parts.memory, range(len(parts.graph.ops))).footprint), seed
    assert cut > 15
