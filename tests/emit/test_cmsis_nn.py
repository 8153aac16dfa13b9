"""C that calls CMSIS-NN by stripes: what TFLM makes, in an arena where nothing is overwritten that is still read."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lowtide
from lowtide.cli import main
from lowtide.emit.bodies import with_bodies
from lowtide.emit.cmsis_nn.choice import Choice
from lowtide.emit.cmsis_nn.code import repeated
from lowtide.emit.cmsis_nn.layers import Layers
from lowtide.emit.cmsis_nn.replay import check_segments
from lowtide.emit.cmsis_nn.stripes import Call, Flow, segment
from lowtide.emit.weights import Weights
from lowtide.errors import InputError, VerificationError
from support.emit_nets import compiler, convolution, emit_net, feeds_of, output_of, sanitizers, tflm_outputs
from support.emit_wide import copies_net, sixteen, softmax_net, wide_conv, wide_net
from support.emit_wide import feeds as wide_feeds
from support.library_nets import SOURCES, compiled_with, written_with
from support.tflite_builder import Net, residual, s

pytest.importorskip("ai_edge_litert", reason="pip install '.[tflite]'")
pytest.importorskip("tflite_micro", reason="pip install '.[tflite]'")
needs_compiler = pytest.mark.skipif(compiler() is None, reason="no C compiler on this machine")
needs_library = pytest.mark.skipif(not SOURCES, reason="LOWTIDE_CMSIS_NN does not name CMSIS-NN's folder")


Feeds = list[list[np.ndarray[Any, Any]]]
BUILDS = [False, pytest.param(True, marks=needs_library)]
"""With plain loops in the library's place, and with the library."""


def products(dtype: str) -> Net:
    """Products of the elements of two tensors, and of those with a constant and with one element for each channel."""
    net = Net(3)
    if dtype == "int16":
        x = sixteen(net, (1, 12, 6, 4))
        a, b, y = wide_conv(net, x, 8, (3, 3)), wide_conv(net, x, 8, (1, 1)), sixteen(net, (1, 12, 6, 8), 0.02)
    else:
        x = net.tensor((1, 12, 6, 4), scale=0.05, zero=-3)
        a = convolution(net, x, lambda options: options[0], 8, kernel=(3, 3))
        b = convolution(net, x, lambda options: options[0], 8, kernel=(1, 1))
        y = net.tensor((1, 12, 6, 8), scale=0.1, zero=5)
    net.op("MUL", [a, b], [y], s.MulOptionsT())
    net.ends([x], [y])
    return net


def branched() -> Net:
    """Two ways to a result by the sign of a sum: convolutions, one of them of a reshaped tensor, or the input."""
    net = Net(4)
    x = net.tensor((1, 6, 4, 8), scale=0.05, zero=-3)
    real, total, truth = net.tensor((1, 192), "float32"), net.tensor((1,), "float32"), net.tensor((1,), "bool")
    main, bodies = net.graph, []
    for convolves in (True, False):
        bodies.append(net.subgraph())
        inner = net.tensor((1, 6, 4, 8), scale=0.05, zero=-3)
        y = inner
        if convolves:
            y = convolution(net, inner, lambda options: options[0], 8, kernel=(3, 3))
            y = net.reshape(
                convolution(net, net.reshape(y, (1, 4, 6, 8)), lambda o: o[0], 8, kernel=(3, 3)), (1, 6, 4, 8)
            )
        net.ends([inner], [y])
    net.graph = main
    net.op("DEQUANTIZE", [net.reshape(x, (1, 192))], [real], s.DequantizeOptionsT())
    net.op("SUM", [real, net.tensor((1,), "int32", [1], scale=0.0)], [total], s.ReducerOptionsT())
    net.op("GREATER", [total, net.tensor((), "float32", 0.0)], [truth], None)
    way, out = s.IfOptionsT(), net.tensor((1, 6, 4, 8), scale=0.05, zero=-3)
    way.thenSubgraphIndex, way.elseSubgraphIndex = bodies
    net.op("IF", [truth, x], [out], way)
    net.ends([x], [convolution(net, out, lambda options: options[0], 4, kernel=(1, 1))])
    return net


def chain(blocks: int = 4, size: int = 24) -> Net:
    """A convolution, then depthwise and pointwise ones, then a mean."""
    net = Net(5)
    x = net.tensor((1, size, size, 3), scale=0.05, zero=-3)
    y = convolution(net, x, lambda options: options[0], 8, kernel=(3, 3))
    for _ in range(blocks):
        y = convolution(net, y, lambda options: options[0], 1, depthwise=True, kernel=(3, 3))
        y = convolution(net, y, lambda options: options[0], 8, kernel=(1, 1))
    net.ends([x], [net.pool(y, "AVERAGE_POOL_2D", (size, size), (1, 1))])
    return net


def layers_of(net: Net, folder: Path, simd: str = "dsp") -> Layers:
    """A network's layers, in the order of the file."""
    model = folder / "net.tflite"
    model.write_bytes(net.bytes())
    graph, branches = with_bodies(lowtide.load(model))
    return Layers(graph, Weights(graph, net.bytes()), [op.id for op in graph.ops], simd, branches)


def check(
    net: Net, folder: Path, simd: str, budget: int | None, *, library: bool = False, inputs: Feeds | None = None
) -> int:
    """What the code makes of random inputs is what TFLM makes; bytes of the arena."""
    model = folder / "net.tflite"
    model.write_bytes(net.bytes())
    arena = written_with(model, folder, simd, budget)
    feeds = inputs or feeds_of(net, 2)
    data = b"".join(value.tobytes() for feed in feeds for value in feed)
    program = compiled_with(folder, sanitizers(), library=library)
    assert output_of(program, data) == tflm_outputs(model, feeds, len(net.graph.outputs))
    return arena


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("seed", [3, 16, 35, 41])
def test_random_networks_run_as_in_tflm(tmp_path: Path, seed: int) -> None:
    """In the least arena, and in one with room for untiled layers, with plain loops in the library's place."""
    net = emit_net(random.Random(seed).choice, seed, 10)
    least = check(net, tmp_path, random.Random(seed).choice(("any", "none", "dsp", "mve")), 1)
    assert check(net, tmp_path, "dsp", 1 << 20) >= least // 2


@needs_compiler
@needs_library
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_random_networks_run_as_in_tflm_with_the_library(tmp_path: Path, seed: int) -> None:
    """The same with CMSIS-NN, compiled as plain C."""
    net = emit_net(random.Random(seed).choice, seed, 10)
    for budget in (1, None, 1 << 20):
        check(net, tmp_path, "none", budget, library=True)


@needs_compiler
@pytest.mark.slow
def test_stripes_need_less_and_compute_the_same(tmp_path: Path) -> None:
    """A chain in stripes needs little more than its largest tensor; untiled layers need two of them."""
    least = check(chain(), tmp_path, "dsp", 1)
    whole = check(chain(), tmp_path, "dsp", 1 << 20)
    assert 10 * least < 6 * whole


@needs_compiler
@pytest.mark.slow
def test_a_residual_network_runs_as_in_tflm(tmp_path: Path) -> None:
    """Rows of a shortcut are kept until they are added."""
    check(residual(), tmp_path, "mve", 1)


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("library", BUILDS)
@pytest.mark.parametrize("make", [wide_net, copies_net, softmax_net])
def test_numbers_of_16_bits_run_as_in_tflm(tmp_path: Path, make: Callable[[], Net], library: bool) -> None:
    """Convolutions, products, pools and sums are the library's, means and softmax lowtide's own."""
    net = make()
    for budget in (1, 1 << 20):
        check(net, tmp_path, "none", budget, library=library, inputs=wide_feeds(net, 8))


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("library", BUILDS)
@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_products_of_elements_run_as_in_tflm(tmp_path: Path, dtype: str, library: bool) -> None:
    """In stripes, and over an operand that dies."""
    net = products(dtype)
    least = check(net, tmp_path, "none", 1, library=library, inputs=wide_feeds(net, 4))
    assert least < check(net, tmp_path, "none", 1 << 20, library=library, inputs=wide_feeds(net, 4))
    assert f"arm_elementwise_mul_s{dtype[3:]}(" in (tmp_path / "model.c").read_text()


def test_numbers_of_16_bits_are_the_library_s(tmp_path: Path) -> None:
    """With scratch of the rule for 16 bits; a depthwise convolution asks for none."""
    layers = layers_of(wide_net(), tmp_path, "mve")
    assert [layer.kind for layer in layers.listed if layer.kind != "own"] == [
        "conv", "depthwise", "conv", "add", "depthwise", "pool", "pool", "pool", "product",
    ]  # fmt: skip
    conv, depthwise = layers.listed[1:3]
    assert layers.scratch(conv, 0, 4) == 4 * 32 * 2  # 27 products, in registers of 8
    assert layers.scratch(depthwise, 0, 4) == 0


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("library", BUILDS)
def test_of_two_branches_one_runs(tmp_path: Path, library: bool) -> None:
    """Each of them for some input; what a branch needs is kept until it would run."""
    net = branched()
    feeds = [[(feed[0] // 4 + shift).astype(np.int8)] for feed in feeds_of(net, 4) for shift in (40, -60)]
    for budget in (1, 1 << 20):
        check(net, tmp_path, "none", budget, library=library, inputs=feeds)
    assert "layer->condition >= 0" in (tmp_path / "model.c").read_text()


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("library", BUILDS)
def test_variables_and_ops_of_several_results_run_as_in_tflm(tmp_path: Path, library: bool) -> None:
    """What is kept from one run to the next, split, and convolved."""
    net = Net(6)
    x = net.tensor((1, 4, 3, 8), scale=0.05, zero=-3)
    one, other = (net.tensor((1, 4, 3, 4), scale=0.05, zero=-3) for _ in range(2))
    options = s.SplitOptionsT()
    options.numSplits = 2
    net.op("SPLIT", [net.tensor((), "int32", 3), x], [one, other], options)
    handle, kept = net.tensor((), "int32", scale=0.0), net.like(one)
    net.graph.tensors[handle].type = s.TensorType.RESOURCE
    named = s.VarHandleOptionsT()
    named.container, named.sharedName = "", "state"
    net.op("VAR_HANDLE", [], [handle], named)
    net.op("READ_VARIABLE", [handle], [kept], s.ReadVariableOptionsT())
    net.op("ASSIGN_VARIABLE", [handle, one], [], s.AssignVariableOptionsT())
    joined = net.tensor((1, 4, 3, 8), scale=0.05, zero=-3)
    concatenated = s.ConcatenationOptionsT()
    concatenated.axis = 3
    net.op("CONCATENATION", [kept, other], [joined], concatenated)
    net.ends([x], [convolution(net, joined, lambda options: options[0], 4, kernel=(3, 3))])
    check(net, tmp_path, "none", 1, library=library, inputs=feeds_of(net, 4))
    assert "MODEL_STATE_BYTES" in (tmp_path / "model.h").read_text()


@needs_compiler
@pytest.mark.slow
def test_rows_of_another_shape_are_read_in_one_call(tmp_path: Path) -> None:
    """A convolution, a pool and a sum behind a reshape that changes the rows."""
    net = Net(5)
    x = net.tensor((1, 4, 16, 8), scale=0.05, zero=-3)
    y = convolution(net, net.reshape(x, (1, 8, 8, 8)), lambda options: options[0], 8, kernel=(3, 3))
    z = net.pool(net.reshape(y, (1, 16, 4, 8)), "MAX_POOL_2D", (2, 2), (2, 2))
    net.ends([x], [net.pool(net.reshape(z, (1, 4, 4, 8)), "AVERAGE_POOL_2D", (4, 4), (1, 1))])
    check(net, tmp_path, "none", 1)


@pytest.mark.slow
@pytest.mark.parametrize("budget", [6_000, 9_000, 20_000])
def test_a_budget_is_kept_and_a_larger_one_is_no_slower(tmp_path: Path, budget: int) -> None:
    """The cheapest segments within the budget: estimated instructions fall as it grows."""
    layers = layers_of(chain(), tmp_path)
    chosen, larger = Choice(layers, budget).best(), Choice(layers, 2 * budget).best()
    assert chosen.arena.size <= budget
    assert larger.cost <= chosen.cost


@pytest.mark.slow
def test_without_a_budget_little_time_is_lost(tmp_path: Path) -> None:
    """The least arena among segments that are estimated to take at most a tenth more instructions."""
    chosen = Choice(layers_of(chain(), tmp_path)).best()
    assert chosen.cost <= 1.1 * chosen.untiled_cost
    assert chosen.arena.size < Choice(layers_of(chain(), tmp_path), 1 << 20).best().arena.size


def test_the_replay_finds_what_is_written_over(tmp_path: Path) -> None:
    """Wherever a layer's result is moved to the front of its operand, the replay says so."""
    layers = layers_of(chain(2), tmp_path)
    chosen = Choice(layers, 1).best()
    check_segments(layers, chosen)
    key = {b.key[1]: b.key for b in chosen.arena.buffers if b.key[0] in ("tensor", "rows")}
    for layer in layers.listed:
        operand, result = key[layer.operands[0].tensor], key[layer.result]
        at = {**chosen.arena.at, result: chosen.arena.at[operand]}
        size = max(at[b.key] + b.size for b in chosen.arena.buffers)
        with pytest.raises(VerificationError):
            check_segments(layers, replace(chosen, arena=replace(chosen.arena, at=at, size=size)))


def test_the_replay_finds_rows_that_are_left_out(tmp_path: Path) -> None:
    """Steps without one of their calls are refused, whichever it is."""
    layers = layers_of(chain(1, 10), tmp_path)
    chosen = Choice(layers, 1).best()
    for k, part in enumerate(chosen.parts):
        for i, step in enumerate(part.steps):
            if isinstance(step, Call):
                steps = part.steps[:i] + part.steps[i + 1 :]
                parts = (*chosen.parts[:k], replace(part, steps=steps), *chosen.parts[k + 1 :])
                with pytest.raises(VerificationError):
                    check_segments(layers, replace(chosen, parts=parts))


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 8])
def test_row_buffers_hold_no_more_than_a_window_and_what_a_call_makes(tmp_path: Path, rows: int) -> None:
    """Of a tensor that a 3x3 window of one row after another reads: two rows of before and those of a call."""
    flow = Flow(layers_of(chain(), tmp_path))
    part = segment(flow, 0, 9, rows)
    for tensor, kept in part.buffers.items():
        reader = flow.layers.listed[flow.readers[tensor][0]]
        assert kept <= rows + (2 if reader.kind == "depthwise" else 0)
    assert max(c.end - c.first for c in part.calls) == rows


def test_scratch_is_the_most_of_all_builds(tmp_path: Path) -> None:
    """Of a depthwise convolution CMSIS-NN asks for scratch with MVE alone; without --simd there is enough for that."""
    asked = {}
    for simd in ("none", "dsp", "mve", "any"):
        layers = layers_of(chain(1), tmp_path, simd)
        depthwise = next(layer for layer in layers.listed if layer.kind == "depthwise")
        asked[simd] = layers.scratch(depthwise, 0, 4)
    assert asked == {"none": 0, "dsp": 0, "mve": 4 * 124 * 9, "any": 4 * 124 * 9}


def test_steps_that_repeat_are_written_once() -> None:
    """Runs spelled out are the steps."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        words = [str(w) for w in rng.integers(0, 3, 40)]
        runs = repeated(words)
        assert [w for listed, times in runs for w in listed * times] == words
    assert len(repeated(["a", "b"] * 500)) == 1


def test_the_command_writes_the_library_s_calls(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A budget that is too small is said, with status 3; `--simd` is refused without it, and other options with it."""
    model = tmp_path / "net.tflite"
    model.write_bytes(chain(2).bytes())
    assert main(["emit", str(model), "-o", str(tmp_path / "a"), "--kernels", "cmsis-nn", "--simd", "dsp", "-q"]) == 0
    assert "arm_depthwise_conv_wrapper_s8(" in (tmp_path / "a/model.c").read_text()
    words = ["emit", str(model), "-o", str(tmp_path / "b"), "--kernels", "cmsis-nn", "--budget", "1KiB", "--json", "-q"]
    capsys.readouterr()
    assert main(words) == 3
    shown = json.loads(capsys.readouterr().out)
    assert shown["arena_bytes"] > 1024
    assert shown["segments"]
    assert main(["emit", str(model), "-o", str(tmp_path / "c"), "--kernels", "cmsis-nn", "--stream-input"]) == 2
    assert main(["emit", str(model), "-o", str(tmp_path / "c"), "--simd", "dsp"]) == 2


def test_weights_that_no_kernel_takes_are_refused(tmp_path: Path) -> None:
    """As of lowtide's own kernels, before anything is written."""
    net = chain(1)
    _, w, _ = net.graph.operators[0].inputs
    net.graph.tensors[w].quantization.zeroPoint = [3] * 8
    model = tmp_path / "net.tflite"
    model.write_bytes(net.bytes())
    plan = lowtide.research.plan(model, target="loops", time=2)
    with pytest.raises(InputError, match="around 0"):
        lowtide.emit_c(plan, model, tmp_path / "out", kernels="cmsis-nn")
    assert not (tmp_path / "out").exists()
