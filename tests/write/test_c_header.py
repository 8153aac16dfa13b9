import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lowtide
from lowtide.api.exports import layout_of
from lowtide.write.arena_map import ArenaMap, Place, Region
from lowtide.write.c_header import c_header, comment, identifier, unique
from support.small_models import branches, graph_file

STRICT = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-x"]


def layout(names: list[str], memories: tuple[Region, ...] = (Region("arena", 64, 16),)) -> ArenaMap:
    """A tensor of 4 bytes for each name, one after another in the first memory."""
    places = tuple(Place(n, "activation", memories[0].name, 4 * i, 4) for i, n in enumerate(names))
    return ArenaMap("net", memories, places)


def macros(text: bytes) -> dict[str, str]:
    """What each macro of a header stands for; no macro may be there twice."""
    joined = text.decode("ascii").replace("\\\n", " ")
    found = re.findall(r"^#define (\w+) +([^\n/]+?)\s*(?:/\*.*\*/)?$", joined, re.MULTILINE)
    assert len({name for name, _ in found}) == len(found)
    return {name: " ".join(value.split()) for name, value in found}


def test_every_tensor_has_its_offset_and_size(tmp_path: Path):
    """Arena size and alignment, and for each tensor what the plan says."""
    path = graph_file(tmp_path, branches())
    made = lowtide.research.plan(path)
    found = macros(c_header(layout_of(made, path)))
    assert found["BRANCHES_ARENA_SIZE"] == str(made.arena_bytes)
    assert found["BRANCHES_ARENA_ALIGN"] == "64"
    assert found["BRANCHES_TENSOR_COUNT"] == "6"
    for t in made.tensors:
        assert found[f"BRANCHES_T_{t.name}_OFFSET"] == str(made.offset_of(t.id))
        assert found[f"BRANCHES_T_{t.name}_SIZE"] == str(t.size)
    offsets = ", ".join(str(made.offset_of(t.id)) for t in made.tensors)
    assert found["BRANCHES_TENSOR_OFFSETS"] == f"{{ {offsets} }}"


def test_workspaces_have_macros_of_their_own(tmp_path: Path):
    """An op's workspace is named after the op, and cannot clash with a tensor of that name."""
    made = branches()
    made["ops"][0] |= {"workspace": 48, "name": "t1"}
    path = graph_file(tmp_path, made)
    plan = lowtide.research.plan(path)
    found = macros(c_header(layout_of(plan, path)))
    assert plan.workspace_offsets == {"0": int(found["BRANCHES_W_t1_OFFSET"])}
    assert (found["BRANCHES_W_t1_SIZE"], found["BRANCHES_WORKSPACE_COUNT"]) == ("48", "1")
    assert "BRANCHES_T_t1_SIZE" in found


@pytest.mark.parametrize("language", ["c", "c++"])
def test_it_compiles_without_a_warning(tmp_path: Path, language: str):
    """gcc takes it as C and as C++, with names that are no identifiers, and an arena of 5 GiB; the values arrive."""
    gcc = shutil.which("gcc")
    if gcc is None:
        pytest.skip("no gcc here")
    names = ["x", "x ", "x/y:0", "x_y_0", "*/ int bad; /*", "1st", "é", "a\nb\\", "while", "??/", "", "__x__"]
    memories = (Region("fast ram", 64, 16, 128), Region("psram", 5 * 1024**3, 32, 8 * 1024**3))
    (tmp_path / "net.h").write_bytes(c_header(layout(names, memories)))
    align = "alignas" if language == "c++" else "_Alignas"
    program = f"""
#include <stdint.h>
#include "net.h"
#include "net.h"
{align}(NET_ARENA_FAST_RAM_ALIGN) static uint8_t fast[NET_ARENA_FAST_RAM_SIZE];
static const uint32_t offsets[NET_TENSOR_COUNT] = NET_TENSOR_OFFSETS;
int main(void) {{
  int wrong = (uintptr_t)fast % 16 != 0;
  wrong |= offsets[2] != NET_T_x_y_0_OFFSET || NET_T_x_y_0_OFFSET != 8 || NET_T_x_y_0_2_OFFSET != 12;
  wrong |= NET_ARENA_PSRAM_SIZE != 5368709120LL || NET_ARENA_FAST_RAM_CAPACITY != 128;
  return wrong | (NET_T_x_MEMORY != 0) | (NET_MEMORY_COUNT != 2);
}}
"""
    (tmp_path / "main.c").write_text(program)
    standard = "-std=c++11" if language == "c++" else "-std=c11"
    command = [gcc, *STRICT, language, standard, "main.c", "-o", "main"]
    built = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    assert subprocess.run([tmp_path / "main"], check=False).returncode == 0


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(st.lists(st.text(max_size=8) | st.from_regex(r"[ab_]{1,3}(_[2-4])?", fullmatch=True), max_size=12))
def test_any_names_become_identifiers_of_their_own(names: list[str]):
    """No two macros are one, no macro is reserved in C++, and nothing but macros and comments is left."""
    text = c_header(layout(names)).decode("ascii")
    found = macros(text.encode())
    assert sum(name.endswith("_OFFSET") for name in found) == len(names)
    for name in found:
        assert re.fullmatch(r"[A-Z]\w*", name)
        assert "__" not in name
    rest = re.sub(r"/\*.*?\*/", "", text.replace("\\\n", " "), flags=re.DOTALL)
    for line in filter(str.strip, rest.splitlines()):
        assert re.fullmatch(r"#(ifndef|endif|define) ?[\w ,{}]*", line), line


def test_long_names_and_many_alike():
    """A name is cut at 200 characters; a thousand equal ones are told apart."""
    made = unique(["n" * 5000] * 1000, "t")
    assert len({m.lower() for m in made}) == 1000
    assert max(len(m) for m in made) <= 205


@pytest.mark.parametrize(("name", "prefix"), [("9lives", "NET_9LIVES"), ("", "NET"), ("a-b", "A_B"), ("ü", "NET")])
def test_the_prefix_is_an_identifier(name: str, prefix: str):
    """It comes from the model's name, and never begins with a digit."""
    assert f"#define {prefix}_ARENA_SIZE 64" in c_header(ArenaMap(name, (Region("arena", 64, 1),), ())).decode()


def test_a_comment_cannot_be_ended():
    """Names stand in comments as printable ASCII."""
    assert comment("*/ x /*") == "* / x /" or "*/" not in comment("*/ x /*")
    assert comment("a\nb") == "a\\nb"
    assert identifier("...", "other") == "other"


def test_memories_of_a_plan(tmp_path: Path):
    """Each memory has its size, capacity and alignment; a tensor says in which one it lies."""
    path = graph_file(tmp_path, branches())
    made = lowtide.research.plan(path, target="strict", banks=["sram=104", "ext ram=200"])
    found = macros(c_header(layout_of(made, path)))
    assert made.memories is not None
    assert found["BRANCHES_ARENA_SRAM_CAPACITY"] == "104"
    assert found["BRANCHES_ARENA_EXT_RAM_SIZE"] == str(made.memories[1].size_bytes)
    for r in made.residency or []:
        assert found[f"BRANCHES_T_t{r.tensor}_MEMORY"] == str(["sram", "ext ram"].index(r.memory))
        assert found[f"BRANCHES_T_t{r.tensor}_OFFSET"] == str(r.offset)


@pytest.mark.slow
def test_the_example_compiles_and_runs(tmp_path: Path):
    """examples/firmware/main.c with the header that its first lines make."""
    gcc = shutil.which("gcc")
    example = Path(__file__).parents[2] / "examples" / "firmware" / "main.c"
    if gcc is None or not example.is_file():
        pytest.skip("no gcc here" if gcc is None else "the examples are not here")
    made = lowtide.research.plan("zoo:swiftnet_cell_a", board="stm32h743", persistent=["features"])
    lowtide.export(made, "zoo:swiftnet_cell_a", header=tmp_path / "net_arena.h")
    command = [gcc, "-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{tmp_path}", '-DARENA="net_arena.h"', str(example)]
    built = subprocess.run([*command, "-o", "main"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    ran = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True)
    assert ran.stdout.startswith("22 tensors; features: 75264 bytes at ")
