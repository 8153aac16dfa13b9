"""For which processors a file of onnxruntime's optimiser is, and that it is refused on others."""

from __future__ import annotations

import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import numpy as np
import onnx
import pytest

import lowtide
from lowtide.api.writing import PlanFiles, write_all
from lowtide.errors import InputError
from lowtide.run import blocks
from lowtide.run.blocks import block_probe, check_block, declared_block, has_blocks
from lowtide.run.optimise import write_optimized
from lowtide.run.optimise_process import optimize
from support.onnx_builder import constant, model, node, saved, value
from support.small_models import onnx_file

ort = pytest.importorskip("onnxruntime", reason="onnxruntime lays convolutions out, which is not installed")
HERE = blocks.block_size()


def one_channel(folder: Path) -> Path:
    """A convolution of 32 channels to one, which onnxruntime fills up to a block."""
    weights = constant("w", np.arange(32.0).tolist(), [1, 32, 1, 1])
    nodes = [node("Conv", "x w", "y", kernel_shape=[1, 1])]
    return saved(model(nodes, [value("x", (1, 32, 4, 4))], [value("y", (1, 1, 4, 4))], [weights]), folder)


def test_the_block_is_that_of_the_optimisers_own_weights(tmp_path: Path) -> None:
    """The probe, which runs a node, finds what the optimiser used when it laid weights out."""
    source, out = one_channel(tmp_path), tmp_path / "all.onnx"
    write_optimized(source, out, {}, "all")
    (weights,) = [t for t in onnx.load(out).graph.initializer if len(t.dims) == 4]
    assert weights.dims[0] == max(HERE, 1)
    assert declared_block(out) == HERE


def test_files_say_a_block_only_where_they_have_one(tmp_path: Path) -> None:
    """At a lower level convolutions stay as they are, and a file without convolutions runs anywhere."""
    write_optimized(one_channel(tmp_path), tmp_path / "extended.onnx", {}, "extended")
    assert declared_block(tmp_path / "extended.onnx") == 0
    write_optimized(onnx_file(tmp_path, "plain.onnx"), tmp_path / "all.onnx", {}, "all")
    assert declared_block(tmp_path / "all.onnx") == 0
    assert declared_block(tmp_path / "none.onnx") == 0


def test_blocks_in_bodies_count() -> None:
    """A branch of an If may have the only convolution."""
    probe = onnx.ModelProto.FromString(block_probe()).graph
    inside = onnx.helper.make_node("If", ["c"], ["y"], then_branch=probe)
    assert has_blocks(onnx.GraphProto(node=[inside]))
    assert not has_blocks(onnx.GraphProto(node=[onnx.helper.make_node("Relu", ["x"], ["y"])]))


@pytest.mark.parametrize("block", [8, 16])
def test_another_processors_file_is_refused(tmp_path: Path, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would open, and compute wrong numbers; a file of this processor's is not refused."""
    monkeypatch.setattr(blocks, "block_size", lambda: block)
    check_block(0, "m.onnx")
    check_block(block, "m.onnx")
    foreign = onnx.load(one_channel(tmp_path))
    foreign.metadata_props.add(key=blocks.KEY, value=str(24 - block))
    source = saved(foreign, tmp_path, "foreign.onnx")
    with pytest.raises(InputError, match=f"blocks of {24 - block} channels, and this one has blocks of {block}.*anew"):
        write_optimized(source, tmp_path / "out.onnx", {}, "all")
    assert not (tmp_path / "out.onnx").exists()


def test_where_the_layout_is_unknown_the_file_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A runtime that does not know the node has no block, and a file with one is not for it."""
    unknown = onnx.ModelProto.FromString(block_probe())
    unknown.graph.node[0].op_type = "NoSuchNode"
    monkeypatch.setattr(blocks, "block_probe", unknown.SerializeToString)
    blocks.block_size.cache_clear()
    try:
        with pytest.raises(InputError, match="has no such layout"):
            check_block(16, "m.onnx")
    finally:
        blocks.block_size.cache_clear()


@pytest.mark.skipif(not HERE, reason="onnxruntime has no blocked layout on this processor")
def test_plans_and_sessions_for_another_processor_are_refused(tmp_path: Path) -> None:
    """`verify` and `open_session` say what to do, before anything of the model runs; on this one both accept it."""
    source, optimised = one_channel(tmp_path), tmp_path / "opt.onnx"
    optimize(source, optimised, {}, "all")
    out, session = tmp_path / "p.onnx", tmp_path / "small_session.py"
    plan = lowtide.research.plan(optimised, target="onnxruntime", time=5)
    write_all(plan, optimised, PlanFiles(out, snippet=session))
    assert declared_block(out) == HERE
    x = np.random.default_rng(0).random((1, 32, 4, 4), np.float32)
    (came,) = runpy.run_path(str(session))["open_session"]().run(None, {"x": x})
    assert np.allclose(came, np.tensordot(x[0], np.arange(32.0), (0, 0)), rtol=1e-5)
    session.write_text(session.read_text().replace(f"CHANNEL_BLOCK = {HERE}", f"CHANNEL_BLOCK = {24 - HERE}"))
    with pytest.raises(RuntimeError, match=rf"blocks of {24 - HERE} channels.* {HERE}: .*--for onnxruntime,portable"):
        runpy.run_path(str(session))["open_session"]()


@pytest.mark.skipif(not HERE, reason="onnxruntime has no blocked layout on this processor")
@pytest.mark.slow
def test_a_plan_for_another_processor_is_not_verified(tmp_path: Path) -> None:
    """The plan's JSON says for which it is."""
    source = one_channel(tmp_path)
    made = lowtide.plan(source, slower=1000)
    origin = made.optimized_from
    assert origin is not None
    assert origin.block == HERE
    assert not origin.layout_at_load
    elsewhere = msgspec.structs.replace(made, optimized_from=msgspec.structs.replace(origin, block=24 - HERE))
    with pytest.raises(InputError, match=r"the plan: it is for processors .*--for onnxruntime,portable"):
        lowtide.verify(source, elsewhere, run=True)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("qemu-x86_64") is None, reason="qemu-x86_64 plays another processor; not installed")
def test_the_probe_on_another_processor() -> None:
    """One without AVX-512, played by an emulator, has blocks of 8."""
    code = "import sys; sys.path[:0] = sys.argv[1:]; from lowtide.run import blocks as b; print(b.block_size())"
    command = ["qemu-x86_64", "-cpu", "Haswell", str(Path(sys.executable).resolve()), "-c", code, *sys.path]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.stdout.split() == ["8"], done.stderr
