"""Sessions in C++ and JavaScript: they compile, set what the Python one sets, and run in onnxruntime-web.

The Python package has no C++ headers, so C++ is compiled with `support/onnxruntime_stub`, which has the signatures that
are used, and prints what is set.
"""

from __future__ import annotations

import json
import platform
import re
import runpy
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from lowtide.run.blocks import block_probe
from lowtide.run.session_texts import SessionSettings, language_of, probe_lines, session_text
from support import onnx_builder
from support.small_models import onnx_file

SETTINGS = SessionSettings("small.onnx", 700, 1024, prepacked=False, mapped=True, block=16, thread_bytes=65536)
PORTABLE = replace(SETTINGS, prepacked=True, mapped=False, block=0, chooses_layout=True, arena_bytes=2**20)
STUB = Path(__file__).parents[1] / "support/onnxruntime_stub"
NODE, CXX = shutil.which("node"), shutil.which("g++") or shutil.which("clang++")

needs_cxx = pytest.mark.skipif(CXX is None, reason="a C++ compiler compiles the header; none is installed")
needs_node = pytest.mark.skipif(NODE is None, reason="node runs the script, which is not installed")


def built(folder: Path, settings: SessionSettings, block: int) -> list[str]:
    """What a program prints that opens a model twice, on a processor with a block."""
    (folder / "small_session.h").write_text(session_text(settings, "small_session.h"))
    (folder / "main.cc").write_text(
        '#include "small_session.h"\n#include "small_session.h"\n'
        'int main() {\n    Ort::Env env(ORT_LOGGING_LEVEL_WARNING, "p");\n    try {\n'
        '        for (int threads : {3, 0}) small_session::lowtide_open(env, "small.onnx", threads);\n'
        '    } catch (const std::exception& error) {\n        std::printf("%s\\n", error.what());\n    }\n}\n'
    )
    command = [str(CXX), "-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror"]
    command += [f"-DSTUB_BLOCK={block}", f"-I{STUB}", str(folder / "main.cc"), "-o", str(folder / "main")]
    subprocess.run(command, check=True)
    return subprocess.run([folder / "main"], capture_output=True, text=True, check=True).stdout.splitlines()


def test_names_say_the_language() -> None:
    """By their endings; what has none is Python."""
    names = ("a_session.H", "a.js", "small_session.py", "session")
    assert [language_of(name) for name in names] == ["cc", "js", "py", "py"]
    assert "".join(probe_lines()).endswith("==")


@pytest.mark.slow
@needs_cxx
def test_cpp_sets_what_python_sets(tmp_path: Path) -> None:
    """The arena's keys and values and the session's settings; a second session shares the arena of the first."""
    ort = pytest.importorskip("onnxruntime")
    said = built(tmp_path, SETTINGS, 16)
    (tmp_path / "small_session.py").write_text(session_text(SETTINGS, "small_session.py"))
    python = (tmp_path / "small_session.py").read_text()
    entries = dict(re.findall(r'add_session_config_entry\("(.*?)", "(.*?)"\)', python))
    entries |= dict(re.findall(r'"(max_mem|arena_extend_strategy|max_\w+)": (\d+)', python))
    seen = dict(line.split("=") for line in said if "=" in line)
    assert {key: seen[key] for key in entries} == entries
    assert "session.disable_prepacking" in entries
    options = runpy.run_path(str(tmp_path / "small_session.py"))["options"]()
    assert options.graph_optimization_level == ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    assert (seen["level"], seen["pattern"], seen["intra"], seen["inter"]) == ("0", "0", "0", "1")
    assert f"initial_chunk_size_bytes={1024 + 2 * 65536}" in said
    assert said.count("open small.onnx") == 2
    assert (said.count("registered=1"), said.count("registered=0")) == (1, 1)
    probe = block_probe()
    assert said.count(f"probe of {len(probe)} bytes, the first {probe[0]}") == 2


@pytest.mark.slow
@needs_cxx
@pytest.mark.parametrize(("block", "has"), [(8, "8"), (0, "none")])
def test_cpp_refuses_another_processor(tmp_path: Path, block: int, has: str) -> None:
    """Before the model is opened; a portable one asks nothing."""
    said = built(tmp_path, SETTINGS, block)
    assert (
        f"small.onnx is for processors whose convolutions have blocks of 16 channels, and this one has {has}: "
        in (said[-1])
    )
    assert "--for onnxruntime,portable" in said[-1]
    assert "open small.onnx" not in said
    portable = built(tmp_path, PORTABLE, block)
    assert "level=99" in portable
    assert portable.count("open small.onnx") == 2
    assert not any(line.startswith("probe") or "prepacking" in line for line in portable)


def node(script: str, folder: Path) -> list[str]:
    """Lines that node prints; the test is skipped where a package is missing that the script requires."""
    (folder / "main.js").write_text(script)
    done = subprocess.run([str(NODE), "main.js"], cwd=folder, capture_output=True, text=True, check=False)
    missing = re.search(r"Cannot find module '(onnxruntime-\w+)'", done.stderr)
    if missing:
        pytest.skip(f"npm install {missing[1]}, and name its folder in NODE_PATH")
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@needs_node
@pytest.mark.parametrize(("block", "has"), [(16, ""), (8, "8"), (-1, "none")])
def test_javascript_sets_and_refuses(tmp_path: Path, block: int, has: str) -> None:
    """What there are settings for; a processor whose block is another one, or that has none, is refused."""
    (tmp_path / "small_session.js").write_text(session_text(SETTINGS, "small_session.js"))
    script = f"""
const {{ lowtideOpen }} = require("./small_session.js");
const probe = {{ run: async () => ({{ y: {{ data: Array.from({{ length: 32 }}, (_, k) => +(k === {block})) }} }}),
  release: async () => {{}} }};
const create = async (model, options) => {{
  if (typeof model !== "string" && {block} < 0) throw new Error("no such node");
  return typeof model === "string" ? [model, options] : probe;
}};
lowtideOpen({{ InferenceSession: {{ create }} }}, "small.onnx", {{ logSeverityLevel: 3 }}).then(
  (made) => console.log(JSON.stringify(made)), (error) => console.log(error.message));
"""
    (said,) = node(script, tmp_path)
    if has:
        assert f"blocks of 16 channels, and this one has {has}: " in said
        assert "--for onnxruntime,portable" in said
        return
    model, options = json.loads(said)
    assert model == "small.onnx"
    assert options == {
        "graphOptimizationLevel": "disabled", "enableMemPattern": False, "executionMode": "sequential",
        "extra": {"session": {"use_device_allocator_for_initializers": "1", "disable_prepacking": "1"}},
        "logSeverityLevel": 3,
    }  # fmt: skip


@needs_node
@pytest.mark.parametrize("package", ["onnxruntime-web", "onnxruntime-node"])
def test_javascript_runs_the_model(tmp_path: Path, package: str) -> None:
    """A portable session gives in JavaScript what the model gives in Python, with any of its two packages."""
    ort = pytest.importorskip("onnxruntime")
    source = onnx_file(tmp_path)
    (tmp_path / "small_session.js").write_text(session_text(PORTABLE, "small_session.js"))
    session = ort.InferenceSession(str(source), providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    feed = np.linspace(-1, 1, int(np.prod(given.shape)), dtype=np.float32).reshape(given.shape)
    wanted = session.run(None, {given.name: feed})[0]
    script = f"""
const ort = require("{package}");
const {{ lowtideOpen }} = require("./small_session.js");
(async () => {{
  const session = await lowtideOpen(ort, require("fs").readFileSync({json.dumps(str(source))}));
  const x = new ort.Tensor("float32", Float32Array.from({json.dumps(feed.ravel().tolist())}), {list(given.shape)});
  const made = await session.run({{ {given.name}: x }});
  console.log(JSON.stringify(Array.from(made[session.outputNames[0]].data)));
}})();
"""
    said = node(script, tmp_path)
    assert np.allclose(json.loads(said[-1]), wanted.ravel(), atol=1e-5)


OPENED = """
import runpy, sys
from lowtide.run.fresh_process import resident_bytes
open_session = runpy.run_path(sys.argv[1])["open_session"]
session = open_session()
print(resident_bytes())
"""


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be asked to give memory back")
def test_what_only_opening_needed_goes_back(tmp_path: Path) -> None:
    """A weight that many products read is packed for each, and all copies but one go."""
    pytest.importorskip("onnxruntime")
    values = onnx_builder.value("x", (4, 384)), onnx_builder.value("b23", (4, 384))
    nodes, read = list[onnx.NodeProto](), "x"
    for k in range(24):
        nodes += [onnx_builder.node("MatMul", f"{read} w", f"a{k}"), onnx_builder.node("MatMul", f"a{k} v", f"b{k}")]
        read = f"b{k}"
    shapes = {"w": (384, 1536), "v": (1536, 384)}
    weights = [onnx.numpy_helper.from_array(np.ones(shape, np.float32), name) for name, shape in shapes.items()]
    file = onnx_builder.saved(onnx_builder.model(nodes, [values[0]], [values[1]], weights), tmp_path)
    text = session_text(SessionSettings(file.name, 2**20, 2**20), "s.py")
    taken: list[int] = []
    for name, script in (("s.py", text), ("kept", text.replace("malloc_trim(0)", "malloc_usable_size(None)"))):
        (tmp_path / name).write_text(script)
        command = [sys.executable, "-c", OPENED, str(tmp_path / name)]
        taken.append(int(subprocess.run(command, capture_output=True, text=True, check=True).stdout))
    assert taken[0] < taken[1] - 2**20
