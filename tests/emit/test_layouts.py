"""Emitted C in the layouts of build systems: each configured and compiled, with stubs in place of the system's own."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

import lowtide
from lowtide.cli import main
from lowtide.emit.layouts.layout import LAYOUTS
from lowtide.errors import InputError
from support.emit_nets import compiler
from support.tflite_builder import Net, residual, s

needs_cmake = pytest.mark.skipif(
    shutil.which("cmake") is None or compiler() is None, reason="no cmake here: apt install cmake gcc"
)
needs_cpp = pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler here: apt install g++")
STUBS = {
    "zephyr": """
        set(CONFIG_NET ON)
        function(zephyr_include_directories)
          include_directories(${ARGN})
        endfunction()
        function(zephyr_library_named name)
          add_library(${name} STATIC)
          set(LIBRARY ${name} PARENT_SCOPE)
        endfunction()
        function(zephyr_library_sources)
          target_sources(${LIBRARY} PRIVATE ${ARGN})
        endfunction()
        function(zephyr_library_compile_options)
          target_compile_options(${LIBRARY} PRIVATE ${ARGN})
        endfunction()
    """,
    "espidf": """
        function(idf_component_register)
          cmake_parse_arguments(GIVEN "" "" "SRCS;INCLUDE_DIRS" ${ARGN})
          add_library(component STATIC ${GIVEN_SRCS})
          target_include_directories(component PUBLIC ${GIVEN_INCLUDE_DIRS})
          set(COMPONENT_LIB component PARENT_SCOPE)
        endfunction()
    """,
}
"""What the build system defines, of what the layout's file calls."""
ARDUINO = """
    #pragma once
    #include <stdint.h>
    struct Port { void begin(long); void print(unsigned long); void print(const char *); void println(int); };
    extern Port Serial;
    unsigned long micros();
    void delay(unsigned long);
"""


def written(folder: Path, layout: str, net: Net | None = None) -> Path:
    """A network's C in a layout."""
    model = folder / "net.tflite"
    model.write_bytes((net or residual()).bytes())
    place = folder / "net"
    lowtide.emit_c(lowtide.research.plan(model, target="loops"), model, place, "net", layout=layout)
    return place


def configured(folder: Path, lines: str, place: Path) -> Path:
    """Build a project that has what these lines define and a layout's folder in it."""
    top = folder / "top"
    top.mkdir()
    head = "cmake_minimum_required(VERSION 3.13)\nproject(top C)\n"
    (top / "CMakeLists.txt").write_text(f"{head}{lines}\nadd_subdirectory({place} net)\n")
    for words in (["-S", top, "-B", folder / "build"], ["--build", folder / "build"]):
        done = subprocess.run(["cmake", *map(str, words)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    return folder / "build/net"


@needs_cmake
@pytest.mark.slow
@pytest.mark.parametrize("layout", STUBS)
def test_the_files_of_a_build_system_make_a_library(tmp_path: Path, layout: str) -> None:
    """Its own functions are stubs that do what its documentation says."""
    place = written(tmp_path, layout)
    (library,) = configured(tmp_path, STUBS[layout], place).rglob("lib*.a")
    assert "net_run" in subprocess.run(["nm", str(library)], capture_output=True, text=True, check=True).stdout


@needs_cmake
@pytest.mark.slow
def test_a_host_builds_the_layout_for_cmake(tmp_path: Path) -> None:
    """As a part of another project, with its program."""
    assert (configured(tmp_path, "", written(tmp_path, "cmake")) / "net_host").is_file()


def test_zephyr_finds_the_folders_that_the_module_names(tmp_path: Path) -> None:
    """By the two keys of `build`; the option's name has no other letters than Kconfig's have."""
    place = written(tmp_path, "zephyr")
    module = yaml.safe_load((place / "zephyr/module.yml").read_text())
    assert module["name"] == "net"
    assert (place / module["build"]["cmake"] / "CMakeLists.txt").is_file()
    kconfig = (place / module["build"]["kconfig"]).read_text()
    assert re.search(r"^config NET\n\tbool \".+\"\n\thelp\n\t  .+\n\Z", kconfig, re.MULTILINE)


def test_a_component_of_esp_idf_has_a_manifest(tmp_path: Path) -> None:
    """YAML in the component's folder, beside the file of CMake."""
    place = written(tmp_path, "espidf")
    manifest = yaml.safe_load((place / "idf_component.yml").read_text())
    assert re.fullmatch(r"\d+\.\d+\.\d+", manifest["version"])
    assert set(manifest["dependencies"]) == {"idf"}


@needs_cpp
@pytest.mark.slow
def test_the_sketch_and_the_library_compile_as_arduino_compiles_them(tmp_path: Path) -> None:
    """The sketch as C++ behind `Arduino.h`, sources as gnu11; required keys of the library are there."""
    place = written(tmp_path, "arduino")
    (tmp_path / "Arduino.h").write_text(ARDUINO)
    sketch = (place / "examples/net/net.ino").read_text()
    (tmp_path / "sketch.cpp").write_text(f"#include <Arduino.h>\n{sketch}")
    words = ["-Wall", "-Wextra", "-Werror", f"-I{tmp_path}", f"-I{place / 'src'}", "-fsyntax-only"]
    subprocess.run(["g++", "-std=gnu++11", *words, str(tmp_path / "sketch.cpp")], check=True)
    sources = list(map(str, (place / "src").glob("*.c")))
    subprocess.run(["gcc", "-std=gnu11", *words, *sources], check=True)
    lines = [line for line in (place / "library.properties").read_text().splitlines() if not line.startswith("#")]
    properties = dict(line.split("=", 1) for line in lines)
    required = {"name", "version", "author", "maintainer", "sentence", "category", "url", "architectures"}
    assert required <= set(properties)
    assert properties["includes"] == "net.h"


@pytest.mark.parametrize("layout", [name for name in LAYOUTS if name != "cmake"])
def test_no_flag_of_the_compiler_is_needed_for_the_bits_of_floats(tmp_path: Path, layout: str) -> None:
    """Compilers fuse a multiplication and an addition by default: the file of CMake or the source itself says no."""
    net = Net()
    x = net.tensor((1, 4), "float32")
    y = net.tensor((1, 4), "float32")
    net.op("ADD", [x, x], [y], s.AddOptionsT())
    net.ends([x], [y])
    place = written(tmp_path, layout, net)
    source = (place / f"{LAYOUTS[layout].sources}net.c").read_text()
    lists = [path.read_text() for path in place.glob("CMakeLists.txt")]
    assert any("fp-contract=off" in text for text in [*lists, source])


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_command_writes_the_files_of_the_layout_and_no_other_of_the_users(
    tmp_path: Path, layout: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each says that lowtide made it, so that it is replaced; one that does not is kept, and nothing is written."""
    model = tmp_path / "net.tflite"
    model.write_bytes(residual().bytes())
    words = ["emit", str(model), "-o", str(tmp_path / "code"), "--name", "net", "--as", layout]
    for _ in range(2):
        assert main([*words, "-q"]) == 0
    files = {str(path.relative_to(tmp_path / "code")) for path in (tmp_path / "code").rglob("*") if path.is_file()}
    assert files == set(LAYOUTS[layout].paths("net"))
    for name in files:
        assert "@" not in (tmp_path / "code" / name).read_text()
    mine = tmp_path / "code" / max(files)
    mine.write_text("mine")
    assert main(words) == 2
    assert "lowtide did not make this file" in capsys.readouterr().err
    assert mine.read_text() == "mine"


def test_a_layout_without_cmsis_nn_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And one that is not known, from Python; no folder is left."""
    model = tmp_path / "net.tflite"
    model.write_bytes(residual().bytes())
    words = ["emit", str(model), "-o", str(tmp_path / "code"), "--kernels", "cmsis-nn", "--simd", "dsp"]
    assert main([*words, "--as", "espidf"]) == 2
    assert "CMSIS-NN is not to be had there" in capsys.readouterr().err
    with pytest.raises(InputError, match="layouts are cmake, arduino, zephyr, espidf"):
        lowtide.emit_c(lowtide.research.plan(model, target="loops"), model, tmp_path / "code", layout="make")
    assert not (tmp_path / "code").exists()


def test_a_module_of_zephyr_with_cmsis_nn_depends_on_it(tmp_path: Path) -> None:
    """In its Kconfig."""
    model = tmp_path / "net.tflite"
    model.write_bytes(residual().bytes())
    words = ["emit", str(model), "-o", str(tmp_path / "code"), "--kernels", "cmsis-nn", "--simd", "dsp"]
    assert main([*words, "--as", "zephyr", "-q"]) == 0
    assert "\tdepends on CMSIS_NN\n" in (tmp_path / "code/Kconfig").read_text()
