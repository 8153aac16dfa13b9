"""C of plans in several memories, and with several inputs that are handed over."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import lowtide
from lowtide.cli import main
from support.emit_nets import compiled, compiler, feeds_of, output_of, sanitizers, tflm_outputs
from support.tflite_builder import SAME, Net, residual, s

pytest.importorskip("tflite_micro", reason="pip install '.[tflite]'")
needs_compiler = pytest.mark.skipif(compiler() is None, reason="no C compiler on this machine")
BANKS = ["on-chip=3000", "PS RAM=64KiB"]


def same(net: Net, folder: Path, flags: tuple[str, ...] = (), **settings: object) -> lowtide.Plan:
    """What a network's C makes of random inputs is what TFLM makes, and nothing outside the arrays is written."""
    model = folder / "net.tflite"
    model.write_bytes(net.bytes())
    plan = lowtide.research.plan(model, target="loops", time=5, **settings)  # type: ignore[arg-type]
    lowtide.emit_c(plan, model, folder)
    feeds = feeds_of(net, 4)
    data = b"".join(value.tobytes() for feed in feeds for value in feed)
    outputs = len(net.graph.outputs)
    assert output_of(compiled(folder, [*sanitizers(), *flags]), data) == tflm_outputs(model, feeds, outputs)
    return plan


@pytest.mark.slow
@needs_compiler
def test_each_memory_is_an_array(tmp_path: Path) -> None:
    """Of the bytes that the plan takes of it; where it goes is a word of the compiler."""
    flags = ('-DMODEL_IN_BANK_PS_RAM=__attribute__((section("slow_ram")))',)
    plan = same(residual(), tmp_path, flags, banks=BANKS)
    sizes = {m.name: m.size_bytes for m in plan.memories or ()}
    assert all(sizes.values())
    header = (tmp_path / "model.h").read_text()
    assert f"#define MODEL_BANK_ON_CHIP_BYTES {sizes['on-chip']} " in header
    assert f"#define MODEL_BANK_PS_RAM_BYTES {sizes['PS RAM']} " in header
    assert f"#define MODEL_ARENA_BYTES {plan.arena_bytes} " in header
    if shutil.which("objdump"):
        shown = subprocess.run(["objdump", "-t", tmp_path / "host"], capture_output=True, text=True, check=True).stdout
        assert any("slow_ram" in line and "memory_bank_ps_ram" in line for line in shown.splitlines())


@pytest.mark.slow
@needs_compiler
def test_one_of_two_memories_is_enough(tmp_path: Path) -> None:
    """There is no array for the other."""
    same(residual(), tmp_path, banks=["a=64KiB", "b=64KiB"])
    code = (tmp_path / "model.c").read_text()
    assert "memory_bank_a[" in code
    assert "memory_bank_b[" not in code


@pytest.mark.slow
@needs_compiler
def test_three_memories_and_a_place(tmp_path: Path) -> None:
    """The input lies where it is told to."""
    plan = same(residual(), tmp_path, banks=["a=2KiB", "b=2100", "c=64KiB"], places={"t0": "c"})
    used = {m.name for m in plan.memories or () if m.size_bytes}
    assert used == {"a", "b", "c"}
    assert next(r.memory for r in plan.residency or () if r.tensor == 0) == "c"


def test_memories_are_options_of_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What does not fit is written, and said last."""
    model, folder = tmp_path / "net.tflite", tmp_path / "code"
    model.write_bytes(residual().bytes())
    words = ["emit", str(model), "-o", str(folder), "-q"]
    assert main([*words, "--bank", "a=3000", "--bank", "b=64KiB"]) == 0
    assert "MODEL_BANK_A_BYTES" in (folder / "model.h").read_text()
    capsys.readouterr()
    assert main([*words, "--bank", "a=300", "--bank", "b=2000"]) in (3, 4)
    assert capsys.readouterr().out.splitlines()[-1].startswith("over budget: ")
    assert main([*words, "--bank", "a=3000", "--stream-input"]) == 2
    assert "--stream-input" in capsys.readouterr().err


def _two_inputs(*, whole: int | None = None) -> Net:
    """Two inputs of different depths whose convolutions are added; a third one that is read whole, or none."""
    net = Net(3)
    a, b = net.tensor((1, 16, 6, 3), scale=0.05, zero=3), net.tensor((1, 16, 6, 2), scale=0.04, zero=-7)
    total = net.add(net.conv(a, 4, (3, 3)), net.conv(b, 4, (5, 3)))
    out = net.conv(total, 4, (3, 3), (2, 2), SAME)
    if whole is None:
        net.ends([a, b], [out])
        return net
    c = net.tensor((1, whole), scale=0.1, zero=5)
    o = s.SoftmaxOptionsT()
    o.beta = 1.0
    y = net.unary("SOFTMAX", c, o, scale=1 / 256, zero=-128)
    net.ends([a, c, b], [out, y])
    return net


@pytest.mark.slow
@needs_compiler
def test_two_inputs_are_handed_over_as_they_are_wanted(tmp_path: Path) -> None:
    """The host program runs each input both ways; parts of the two are of different sizes."""
    plan = same(_two_inputs(), tmp_path, allow="row-streaming", stream_input=True)
    assert len([t for loop in plan.loops or () for t in loop.streamed]) == 2
    header = (tmp_path / "model.h").read_text()
    assert "#define MODEL_HANDED_OVER 2" in header
    assert "int model_wants(void);" in header
    assert "void model_begin(void);" in header
    assert (plan.arena_bytes or 0) < 16 * 6 * (3 + 2)


@pytest.mark.slow
@needs_compiler
def test_an_input_is_held_beside_two_that_are_handed_over(tmp_path: Path) -> None:
    """It is a parameter of model_begin."""
    same(_two_inputs(whole=9), tmp_path, allow="row-streaming", stream_input=True)
    header = (tmp_path / "model.h").read_text()
    assert "#define MODEL_HANDED_OVER 2" in header
    assert "void model_begin(const int8_t *in_1);" in header
    assert "MODEL_IN_1_PART_BYTES" not in header
