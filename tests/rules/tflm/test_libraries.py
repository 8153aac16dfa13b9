"""What may overlap with the kernels of CMSIS-NN and ESP-NN, and how they are asked for."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from lowtide import api
from lowtide.api.kernels import kernel_choices
from lowtide.cli import main
from lowtide.errors import InputError, VerificationError
from lowtide.graph import Graph, Op
from lowtide.read.tflite.model import parse_tflite
from lowtide.read.tflite.reader import graph_of
from lowtide.rules.tflm.kernels import distances
from lowtide.rules.tflm.libraries import REPLACED, library_distances
from lowtide.target import read_toml, resolve, to_toml
from lowtide_research.bench.tflite_kinds import kinds
from support.tflite_builder import SAME, VALID, Net, branches, residual, s


def one(net: Net, inputs: list[int], out: int) -> tuple[Graph, Op]:
    """Graph of a net of one operator, and that operator."""
    net.ends(inputs, [out])
    graph = graph_of(parse_tflite(net.bytes(), "m"), [], "m", "")
    return graph, graph.ops[0]


def both(net: Net, inputs: list[int], out: int) -> tuple[Any, Any]:
    """Distances with the reference kernels and with CMSIS-NN's; ESP-NN's have none for what it replaces."""
    graph, op = one(net, inputs, out)
    assert library_distances("reference", graph, op) == distances(graph, op)
    quantised = graph.tensor_by_id[inputs[0]].dtype == "int8"
    replaced = quantised and op.type in REPLACED["esp_nn"]
    assert library_distances("esp_nn", graph, op) == (() if replaced else distances(graph, op))
    return distances(graph, op), library_distances("cmsis_nn", graph, op)


@pytest.mark.parametrize(
    ("dtype", "kernel", "height", "allowed"),
    [
        ("int8", (3, 3), 8, True), ("int8", (1, 3), 8, True), ("int8", (3, 1), 8, True), ("int8", (1, 1), 8, False),
        ("int8", (1, 3), 1, False), ("float32", (1, 1), 8, True),
    ],
)  # fmt: skip
def test_convolutions(dtype: str, kernel: tuple[int, int], height: int, allowed: bool):
    """Copied windows as the reference; what is a matrix product of the whole image not at all; floats are its own."""
    net = Net()
    x = net.tensor((1, height, 8, 4), dtype)
    reference, cmsis = both(net, [x], net.conv(x, 4, kernel, padding=SAME))
    assert reference
    assert cmsis == (reference if allowed else ())


@pytest.mark.parametrize(("depth", "kernel", "allowed"), [(8, 3, True), (124, 3, True), (125, 3, False), (1, 1, False)])
def test_depthwise_convolutions(depth: int, kernel: int, allowed: bool):
    """Blocks of 124 channels; a single channel may become a convolution."""
    net = Net()
    x = net.tensor((1, 6, 6, depth))
    reference, cmsis = both(net, [x], net.conv(x, 1, (kernel, kernel), padding=SAME, depthwise=True))
    assert reference
    assert cmsis == (reference if allowed else ())


def test_poolings():
    """An average is written when its window was read; of a maximum the window's first pixel is written before."""
    for kind in ("AVERAGE_POOL_2D", "MAX_POOL_2D"):
        net = Net()
        x = net.tensor((1, 8, 8, 4))
        reference, cmsis = both(net, [x], net.pool(x, kind, (2, 2), (1, 1), VALID))
        assert cmsis[0][1] == reference[0][1] + (4 if kind == "MAX_POOL_2D" else 0)


def test_elementwise_padding_and_rows():
    """Broadcasts are the reference's for ADD, not read for MAXIMUM; a padded row may not touch its copy."""
    for kind, options in (("ADD", s.AddOptionsT()), ("MAXIMUM", s.MaximumMinimumOptionsT())):
        for other in ((1, 4, 4, 2), (1,)):
            net = Net()
            a, b = net.tensor((1, 4, 4, 2)), net.tensor(other)
            out = net.like(a)
            net.op(kind, [a, b], [out], options)
            reference, cmsis = both(net, [a, b], out)
            assert cmsis == (() if kind == "MAXIMUM" and other == (1,) else reference)
    net = Net()
    a = net.tensor((1, 4, 4, 2))
    out = net.tensor((1, 6, 6, 2))
    net.op("PAD", [a, net.tensor((4, 2), "int32", [[0, 0], [1, 1], [1, 1], [0, 0]], scale=0.0)], [out], s.PadOptionsT())
    reference, cmsis = both(net, [a], out)
    assert cmsis[0][1] == reference[0][1] + 8
    for shape, depth, allowed in (((4, 6), 6, True), ((2, 2, 6), 6, True), ((1, 4, 8), 8, False)):
        net = Net()
        a = net.tensor(shape)
        out = net.tensor((*shape[:-1], 3))
        w = net.tensor((3, depth), "int8", net.rng.integers(-9, 9, (3, depth)))
        net.op("FULLY_CONNECTED", [a, w], [out], s.FullyConnectedOptionsT())
        reference, cmsis = both(net, [a], out)
        assert cmsis == (reference if allowed else ())


def test_options_of_a_target():
    """They stand behind its name, are checked, and a file can hold them."""
    found = resolve("auto,kernels=cmsis_nn,overlap=in_place", source="m.tflite")
    assert (found.name, found.kernels) == ("tflm,kernels=cmsis_nn,overlap=in_place,pointer=32", "cmsis_nn")
    assert resolve("generic,overwrite_inputs=true,alignment=16").alignment == 16
    for wrong in (
        "tflm,kernels=mine",
        "tflm,name=x",
        "tflm,overlap",
        "tflm,alignment=x",
        "tflm,keep_inputs=1",
        "x,a=b",
    ):
        with pytest.raises(InputError):
            resolve(wrong)
    with pytest.raises(InputError, match="rule tflm alone"):
        resolve("generic,kernels=esp_nn")


def test_a_file_holds_the_kernels(tmp_path: Path):
    """What is printed reads back."""
    path = tmp_path / "mine.toml"
    chosen = resolve("tflm,kernels=esp_nn")
    path.write_text(to_toml(chosen))
    assert read_toml(path) == chosen


def test_plans_for_a_library(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Less is shared, the plan names its target and is checked under it, its file too."""
    model, out, plan = tmp_path / "m.tflite", tmp_path / "o.tflite", tmp_path / "p.json"
    model.write_bytes(residual().bytes())
    arenas = []
    for chosen in ("kernels=reference", "kernels=any", "kernels=esp_nn", "target.overlap=never", "kernels=cmsis_nn"):
        assert main(["research", "plan", str(model), "-o", str(out), "--plan", str(plan), "-q", "--set", chosen]) == 0
        made = json.loads(plan.read_text())
        arenas.append(made["arena_bytes"])
        assert made["runtime_parts"]["exact"]
        assert main(["verify", str(model), str(plan), "-q"]) == 0
        assert main(["verify", str(out), "-q"]) == 0
    assert arenas[:4] == sorted(arenas[:4])
    assert arenas[0] < arenas[3]
    assert main(["research", "plan", str(model), "-q", "--set", "kernels=none"]) == 2
    assert "any, reference, cmsis_nn, esp_nn" in capsys.readouterr().err


def test_a_file_is_checked_for_a_library(tmp_path: Path):
    """An overlap behind a 1x1 convolution holds for the reference kernels only; the file says for whose it was made."""
    net = Net()
    x = net.tensor((1, 8, 8, 16))
    net.ends([x], [net.conv(net.conv(x, 16, (1, 1)), 16, (1, 1))])
    model, out = tmp_path / "m.tflite", tmp_path / "o.tflite"
    model.write_bytes(net.bytes())
    api.plan(model, target="tflm,kernels=reference").apply(model, out)
    assert api.verify(out).checks[-1].result == "under the reference kernels only"
    for others in ("cmsis_nn", "esp_nn"):
        with pytest.raises(VerificationError, match="which is live"):
            api.verify(out, target=f"tflm,kernels={others}")
    anonymous = out.read_bytes().replace(b"reference\0", b"\0" * 10)
    assert anonymous != out.read_bytes()
    out.write_bytes(anonymous)
    with pytest.raises(VerificationError, match="which is live"):
        api.verify(out)
    out = tmp_path / "any.tflite"
    api.plan(model).apply(model, out)
    for kernels in ("any", "reference", "cmsis_nn", "esp_nn"):
        assert api.verify(out, target=f"tflm,kernels={kernels}").checks


def test_no_method_falls_below_the_bound_of_a_library():
    """The scheduler counts what the library allows: less than the reference, and under any no more than under each."""
    graph = graph_of(parse_tflite(branches().bytes(), "m"), [], "m", "")
    made = [api.plan(graph, target=f"tflm,kernels={k}", time=5) for k in ("reference", "cmsis_nn", "esp_nn", "any")]
    assert all(p.optimal for p in made)
    reference, cmsis, esp, anyone = (p.peak_bytes for p in made)
    assert reference <= min(cmsis, esp)
    assert esp <= anyone


@pytest.mark.slow
def test_any_kernels_allow_what_all_allow():
    """Under any, an output may lie over an input if it may under each, at the longest of the distances."""
    seen = set()
    for seed in range(3):
        for (kind, variant), make in kinds().items():
            net = Net(seed)
            given, made = make(random.Random(f"{kind} {variant} {seed}"), net)
            net.ends(given, [made])
            graph = graph_of(parse_tflite(net.bytes(), "m"), [], "m", "")
            for op in graph.ops:
                each = [dict(library_distances(name, graph, op)) for name in ("reference", "cmsis_nn", "esp_nn")]
                shared = {t: max(row[t] for row in each) for t in each[0] if all(t in row for row in each)}
                assert dict(library_distances("any", graph, op)) == shared, (kind, variant)
                seen.add((len(shared) == len(each[0]), bool(each[0])))
    assert {(True, True), (False, True)} <= seen


def test_heads_of_each_choice(tmp_path: Path):
    """What the default gives up, and what each choice would give, for a screen."""
    model = tmp_path / "m.tflite"
    model.write_bytes(residual().bytes())
    choices = kernel_choices(model)
    assert list(choices) == ["any", "reference", "cmsis_nn", "esp_nn"]
    assert choices["reference"].head_bytes < choices["any"].head_bytes
    assert choices["any"].head_bytes == api.plan(model).arena_bytes
    assert all(c.exact for c in choices.values())
    with pytest.raises(InputError, match="under target tflm only"):
        kernel_choices(model, target="generic")
