import json
from pathlib import Path
from typing import Any

import pytest

import lowtide
from lowtide.errors import InputError
from support.command import Captured, run
from support.small_models import branches, graph_file

BUFFERS = "id,lower,upper,size\na,0,3,16\nb,2,5,8\nc,4,6,16\n"


def test_plan_writes_every_layout(tmp_path: Path, capsys: Captured):
    """Header, table and pools of one plan, each named on stderr; the same bytes as the Python call writes."""
    path = graph_file(tmp_path, branches())
    files = {key: tmp_path / f"a.{key}" for key in ("header", "table", "usmp")}
    options = [part for key, file in files.items() for part in (f"--{key}", file)]
    status, _, err = run(capsys, "research", "plan", path, *options)
    assert (status, err) == (0, "".join(f"lowtide: wrote {f}\n" for f in files.values()))
    again = {key: tmp_path / f"b.{key}" for key in files}
    lowtide.export(lowtide.research.plan(path), path, **dict[str, Any](again))
    for key, file in files.items():
        assert file.read_bytes() == again[key].read_bytes()


def test_a_plan_of_a_free_dimension_or_of_another_target_is_exported(tmp_path: Path, capsys: Captured):
    """--target and --overwrite-inputs hold for the layout too."""
    path = graph_file(tmp_path, branches())
    rules = tmp_path / "mine.toml"
    rules.write_text('base = "generic"\nalignment = 32\n')
    header = tmp_path / "n.h"
    assert run(capsys, "research", "plan", path, "--target", rules, "--overwrite-inputs", "--header", header)[0] == 0
    assert "#define BRANCHES_ARENA_ALIGN 32\n" in header.read_text()


def test_allocate_writes_every_layout(tmp_path: Path, capsys: Captured):
    """-o takes the CSV from stdout; the header's names begin with the file's."""
    path, out, header = tmp_path / "net1.csv", tmp_path / "o.csv", tmp_path / "o.h"
    path.write_text(BUFFERS)
    more = ["--header", header, "--table", tmp_path / "o.txt", "--usmp", tmp_path / "o.json"]
    status, shown, err = run(capsys, "research", "allocate", path, "-o", out, "--capacity", "32", *more)
    assert (status, shown) == (0, "")
    assert err.splitlines()[0] == "lowtide: height 24 B, proved optimal, 3 buffers; fits the capacity of 32 B"
    assert out.read_text().splitlines()[:2] == ["id,lower,upper,size,offset", "a,0,3,16,0"]
    assert "#define NET1_ARENA_SIZE 24\n" in header.read_text()
    assert "#define NET1_ARENA_CAPACITY 32\n" in header.read_text()
    assert "capacity             32 B, 8 B free" in (tmp_path / "o.txt").read_text()
    pools = json.loads((tmp_path / "o.json").read_text())["pools"]
    assert (pools[0]["size_hint_bytes"], pools[0]["used_bytes"]) == (32, 24)


def test_a_memorys_alignment_is_in_what_allocate_writes(tmp_path: Path, capsys: Captured):
    """Offsets on its multiples mean nothing unless the memory's own address is one: header, table and JSON say so."""
    source, header, table = tmp_path / "b.csv", tmp_path / "b.h", tmp_path / "b.txt"
    source.write_text(BUFFERS)
    banks = ("--bank", "fast=16@64", "--bank", "slow=64@8")
    status, out, _ = run(capsys, "research", "allocate", source, *banks, "--header", header, "--table", table, "--json")
    assert status == 0
    assert [m["alignment"] for m in json.loads(out)["memories"]] == [64, 8]
    assert "#define B_ARENA_FAST_ALIGN 64\n" in header.read_text()
    assert "#define B_ARENA_SLOW_ALIGN 8\n" in header.read_text()
    assert [x.split()[1] for x in table.read_text().splitlines() if x.startswith("alignment")] == ["64", "8"]


def test_what_allocate_writes_it_reads(tmp_path: Path, capsys: Captured):
    """Offsets written are fixed when read again, and the second file is the first."""
    path, once, twice = tmp_path / "b.csv", tmp_path / "1.csv", tmp_path / "2.csv"
    path.write_text("id,lower,upper,size,alignment,gaps\na,0,9,16,8,2-4\nb,1,5,8,4,\nc,2,4,16,1,\n")
    assert run(capsys, "research", "allocate", path, "-o", once)[0] == 0
    assert run(capsys, "research", "allocate", once, "-o", twice)[0] == 0
    assert once.read_bytes() == twice.read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("command", ["research plan", "research allocate"])
def test_no_layout_goes_over_the_input_and_none_is_left_alone(tmp_path: Path, capsys: Captured, command: str):
    """An output that is the input, or that two options name, or that cannot be written: status 2, nothing there."""
    path = graph_file(tmp_path, branches()) if command == "research plan" else tmp_path / "b.csv"
    if command == "research allocate":
        path.write_text(BUFFERS)
    before = path.read_bytes()
    header, table = tmp_path / "n.h", tmp_path / "n.txt"
    for bad in (path, header, tmp_path / "none" / "n.h", tmp_path):
        status, out, err = run(capsys, *command.split(), path, "--header", header, "--table", table, "--usmp", bad)
        assert (status, out, err.count("\n")) == (2, "", 1)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_plan_of_another_model_is_not_exported(tmp_path: Path):
    """Nor one whose target is not the one given."""
    path = graph_file(tmp_path, branches())
    made = lowtide.research.plan(path)
    other = graph_file(tmp_path, branches() | {"name": "other"}, "o.graph.json")
    with pytest.raises(InputError, match="for another model"):
        lowtide.export(made, other, header=tmp_path / "n.h")
    with pytest.raises(InputError, match="for target 'generic', not 'strict'"):
        lowtide.export(made, path, header=tmp_path / "n.h", target="strict")
    assert not (tmp_path / "n.h").exists()


def test_memories_on_the_command_line(tmp_path: Path, capsys: Captured):
    """plan says each memory, writes them, verify checks them; check has a line with all; 3 and 4 as for a budget."""
    path, plan_file, table = graph_file(tmp_path, branches()), tmp_path / "p.json", tmp_path / "t.txt"
    banks = ["--target", "strict", "--bank", "sram=104", "--bank", "psram=200"]
    status, out, _ = run(
        capsys, "research", "plan", path, *banks, "--plan", plan_file, "--table", table, "--usmp", tmp_path / "u"
    )
    assert status == 0
    assert "sram" in out
    assert "of 104 B" in out
    assert "B of tensors in slow memory; proved minimal for this order and what is in place" in out
    assert run(capsys, "verify", path, plan_file)[0] == 0
    assert "psram:" in table.read_text()
    pools = json.loads((tmp_path / "u").read_text())["pools"]
    assert [(p["pool_name"], p["size_hint_bytes"]) for p in pools] == [("sram", 104), ("psram", 200)]
    status, out, _ = run(capsys, "check", path, *banks)
    assert (status, out[:30]) == (0, "fits: required sram 104 B, ava"[:30]) or out.startswith("fits: required sram ")
    status, out, _ = run(capsys, "check", path, "--target", "strict", "--bank", "sram=99", "--bank", "psram=99")
    assert (status, out.startswith("cannot fit untiled, in any order: required sram ")) == (4, True)
    assert "available 99 B, excess" in out
    shown = json.loads(run(capsys, "check", path, *banks, "--json")[1])
    assert [m["name"] for m in shown["memories"]] == ["sram", "psram"]
    assert shown["available_bytes"] == 304


def test_a_tensor_is_placed_by_name(tmp_path: Path, capsys: Captured):
    """--place, also with a preferred memory and another; said twice it is refused."""
    path = graph_file(tmp_path, branches())
    call = ["research", "plan", path, "--target", "strict", "--bank", "a=300", "--bank", "b=300", "--json"]
    shown = json.loads(run(capsys, *call, "--place", "t1=b", "--place", "t2=b,a")[1])
    assert {r["tensor"]: r["memory"] for r in shown["residency"]} == {0: "a", 1: "b", 2: "b", 3: "a", 4: "a", 5: "a"}
    assert run(capsys, *call, "--place", "t1=b", "--place", "t1=a")[0] == 2
    assert run(capsys, *call, "--place", "t1")[0] == 2


def test_boards_are_listed_and_read_back(tmp_path: Path, capsys: Captured):
    """What `board NAME` prints is a file that --board takes."""
    assert "esp32s3" in run(capsys, "research", "board")[1]
    mine = tmp_path / "mine.toml"
    mine.write_text(run(capsys, "research", "board", "rp2040")[1])
    path = graph_file(tmp_path, branches())
    by_name = json.loads(run(capsys, "research", "plan", path, "--board", "rp2040", "--json")[1])
    by_file = json.loads(run(capsys, "research", "plan", path, "--board", mine, "--json")[1])
    assert by_name["memories"] == by_file["memories"]
    assert json.loads(run(capsys, "research", "board", "rp2040", "--json")[1])["banks"][0]["capacity"] == 264 * 1024
    names = [row["name"] for row in json.loads(run(capsys, "research", "board", "--json")[1])]
    assert names == sorted(names)
    assert "stm32h743" in names
    assert run(capsys, "research", "board", "abacus")[0] == 2
    assert run(capsys, "check", path)[0] == 2


def test_a_plan_that_spills_has_no_layout(tmp_path: Path):
    """A tensor that moves has no one place; with a fast memory large enough nothing moves, and there is one."""
    path = graph_file(tmp_path, branches())
    moving = lowtide.research.plan("zoo:swiftnet_cell_a", memories=["fast=180KiB"])
    assert moving.moves
    with pytest.raises(InputError, match="the plan spills"):
        lowtide.export(moving, "zoo:swiftnet_cell_a", header=tmp_path / "n.h")
    still = lowtide.research.plan(path, target="strict", memories=["fast=1KiB"])
    assert still.moves == []
    lowtide.export(still, path, header=tmp_path / "n.h")
    assert "#define BRANCHES_ARENA_CAPACITY 1024\n" in (tmp_path / "n.h").read_text()
