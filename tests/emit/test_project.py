"""Plans as C: compiled with sanitizers and guarded memory, and equal to TFLM bit by bit."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import lowtide
from lowtide.api.emitting import project_of
from lowtide.cli import main
from lowtide.emit.project import files_of, project
from lowtide.errors import InputError, VerificationError
from support.emit_nets import (
    FLAGS,
    compiled,
    compiler,
    convolution,
    emit_net,
    feeds_of,
    layers_net,
    output_of,
    sanitizers,
    tflm_outputs,
    wide_net,
)
from support.tflite_builder import SAME, Net, pointwise, residual, s

pytest.importorskip("ai_edge_litert", reason="pip install '.[tflite]'")
pytest.importorskip("tflite_micro", reason="pip install '.[tflite]'")
needs_compiler = pytest.mark.skipif(compiler() is None, reason="no C compiler on this machine")
WAYS: dict[str, dict[str, Any]] = {
    "whole": {},
    "rows": {"allow": "row-streaming"},
    "handed over": {"allow": "row-streaming", "stream_input": True},
}


def written(net: Net, folder: Path, way: str) -> tuple[Path, lowtide.Plan]:
    """A network's file, and its plan as C beside it."""
    model = folder / "net.tflite"
    model.write_bytes(net.bytes())
    plan = lowtide.research.plan(model, target="loops", time=5, **WAYS[way])
    sizes = lowtide.emit_c(plan, model, folder)
    assert sizes.arena_bytes == plan.arena_bytes
    return model, plan


def check(net: Net, folder: Path, way: str, inputs: int = 3, *, optimised: bool = False) -> lowtide.Plan:
    """What a network's C makes of random inputs is what TFLM makes, and nothing outside the arena is written."""
    model, plan = written(net, folder, way)
    feeds = feeds_of(net, inputs)
    data = b"".join(value.tobytes() for feed in feeds for value in feed)
    wanted = tflm_outputs(model, feeds)
    for flags in (sanitizers(), ()) if optimised else (sanitizers(),):
        assert output_of(compiled(folder, flags), data) == wanted
    return plan


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("seed", [16, 35])
def test_a_network_runs_as_in_tflm(tmp_path: Path, way: str, seed: int) -> None:
    """Whole, in loops, and handed over; the plan holds in the simulation too."""
    net = emit_net(random.Random(seed).choice, seed, 10)
    plan = check(net, tmp_path, way, optimised=True)
    assert bool(plan.loops) == (way != "whole")
    assert any(loop.streamed for loop in plan.loops or ()) == (way == "handed over")
    if plan.loops:
        lowtide.verify(tmp_path / "net.tflite", plan, run=True)


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("window", [1, 3])
def test_channels_are_added_up_one_by_one(tmp_path: Path, window: int) -> None:
    """A wide tensor between two convolutions is there a channel at a time."""
    plan = check(wide_net(window), tmp_path, "rows")
    assert [list(loop.merge.values()) for loop in plan.loops or ()] == [["sum"]]
    assert (plan.arena_bytes or 0) < 4 * 5 * 300


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("way", ["rows", "handed over"])
def test_a_pool_over_all_adds_rows_up(tmp_path: Path, way: str) -> None:
    """What it reads is there a few rows at a time, and never whole."""
    pick = random.Random(1).choice
    net = Net(5)
    x = net.tensor((1, 24, 6, 3), scale=0.05, zero=9)
    y = convolution(net, x, pick, 16, kernel=(3, 3), padding=SAME)
    y = convolution(net, y, pick, 16, kernel=(1, 1))
    y = convolution(net, y, pick, 1, kernel=(3, 3), padding=SAME, depthwise=True)
    net.ends([x], [net.pool(y, "AVERAGE_POOL_2D", (24, 6), (1, 1))])
    plan = check(net, tmp_path, way, 20)
    assert [set(loop.merge.values()) for loop in plan.loops or ()] == [{"sum"}]
    assert (plan.arena_bytes or 0) < 24 * 6 * 16


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("ops", [0, 8])
def test_one_rounding_is_a_word_of_the_compiler(tmp_path: Path, ops: int) -> None:
    """Without a warning, with softmax and without; results are next to those of two roundings."""
    net = emit_net(random.Random(16).choice, 16, ops) if ops else residual()
    written(net, tmp_path, "whole")
    data = b"".join(value.tobytes() for feed in feeds_of(net, 3) for value in feed)
    twice = output_of(compiled(tmp_path), data)
    once = output_of(compiled(tmp_path, ["-DMODEL_SINGLE_ROUNDING=1", *sanitizers()]), data)
    assert len(once) == len(twice)
    assert (
        max(
            abs(a - b)
            for a, b in zip(np.frombuffer(once, np.int8).tolist(), np.frombuffer(twice, np.int8).tolist(), strict=True)
        )
        < 40
    )


@pytest.mark.slow
@needs_compiler
def test_several_inputs_and_outputs_are_parameters_in_the_order_of_the_file(tmp_path: Path) -> None:
    """One of them is read by nobody, and has no place in the arena."""
    net = Net()
    a, idle, b = (net.tensor((1, 5, 4, 2), zero=3) for _ in range(3))
    total = net.add(a, b)
    net.ends([a, idle, b], [net.conv(total, 3), total])
    model, _ = written(net, tmp_path, "whole")
    header = (tmp_path / "model.h").read_text()
    assert "const int8_t *in_0, const int8_t *in_1, const int8_t *in_2, int8_t *out_0, int8_t *out_1" in header
    feeds = feeds_of(net, 3)
    data = b"".join(value.tobytes() for feed in feeds for value in feed)
    assert output_of(compiled(tmp_path, sanitizers()), data) == tflm_outputs(model, feeds, 2)


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("way", ["rows", "handed over"])
def test_rings_that_share_memory_run_as_in_tflm(tmp_path: Path, way: str) -> None:
    """Rows that are made and read within one turn lie where others lay in it."""
    plan = check(pointwise(), tmp_path, way)
    assert any(loop.kept_bytes is not None for loop in plan.loops or ())


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("way", ["rows", "handed over"])
def test_a_branch_that_the_driving_op_does_not_need_keeps_up(tmp_path: Path, way: str) -> None:
    """Two ends in one loop: the other branch, of three ops, runs whenever it can, and no ring holds a whole tensor."""
    net = Net()
    x = net.tensor((1, 24, 6, 3), zero=3)
    wide = net.conv(x, 24, (3, 3), (1, 1), SAME)
    one = net.conv(net.conv(net.conv(wide, 16, (1, 1)), 16, (3, 3), (2, 2), SAME), 2, (1, 1))
    other = net.conv(net.conv(wide, 16, (3, 3), (2, 2), SAME), 2, (1, 1))
    net.ends([x], [one, other])
    model, plan = written(net, tmp_path, way)
    (loop,) = [*(plan.loops or [])]
    assert len(loop.ops) == 6
    sizes = {str(t.id): t.size for t in lowtide.load(model).tensors}
    assert all(3 * ring.slots * ring.bytes < sizes[t] for t, ring in loop.keep.items())
    feeds = feeds_of(net, 3)
    data = b"".join(value.tobytes() for feed in feeds for value in feed)
    assert output_of(compiled(tmp_path, sanitizers()), data) == tflm_outputs(model, feeds, 2)


@pytest.mark.slow
@needs_compiler
def test_layers_of_any_size_run_as_in_tflm(tmp_path: Path) -> None:
    """With channels that four does not divide, weights of -128, and factors above 1."""
    check(layers_net(), tmp_path, "whole", optimised=True)


@pytest.mark.slow
@needs_compiler
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32), way=st.sampled_from(list(WAYS)))
@example(seed=692111, way="rows")  # a reshape in a loop
def test_random_networks_run_as_in_tflm(seed: int, way: str) -> None:
    """Of all operators, scales, windows and ways."""
    with TemporaryDirectory() as folder:
        check(emit_net(random.Random(seed).choice, seed), Path(folder), way)


@pytest.mark.slow
@needs_compiler
def test_the_example_of_the_page_compiles(tmp_path: Path) -> None:
    """What docs/emit.md shows of a microcontroller, with the header of a network whose input is handed over."""
    page = Path(__file__).parents[2] / "docs/emit.md"
    if not page.is_file():
        pytest.skip("lowtide is installed without its pages")
    written(emit_net(random.Random(16).choice, 16, 10), tmp_path, "handed over")
    code = page.read_text().partition("```c\n")[2].partition("```")[0]
    (tmp_path / "board.c").write_text(code)
    subprocess.run([compiler() or "cc", *FLAGS, "-c", "board.c", "-o", "board.o"], cwd=tmp_path, check=True)


def test_the_same_plan_is_the_same_text(tmp_path: Path) -> None:
    """Nothing hangs on the folder or on the run; every row ends a line; names are C's."""
    model, plan = written(residual(), tmp_path, "rows")
    graph = lowtide.load(model)
    once, again = (project(graph, plan, model.read_bytes()) for _ in range(2))
    assert once == again
    for name, text in once.files.items():
        assert text.isascii(), name
        assert text.endswith("\n"), name
        assert "@" not in text, name
        assert (tmp_path / name).read_text() == text
    for word in ("malloc", "float ", "double ", "printf"):
        assert word not in once.files["model.c"]


def test_macs_and_bytes_are_counted(tmp_path: Path) -> None:
    """Of a convolution by hand."""
    net = Net()
    x = net.tensor((1, 8, 6, 3))
    net.ends([x], [net.conv(x, 4, (3, 3), (2, 2))])
    _, plan = written(net, tmp_path, "whole")
    sizes = lowtide.emit_c(plan, tmp_path / "net.tflite", tmp_path)
    assert sizes.macs == 4 * 3 * 4 * 27
    assert sizes.moved_bytes == 144 + 48 + 108 + 16
    assert sizes.weight_bytes == 108 + 16 + 16 + 4


def refused() -> Iterator[tuple[Net, str]]:
    """Networks that have no C, and what is said."""
    net = Net()
    x = net.tensor((1, 4, 4, 2))
    net.ends([x], [net.unary("SIN", x)])
    yield net, "C is not written for this operator"
    net = Net()
    x = net.tensor((1, 4, 4, 2), "float32")
    net.ends([x], [net.conv(x, 2)])
    net.graph.tensors[net.graph.operators[0].inputs[1]].type = s.TensorType.INT32
    yield net, "are no constants of type float32"
    net = Net()
    x = net.tensor((2, 4, 4, 2))
    net.ends([x], [net.conv(x, 2)])
    yield net, "batch of 1"
    net = Net()
    x = net.tensor((1, 4, 4, 2))
    net.ends([x], [net.conv(x, 2)])
    net.graph.tensors[net.graph.outputs[0]].shape = [1, 3, 4, 2]
    yield net, "its shapes do not fit together"
    net = Net()
    x = net.tensor((1, 4, 4, 2))
    y = net.tensor((1, 4, 2), scale=0.1)
    o = s.ReducerOptionsT()
    net.op("MEAN", [x, net.tensor((1,), "int32", [1], scale=0.0)], [y], o)
    net.ends([x], [y])
    yield net, "C is written for rows and columns"
    for kernel, dilation in (((5, 3), (1 << 31) - 1), ((3, 3), 1 << 30)):
        net = Net()
        x = net.tensor((1, 4, 4, 2))
        net.ends([x], [net.conv(x, 2, kernel, dilation=(dilation, 1))])
        yield net, "and C is written for 32 bits"


@pytest.mark.parametrize(("net", "why"), list(refused()))
def test_what_has_no_c_is_refused_before_anything_is_planned(
    tmp_path: Path, net: Net, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line that names the file and the op; no folder is left."""
    model, folder = tmp_path / "net.tflite", tmp_path / "code"
    model.write_bytes(net.bytes())
    assert main(["emit", str(model), "-o", str(folder)]) == 2
    error = capsys.readouterr().err.strip()
    assert why in error
    assert str(model) in error
    assert error.count("\n") == 0
    assert not folder.exists()


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ([], "required: -o"),
        (["-o", "code", "--header", "h.h"], "unrecognized arguments: --header"),
        (["-o", "code", "--dim", "n=1,2"], "several sizes"),
    ],
)
def test_what_does_not_go_with_code_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Options of other files, and no folder."""
    monkeypatch.chdir(tmp_path)
    Path("net.tflite").write_bytes(residual().bytes())
    assert main(["emit", "net.tflite", *more]) == 2
    assert why in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["net.tflite"]


@pytest.mark.parametrize(
    ("target", "why"), [("generic,chains=fused", "C is written op by op"), ("tflm", "plan with --target loops")]
)
def test_a_plan_for_other_kernels_has_no_code(tmp_path: Path, target: str, why: str) -> None:
    """Nothing is written."""
    model = tmp_path / "net.tflite"
    model.write_bytes(residual().bytes())
    plan = lowtide.research.plan(model, target=target)
    with pytest.raises(InputError, match=why):
        lowtide.emit_c(plan, model, tmp_path / "code")
    assert not (tmp_path / "code").exists()


def test_the_command_writes_what_the_call_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And prints the sizes; what was in the folder stays."""
    model, _ = written(residual(), tmp_path, "rows")
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "mine.txt").write_text("mine")
    words = ["emit", str(model), "-o", str(folder), "--plan", f"{folder}/p.json"]
    assert main(words) == 0
    shown = capsys.readouterr().out
    assert "static memory" in shown
    assert str(model) in shown
    for path in sorted(folder.iterdir()):
        if path.suffix in (".c", ".h"):
            assert path.read_bytes() == (tmp_path / path.name).read_bytes()
    assert {path.name for path in folder.iterdir()} == {
        "CMakeLists.txt", "main.c", "mine.txt", "model.c", "model.h", "model_weights.c", "model_weights.h", "p.json",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["main.c", "CMakeLists.txt", "model_weights.h"])
def test_a_file_of_the_users_is_not_replaced(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One line that names it, before anything is planned or written, from the command and from the call."""
    model, plan = written(residual(), tmp_path, "whole")
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / name).write_text("/* mine */\n#include <stdio.h> /* not Made by lowtide; make it again */\n")
    text = (folder / name).read_text()
    assert main(["emit", str(model), "-o", str(folder), "--plan", f"{folder}/p.json"]) == 2
    error = capsys.readouterr().err.strip()
    assert f"{folder / name}: lowtide did not make this file" in error
    assert "name another folder" in error
    assert error.count("\n") == 0
    with pytest.raises(InputError, match="lowtide did not make this file"):
        lowtide.emit_c(plan, model, folder)
    assert [(path.name, path.read_text()) for path in folder.iterdir()] == [(name, text)]


def test_files_of_another_project_are_replaced(tmp_path: Path) -> None:
    """All of them say that lowtide made them, whatever the model's name."""
    written(residual(20), tmp_path, "whole")
    before = {name: (tmp_path / name).read_bytes() for name in files_of("model")}
    model, plan = written(residual(), tmp_path, "whole")
    assert (tmp_path / "model.c").read_bytes() != before["model.c"]
    long = model.rename(tmp_path / f"{'n' * 240}.tflite")
    for _ in range(2):
        lowtide.emit_c(plan, long, tmp_path)


@pytest.mark.slow
def test_what_is_over_budget_is_written_and_said_last(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the model of a plan is written that needs more; the ladder, the screen and the budget have one figure."""
    model, folder = tmp_path / "net.tflite", tmp_path / "code"
    model.write_bytes(residual().bytes())
    sizes = project_of(lowtide.research.plan(model, target="loops", allow="row-streaming"), model).sizes
    needed = sizes.arena_bytes + sizes.counter_bytes + sizes.state_bytes
    assert main(["emit", str(model), "-o", str(folder), "--budget", "5", "-q"]) == 3
    said = capsys.readouterr().out
    assert f"\nover budget: {needed:,} B (" in said
    assert said.index("over budget: ") < said.index("lowtide research plan ")
    assert (folder / "model.c").exists()
    monkeypatch.setattr(sys.modules["lowtide.api.ways_to_fit"], "RUNG_SECONDS", 60.0)
    ways = {way.how: way for way in lowtide.research.ways_to_fit(model, needed - 1)}
    rung = ways.get("C with row loops") or ways["C, without TFLM"]
    assert (rung.required_bytes, rung.fits) == (needed, False)
    for budget, status in ((needed, 0), (needed - 1, 3)):
        assert main(["emit", str(model), "-o", str(folder), "--budget", f"{budget}B", "-q"]) == status


def test_an_input_that_is_held_all_the_same_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A product reads all of its input at once for each of its channels."""
    net = Net()
    x = net.tensor((1, 8))
    w = net.tensor((4, 8), data=range(32), scale=0.01)
    y = net.tensor((1, 4), scale=0.1)
    net.op("FULLY_CONNECTED", [x, w], [y], s.FullyConnectedOptionsT())
    net.ends([x], [y])
    model = tmp_path / "net.tflite"
    model.write_bytes(net.bytes())
    assert main(["emit", str(model), "-o", f"{tmp_path}/c", "--stream-input"]) == 0
    assert "no model_feed_rows" in capsys.readouterr().err
    assert "model_feed_rows" not in (tmp_path / "c/model.h").read_text()


def test_a_plan_that_does_not_hold_is_refused(tmp_path: Path) -> None:
    """One whose addresses were changed: code would write over what is still read."""
    model, plan = written(residual(), tmp_path, "whole")
    wrong = msgspec.structs.replace(plan, offsets=dict.fromkeys(plan.offsets or (), 0))
    with pytest.raises(VerificationError):
        lowtide.emit_c(wrong, model, tmp_path / "code")
    assert not (tmp_path / "code").exists()


def test_what_computes_nothing_is_refused(tmp_path: Path) -> None:
    """A RESHAPE alone lies in its input."""
    net = Net()
    x = net.tensor((1, 4, 4, 2))
    net.ends([x], [net.reshape(x, (1, 32))])
    model = tmp_path / "net.tflite"
    model.write_bytes(net.bytes())
    with pytest.raises(InputError, match="no operator that computes anything"):
        lowtide.emit_c(lowtide.research.plan(model, target="loops"), model, tmp_path / "code")


def test_a_plan_of_another_model_is_refused(tmp_path: Path) -> None:
    """By its hash."""
    _, plan = written(residual(), tmp_path, "whole")
    other = tmp_path / "other.tflite"
    other.write_bytes(residual(20).bytes())
    with pytest.raises(InputError, match="another model"):
        lowtide.emit_c(plan, other, tmp_path / "code")
    assert not (tmp_path / "code").exists()
