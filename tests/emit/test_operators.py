"""Operators beyond convolutions in C, bit by bit as TFLM makes them: float32, tables, broadcasts, variables."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lowtide
from lowtide.cli import main
from support.emit_nets import FLAGS, compiler, sanitizers, tflm_outputs
from support.tflite_builder import SAME, VALID, Net, s

pytest.importorskip("ai_edge_litert", reason="pip install '.[tflite]'")
pytest.importorskip("tflite_micro", reason="pip install '.[tflite]'")
needs_compiler = pytest.mark.skipif(compiler() is None, reason="no C compiler on this machine")
LOOPS = {"allow": "row-streaming"}
Feed = list[np.ndarray]


def built(folder: Path, name: str = "model") -> Path:
    """The host program of a project; its warnings are errors."""
    program = folder / "host"
    sources = (f"{name}.c", f"{name}_weights.c", "main.c")
    guard = f"-D{name.upper()}_GUARD=64"
    done = subprocess.run(
        [compiler() or "cc", *FLAGS[:-1], guard, *sanitizers(), *sources, "-o", str(program), "-lm"],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[:2000]
    return program


def outputs_of(program: Path, feeds: Sequence[Feed]) -> bytes:
    """What a host program makes of inputs, one after the other."""
    source, target = program.parent / "in.bin", program.parent / "out.bin"
    source.write_bytes(b"".join(value.tobytes() for feed in feeds for value in feed))
    done = subprocess.run([program, source, target], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.returncode, done.stderr[:2000])
    return target.read_bytes()


def check(
    net: Net, feeds: Sequence[Feed], folder: Path, outputs: int = 1, target: str = "loops", **way: Any
) -> lowtide.Plan:
    """What a network's C makes of inputs is what TFLM makes of them."""
    model = folder / "net.tflite"
    model.write_bytes(net.bytes())
    plan = lowtide.research.plan(model, target=target, time=5, **way)
    lowtide.emit_c(plan, model, folder)
    assert outputs_of(built(folder), feeds) == tflm_outputs(model, feeds, outputs)
    return plan


def real_feeds(net: Net, count: int = 4) -> list[Feed]:
    """Random numbers with a point."""
    rng = np.random.default_rng(1)
    return [[rng.standard_normal(net.shape(t)).astype(np.float32) for t in net.graph.inputs] for _ in range(count)]


def whole_feeds(net: Net, dtype: type[np.signedinteger[Any]] = np.int8, count: int = 6) -> list[Feed]:
    """Random integers of all sizes."""
    rng, limits = np.random.default_rng(1), np.iinfo(dtype)
    return [
        [rng.integers(limits.min >> k, (limits.max >> k) + 1, net.shape(t)).astype(dtype) for t in net.graph.inputs]
        for k in range(count)
    ]


def pair(net: Net, kind: str, a: int, b: int, **tensor: Any) -> int:
    """An operator on two tensors, which are broadcast."""
    shape = np.broadcast_shapes(net.shape(a), net.shape(b))
    out = net.tensor(shape, **tensor)
    options = {"DIV": s.DivOptionsT, "MUL": s.MulOptionsT, "SUB": s.SubOptionsT, "ADD": s.AddOptionsT}.get(kind)
    net.op(kind, [a, b], [out], options() if options else None)
    return out


@pytest.mark.slow
@needs_compiler
def test_numbers_with_a_point_element_by_element(tmp_path: Path) -> None:
    """Curves of the C library are the same ones here; constants and operands are repeated along dimensions."""
    net = Net()
    x = net.tensor((1, 3, 4, 5), "float32")
    row, one = net.tensor((5,), "float32", net.rng.standard_normal(5)), net.tensor((), "float32", 0.25)
    column = net.tensor((1, 3, 1, 1), "float32")
    kinds = ("ABS", "CEIL", "COS", "FLOOR", "NEG", "RELU", "RELU6", "SIN", "SQUARE", "TANH", "LOGISTIC", "HARD_SWISH")
    made = [net.unary(kind, x) for kind in kinds]
    leaky = s.LeakyReluOptionsT()
    leaky.alpha = 0.3
    made += [net.unary("LEAKY_RELU", x, leaky), net.unary("EXP", x), net.unary("ELU", x)]
    positive = net.unary("ABS", x)
    made += [net.unary(kind, positive) for kind in ("LOG", "RSQRT", "SQRT")]
    for kind in ("ADD", "DIV", "MUL", "SUB", "MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE"):
        made += [pair(net, kind, x, other, dtype="float32") for other in (row, one, column)]
    made.append(pair(net, "PRELU", x, row, dtype="float32"))
    net.ends([x, column], made)
    check(net, real_feeds(net), tmp_path, len(made))


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("way", [{}, LOOPS])
def test_layers_of_numbers_with_a_point(tmp_path: Path, way: dict[str, str]) -> None:
    """Convolutions, pools, a mean, a product and a softmax, with windows over the border."""
    net = Net(2)
    x = net.tensor((1, 12, 7, 3), "float32")
    y = net.conv(x, 8, (3, 3), (2, 1), SAME)
    y = net.conv(net.conv(y, 1, (3, 2), (1, 1), SAME, depthwise=True), 6, (1, 1))
    y = net.pool(y, "MAX_POOL_2D", (2, 2), (1, 1), SAME)
    y = net.pool(y, "AVERAGE_POOL_2D", (3, 2), (2, 1), SAME)
    flat = net.tensor((1, 6), "float32")
    o = s.ReducerOptionsT()
    net.op("MEAN", [y, net.tensor((2,), "int32", [1, 2], scale=0.0)], [flat], o)
    w = net.tensor((4, 6), "float32", net.rng.standard_normal((4, 6)))
    out = net.tensor((1, 4), "float32")
    net.op(
        "FULLY_CONNECTED",
        [flat, w, net.tensor((4,), "float32", [0.1, 0.2, -0.3, 0.0])],
        [out],
        s.FullyConnectedOptionsT(),
    )
    soft = s.SoftmaxOptionsT()
    soft.beta = 1.0
    net.ends([x], [net.unary("SOFTMAX", out, soft)])
    plan = check(net, real_feeds(net), tmp_path, **way)
    assert bool(plan.loops) == bool(way)


def _shapes(net: Net, x: int, dtype: str) -> list[int]:
    """A tensor moved around."""
    made = []

    def out(shape: tuple[int, ...]) -> int:
        made.append(net.like(x, shape))
        return made[-1]

    def numbers(*values: int) -> int:
        return net.tensor((len(values),), "int32", values, scale=0.0)

    net.op("TRANSPOSE", [x, numbers(0, 3, 1, 2)], [out((1, 6, 4, 5))], s.TransposeOptionsT())
    options = s.StridedSliceOptionsT()
    options.beginMask, options.endMask, options.shrinkAxisMask = 1, 9, 4
    net.op(
        "STRIDED_SLICE", [x, numbers(0, -3, 2, 5), numbers(1, 4, 3, 0), numbers(1, 2, 1, -2)], [out((1, 2, 3))], options
    )
    net.op("SLICE", [x, numbers(0, 1, 0, 2), numbers(1, 2, -1, 3)], [out((1, 2, 5, 3))], s.SliceOptionsT())
    halves = s.SplitVOptionsT()
    halves.numSplits = 2
    axis = net.tensor((), "int32", 3, scale=0.0)
    net.op("SPLIT_V", [x, numbers(2, 4), axis], [out((1, 4, 5, 2)), out((1, 4, 5, 4))], halves)
    packed = s.PackOptionsT()
    packed.axis, packed.valuesCount = -1, 2
    flat = net.reshape(x, (1, 20, 6))
    net.op("PACK", [flat, flat], [out((1, 20, 6, 2))], packed)
    unpacked = s.UnpackOptionsT()
    unpacked.axis, unpacked.num = 1, 4
    net.op("UNPACK", [x], [out((1, 5, 6)) for _ in range(4)], unpacked)
    mirror = s.MirrorPadOptionsT()
    pads = net.tensor((4, 2), "int32", [0, 0, 2, 1, 1, 3, 0, 2], scale=0.0)
    net.op("MIRROR_PAD", [x, pads], [out((1, 7, 9, 8))], mirror)
    net.op("PAD", [x, pads], [out((1, 7, 9, 8))], s.PadOptionsT())
    joined = s.ConcatenationOptionsT()
    joined.axis = 2
    net.op("CONCATENATION", [x, x], [out((1, 4, 10, 6))], joined)
    return made


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("dtype", ["int8", "float32"])
def test_elements_that_move(tmp_path: Path, dtype: str) -> None:
    """Transposed, in steps back and forth, split, packed, mirrored."""
    net = Net()
    x = net.tensor((1, 4, 5, 6), dtype)
    made = _shapes(net, x, dtype)
    net.ends([x], made)
    check(net, real_feeds(net) if dtype == "float32" else whole_feeds(net), tmp_path, len(made))


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize(("axes", "ways"), [([3], [{}, LOOPS]), ([1], [{}, LOOPS]), ([1, 3], [{}]), ([1, 2, 3], [{}])])
@pytest.mark.parametrize("kind", ["MEAN", "REDUCE_MAX", "REDUCE_MIN", "SUM"])
def test_reductions_along_any_dimensions(
    tmp_path: Path, kind: str, axes: list[int], ways: list[dict[str, str]]
) -> None:
    """In the order of the operand's elements; part by part where that is the same one."""
    net = Net()
    x = net.tensor((1, 6, 4, 3), "float32")
    wide = net.conv(x, 40, (1, 1))
    o = s.ReducerOptionsT()
    o.keepDims = True
    shape = tuple(1 if d in axes else size for d, size in enumerate(net.shape(wide)))
    out = net.tensor(shape, "float32")
    net.op(kind, [wide, net.tensor((len(axes),), "int32", axes, scale=0.0)], [out], o)
    net.ends([x], [out])
    for way in ways:
        check(net, real_feeds(net), tmp_path, **way)


def test_sums_in_another_order_are_written_without_row_streaming(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A sum over rows and channels, of channels that come one by one, would be rounded otherwise."""
    net = Net()
    x = net.tensor((1, 6, 4, 3), "float32")
    wide, out = net.conv(x, 40, (1, 1)), net.tensor((1, 4), "float32")
    net.op("SUM", [wide, net.tensor((2,), "int32", [1, 3], scale=0.0)], [out], s.ReducerOptionsT())
    net.ends([x], [out])
    model = tmp_path / "net.tflite"
    model.write_bytes(net.bytes())
    plan = lowtide.research.plan(model, target="loops", time=5, **LOOPS)
    with pytest.raises(lowtide.errors.InputError, match="in another order than TFLM"):
        lowtide.emit_c(plan, model, tmp_path / "code")
    assert main(["emit", str(model), "-o", str(tmp_path / "code")]) == 0
    assert "without row streaming: " in capsys.readouterr().err
    assert "0 row loops" in (tmp_path / "code" / "model.h").read_text()


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("scale", [0.0037, 0.05, 0.11, 1.9])
@pytest.mark.parametrize("zero", [-128, 3])
def test_curves_of_8_bits_are_tables(tmp_path: Path, scale: float, zero: int) -> None:
    """Of all 256 numbers that there are."""
    net = Net()
    x = net.tensor((1, 16, 16, 1), scale=scale, zero=zero)
    leaky = s.LeakyReluOptionsT()
    leaky.alpha = 0.13
    made = [
        net.unary("LOGISTIC", x, scale=1 / 256, zero=-128),
        net.unary("TANH", x, scale=1 / 128, zero=0),
        net.unary("LEAKY_RELU", x, leaky, scale=0.9 * scale, zero=7),
        net.unary("HARD_SWISH", x, scale=1.1 * scale, zero=-5),
        net.unary("ELU", x, scale=0.8 * scale, zero=-100),
        net.unary("ABS", x, scale=0.7 * scale, zero=-128),
    ]
    net.ends([x], made)
    feed = [np.arange(-128, 128, dtype=np.int8).reshape(1, 16, 16, 1)]
    check(net, [feed], tmp_path, len(made))


@needs_compiler
def test_pairs_of_8_bits_are_broadcast(tmp_path: Path) -> None:
    """With tensors and with constants, with scales of all kinds."""
    net = Net()
    x, row = net.tensor((1, 3, 4, 5), scale=0.02, zero=-7), net.tensor((1, 1, 1, 5), scale=0.11, zero=30)
    held = net.tensor((5,), data=net.rng.integers(-128, 128, 5), scale=0.07, zero=11)
    made = []
    for other in (row, held):
        made += [pair(net, kind, x, other, scale=0.05, zero=4) for kind in ("ADD", "SUB", "MUL")]
    made += [pair(net, kind, x, net.like(x, (1, 3, 1, 1)), scale=0.02, zero=-7) for kind in ("MAXIMUM", "MINIMUM")]
    same = [net.graph.operators[-2].inputs[1], net.graph.operators[-1].inputs[1]]
    made.append(pair(net, "PRELU", x, held, scale=0.03, zero=2))
    net.ends([x, row, *same], made)
    check(net, whole_feeds(net), tmp_path, len(made))


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("scale", [2.0**-12, 0.0003, 0.004])
def test_curves_and_pairs_of_16_bits(tmp_path: Path, scale: float) -> None:
    """Lines between values of a table, as TFLM's."""
    net = Net()
    x, other = net.tensor((1, 8, 8, 4), "int16", scale=scale), net.tensor((1, 1, 1, 4), "int16", scale=0.001)
    leaky = s.LeakyReluOptionsT()
    leaky.alpha = 0.2
    made = [
        net.unary("LOGISTIC", x, dtype="int16", scale=2.0**-15),
        net.unary("TANH", x, dtype="int16", scale=2.0**-15),
        net.unary("LEAKY_RELU", x, leaky, dtype="int16", scale=0.9 * scale),
        *(pair(net, kind, x, other, dtype="int16", scale=0.002) for kind in ("ADD", "SUB", "MUL")),
    ]
    net.ends([x, other], made)
    check(net, whole_feeds(net, np.int16, 9), tmp_path, len(made))


def _variables(net: Net, begins: Sequence[int] | None) -> None:
    """The last three inputs of a model, kept in a variable; `begins`: what it begins with."""
    handle = s.VarHandleOptionsT()
    handle.container, handle.sharedName = "", "states"

    def variable() -> int:
        t = net.tensor((), "int32", scale=0.0)
        net.graph.tensors[t].type = s.TensorType.RESOURCE
        net.op("VAR_HANDLE", [], [t], handle)
        return t

    main = net.graph
    if begins is not None:
        body = net.subgraph()
        held = net.tensor((1, 3, 1, 4), data=begins, zero=2)
        net.op("ASSIGN_VARIABLE", [variable(), held], [], s.AssignVariableOptionsT())
        net.graph = main
        once = s.CallOnceOptionsT()
        once.initSubgraphIndex = body
        net.op("CALL_ONCE", [], [], once)
    state, x = variable(), net.tensor((1, 1, 1, 4), zero=2)
    kept, both = net.like(x, (1, 3, 1, 4)), net.like(x, (1, 4, 1, 4))
    net.op("READ_VARIABLE", [state], [kept], s.ReadVariableOptionsT())
    joined = s.ConcatenationOptionsT()
    joined.axis = 1
    net.op("CONCATENATION", [kept, x], [both], joined)
    last = net.like(x, (1, 3, 1, 4))
    numbers = [net.tensor((4,), "int32", v, scale=0.0) for v in ([0, 1, 0, 0], [1, 4, 1, 4], [1, 1, 1, 1])]
    net.op("STRIDED_SLICE", [both, *numbers], [last], s.StridedSliceOptionsT())
    net.op("ASSIGN_VARIABLE", [state, last], [], s.AssignVariableOptionsT())
    net.ends([x], [net.conv(both, 2, (4, 1), (1, 1), VALID)])


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("begins", [None, [-128] * 12, range(12)])
def test_variables_are_kept_from_run_to_run(tmp_path: Path, begins: Sequence[int] | None) -> None:
    """They begin with zeros, with one number, or with an array."""
    net = Net()
    _variables(net, begins)
    feeds = whole_feeds(net)
    check(net, feeds, tmp_path)
    assert re.search(r"#define MODEL_STATE_BYTES 12 ", (tmp_path / "model.h").read_text())
    program = tmp_path / "host"
    assert outputs_of(program, feeds[:1]) == outputs_of(program, feeds)[:2]
    assert outputs_of(program, feeds[2:3]) != outputs_of(program, feeds)[4:6]


def _branches(net: Net) -> None:
    """A model that takes one of two ways, by the sign of a sum."""
    x = net.tensor((1, 6), "float32")
    total, truth = net.tensor((1,), "float32"), net.tensor((1,), "bool")
    main = net.graph
    bodies = []
    for negates in (True, False):
        bodies.append(net.subgraph())
        inner = net.tensor((1, 6), "float32")
        y = net.unary("NEG", net.reshape(inner, (6,))) if negates else inner
        net.ends([inner], [net.reshape(net.unary("SQUARE", y), (1, 6)) if negates else y])
    net.graph = main
    o = s.ReducerOptionsT()
    net.op("SUM", [x, net.tensor((1,), "int32", [1], scale=0.0)], [total], o)
    net.op("GREATER", [total, net.tensor((), "float32", 0.0)], [truth], None)
    way, out = s.IfOptionsT(), net.tensor((1, 6), "float32")
    way.thenSubgraphIndex, way.elseSubgraphIndex = bodies
    net.op("IF", [truth, x], [out], way)
    net.ends([x], [net.unary("ABS", out)])


@needs_compiler
def test_of_two_branches_one_runs(tmp_path: Path) -> None:
    """The condition changes from input to input; one branch gives its input back."""
    net = Net()
    _branches(net)
    feeds = real_feeds(net, 8)
    assert len({float(feed[0].sum()) > 0 for feed in feeds}) == 2
    check(net, feeds, tmp_path)


@pytest.mark.slow
@needs_compiler
def test_two_models_link_and_share_an_arena(tmp_path: Path) -> None:
    """Each with a name of its own; they run in turns, and one of them keeps a variable meanwhile."""
    nets, feeds, wanted = [Net(1), Net(2)], [], []
    x = nets[0].tensor((1, 6, 5, 3))
    nets[0].ends([x], [nets[0].conv(nets[0].conv(x, 8, (3, 3)), 2, (1, 1))])
    _variables(nets[1], [-128] * 12)
    for net, name in zip(nets, ("seen", "heard"), strict=True):
        model = tmp_path / f"{name}.tflite"
        model.write_bytes(net.bytes())
        plan = lowtide.research.plan(model, target="loops", time=5)
        lowtide.emit_c(plan, model, tmp_path / name, name=name)
        feeds.append(whole_feeds(net))
        wanted.append(tflm_outputs(model, feeds[-1]))
        (tmp_path / f"{name}.bin").write_bytes(b"".join(v.tobytes() for feed in feeds[-1] for v in feed))
    (tmp_path / "main.c").write_text("""
#include "seen/seen.h"
#include "heard/heard.h"
#include <stdio.h>
int8_t arena[(SEEN_ARENA_BYTES > HEARD_ARENA_BYTES) ? SEEN_ARENA_BYTES : HEARD_ARENA_BYTES];
int main(void)
{
    static int8_t image[SEEN_INPUT_BYTES], sound[HEARD_INPUT_BYTES];
    static int8_t seen[SEEN_OUTPUT_BYTES], heard[HEARD_OUTPUT_BYTES];
    FILE *images = fopen("seen.bin", "rb"), *sounds = fopen("heard.bin", "rb");
    FILE *out_0 = fopen("seen.out", "wb"), *out_1 = fopen("heard.out", "wb");
    while (fread(image, 1, sizeof image, images) == sizeof image && fread(sound, 1, sizeof sound, sounds) > 0) {
        (void)seen_run(image, seen);
        (void)heard_run(sound, heard);
        (void)fwrite(seen, 1, sizeof seen, out_0);
        (void)fwrite(heard, 1, sizeof heard, out_1);
    }
    (void)fclose(out_0);
    (void)fclose(out_1);
    (void)fclose(images);
    (void)fclose(sounds);
    return 0;
}
""")
    sources = [f"{name}/{name}{end}.c" for name in ("seen", "heard") for end in ("", "_weights")]
    shared = ["-DSEEN_ARENA=arena", "-DHEARD_ARENA=arena"]
    words = [compiler() or "cc", *FLAGS[:-1], *sanitizers(), *shared, "main.c", *sources, "-o", "both", "-lm"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:2000]
    assert subprocess.run(["./both"], cwd=tmp_path, check=False).returncode == 0
    assert [(tmp_path / f"{name}.out").read_bytes() for name in ("seen", "heard")] == wanted


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("way", [{}, LOOPS])
@pytest.mark.parametrize("reshapes", [False, True])
def test_an_input_is_read_where_the_caller_has_it(tmp_path: Path, reshapes: bool, way: dict[str, str]) -> None:
    """The arena holds none of its bytes, and the caller's stay as they are: they are in constant memory here."""
    net = Net()
    x = net.tensor((1, 120, 3) if reshapes else (1, 12, 10, 3))
    image = net.reshape(x, (1, 12, 10, 3)) if reshapes else x
    idle = net.tensor((1, 2))
    out = net.conv(net.pool(image, "MAX_POOL_2D", (3, 3), (3, 3)), 2, (1, 1))
    net.ends([x, idle], [out])
    plan = check(net, whole_feeds(net), tmp_path, target="loops,count_inputs=false", **way)
    assert (plan.arena_bytes or 0) < 12 * 10 * 3
    code = (tmp_path / "model.c").read_text()
    assert "static void take(" not in code


@pytest.mark.parametrize("name", ["", "2nd", "a-b", "a b", "ä"])
def test_a_name_that_c_has_not_is_refused(tmp_path: Path, name: str) -> None:
    """Nothing is written."""
    net = Net()
    x = net.tensor((1, 4, 4, 2))
    net.ends([x], [net.conv(x, 2)])
    model = tmp_path / "net.tflite"
    model.write_bytes(net.bytes())
    plan = lowtide.research.plan(model, target="loops", time=5)
    with pytest.raises(lowtide.errors.InputError, match="is no name in C"):
        lowtide.emit_c(plan, model, tmp_path / "code", name=name)
    assert not (tmp_path / "code").exists()


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("dtype", ["int8", "float32"])
@pytest.mark.parametrize(("stride", "padding", "size"), [((2, 2), SAME, (8, 10)), ((3, 1), VALID, (12, 7))])
def test_transposed_convolutions(
    tmp_path: Path, dtype: str, stride: tuple[int, int], padding: int, size: tuple[int, int]
) -> None:
    """Each pixel of the result adds up the pixels that reach it, in the order in which TFLM adds them to it."""
    net = Net(4)
    x = net.tensor((1, 4, 5, 3), dtype, scale=0.05, zero=-9)
    whole = dtype == "int8"
    values = net.rng.integers(-127, 128, (6, 3, 3, 3)) if whole else net.rng.standard_normal((6, 3, 3, 3))
    w = net.tensor((6, 3, 3, 3), dtype, values, scale=[0.01 + 0.001 * i for i in range(6)] if whole else 0.0)
    bias = net.rng.integers(-900, 900, 6) if whole else net.rng.standard_normal(6)
    b = net.tensor((6,), "int32" if whole else dtype, bias, scale=[0.0005] * 6)
    out = net.tensor((1, *size, 6), dtype, scale=0.1, zero=3)
    o = s.TransposeConvOptionsT()
    o.padding, (o.strideH, o.strideW) = padding, stride
    net.op("TRANSPOSE_CONV", [net.tensor((4,), "int32", [1, *size, 6], scale=0.0), w, x, b], [out], o)
    net.ends([x], [out])
    check(net, whole_feeds(net) if whole else real_feeds(net), tmp_path)


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("clip", [0.0, 0.2])
def test_a_recurrent_layer_of_numbers_with_a_point(tmp_path: Path, clip: float) -> None:
    """Its last results and its cells are kept from run to run."""
    net = Net(5)
    x = net.tensor((1, 4, 3), "float32")

    def weights(*shape: int) -> int:
        return net.tensor(shape, "float32", net.rng.standard_normal(shape))

    gates = [weights(5, 3) for _ in range(4)] + [weights(5, 5) for _ in range(4)]
    biases = [weights(5) for _ in range(4)]
    kept = [net.tensor((1, 5), "float32", variable=True) for _ in range(2)]
    given = [x, *gates, -1, -1, -1, *biases, -1, -1, *kept, -1, -1, -1, -1]
    o = s.UnidirectionalSequenceLSTMOptionsT()
    o.fusedActivationFunction, o.cellClip = 4, clip
    out = net.tensor((1, 4, 5), "float32")
    net.op("UNIDIRECTIONAL_SEQUENCE_LSTM", given, [out], o)
    net.ends([x], [out])
    check(net, real_feeds(net), tmp_path)
