from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lowtide
from lowtide.allocate.arena import allocate_buffers
from lowtide.allocate.buffers import Buffer, Pair, Problem, block
from lowtide.allocate.csv_buffers import format_buffers, parse_problem, read_buffers
from lowtide.allocate.greedy import Packing
from lowtide.allocate.placed import minimise_reuse
from lowtide.api.exports import layout_of
from lowtide.cli import main
from lowtide.errors import InputError
from lowtide.stop import Limits
from support.random_graphs import random_graph
from support.small_models import branches, graph_file
from support.small_problems import check, random_buffers, with_ties

Captured = pytest.CaptureFixture[str]
TIED = "id,lower,upper,size,over,apart,memory\nin,0,3,16,,,\nout,2,5,16,in,,\nx,5,6,8,,in out,fast slow\n"


def test_the_columns_of_our_own():
    """Pairs with a distance, buffers kept apart, memories; and what is written is read back."""
    read = parse_problem(TIED)
    assert read.problem.pairs == (Pair(1, 0, 0),)
    assert read.problem.apart == ((0, 2), (1, 2))
    assert read.places == {"x": ("fast", "slow")}
    assert format_buffers(read.problem, None, read.places) == TIED.replace(",in out,", ",,").replace(
        "in,0,3,16,,,", "in,0,3,16,,x,"
    ).replace("out,2,5,16,in,,", "out,2,5,16,in,x,")
    shifted = parse_problem(TIED.replace(",in,,", ",in@4,,"))
    assert shifted.problem.pairs == (Pair(1, 0, 4),)


def test_an_id_may_hold_an_at_sign():
    """`a@2` names that buffer if there is one, else distance 2 from a."""
    text = "id,lower,upper,size,over\na,0,2,4,\na@2,0,2,4,\nb,1,3,4,a@2\n"
    assert parse_problem(text).problem.pairs == (Pair(2, 1, 0),)
    assert parse_problem(text.replace("a@2,0", "c,0")).problem.pairs == (Pair(2, 0, 2),)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("b,0,1,4,z,,", "over names 'z', which is no buffer"),
        ("b,0,1,4,b,,", "over names 'b', which is this buffer itself"),
        ("b,0,1,4,,b,", "apart names 'b', which is this buffer itself"),
        ("b,0,1,4,a a,,", "tied to this buffer already"),
        ("b,0,1,4,a,a,", "tied to this buffer already"),
        ("b,0,1,4,a@x,,", "distance is 'x'"),
        ("b,0,1,4,a@-1,,", "distance is '-1'"),
    ],
)
def test_bad_ties_are_named(row: str, message: str):
    """The file, the line and the id."""
    with pytest.raises(InputError) as error:
        parse_problem(f"id,lower,upper,size,over,apart,memory\na,0,1,4,,,\n{row}\n", "f.csv")
    assert str(error.value).startswith("f.csv, line 3: ")
    assert message in str(error.value)


def test_plain_readers_refuse_ties(tmp_path: Path):
    """Who wants buffers alone does not lose what ties them; names with blanks cannot be in a list."""
    path = tmp_path / "b.csv"
    path.write_text(TIED)
    with pytest.raises(InputError, match="leave out the columns over, apart and memory"):
        read_buffers(path)
    with pytest.raises(InputError, match="without blanks"):
        format_buffers(Problem((block("a b", 0, 1, 4), block("c", 0, 1, 4)), (Pair(1, 0, 0),)))


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 7))
def test_every_problem_survives_a_csv(seed: int, n: int):
    """Buffers, gaps, pairs and buffers kept apart are read back as they were, but for the order of ties."""
    buffers = random_buffers(seed, n, 8, 9, (1, 2, 4))
    problem = with_ties(seed, buffers)
    again = parse_problem(format_buffers(problem)).problem
    assert again.buffers == buffers
    assert set(again.pairs) == set(problem.pairs)
    assert {frozenset(t) for t in again.apart} == {frozenset(t) for t in problem.apart}


def test_ties_are_kept_on_the_command_line(tmp_path: Path, capsys: Captured):
    """A pair lies in place, and what is kept apart shares no byte; the placed file allocates to itself."""
    path, once, twice = tmp_path / "b.csv", tmp_path / "1.csv", tmp_path / "2.csv"
    path.write_text(TIED.replace(",memory", "").replace(",fast slow", "").replace(",\n", "\n"))
    assert main(["research", "allocate", str(path), "-o", str(once)]) == 0
    assert "height 24 B, proved optimal" in capsys.readouterr().err
    assert main(["research", "allocate", str(once), "-o", str(twice)]) == 0
    assert once.read_bytes() == twice.read_bytes()
    rows = {line.split(",")[0]: line.split(",")[4] for line in once.read_text().splitlines()[1:]}
    assert rows["in"] == rows["out"]


def test_several_memories_on_the_command_line(tmp_path: Path, capsys: Captured):
    """The column `memory` says where each lies, and holds when the file is read again; status 3 and 4."""
    path, out, header = tmp_path / "b.csv", tmp_path / "o.csv", tmp_path / "o.h"
    path.write_text("id,lower,upper,size\na,0,3,16\nb,2,5,8\nc,4,6,16\n")
    banks = ["--bank", "fast=16", "--bank", "slow=64"]
    assert main(["research", "allocate", str(path), *banks, "-o", str(out), "--header", str(header)]) == 0
    assert "fast 16 B of 16 B; slow 8 B of 64 B; 8 B in slow memory, proved optimal" in capsys.readouterr().err
    assert out.read_text() == ("id,lower,upper,size,offset,memory\na,0,3,16,0,fast\nb,2,5,8,0,slow\nc,4,6,16,0,fast\n")
    assert "#define O_T_b_MEMORY 1" in header.read_text().replace("B_T_", "O_T_")
    again = tmp_path / "again.csv"
    assert main(["research", "allocate", str(out), *banks, "-o", str(again)]) == 0
    assert again.read_bytes() == out.read_bytes()
    capsys.readouterr()
    assert main(["research", "allocate", str(path), "--bank", "fast=16", "--bank", "slow=7"]) == 4
    err = capsys.readouterr().err
    assert "proved not to fit" in err
    assert "a 16 B, b 8 B cannot share 23 B at step 2 (24 B needed)" in err
    assert main(["research", "allocate", str(out)]) == 2
    assert main(["research", "allocate", str(path), *banks, "--capacity", "9"]) == 2
    assert main(["research", "allocate", str(path), *banks, "--place", "z=fast"]) == 2
    assert main(["research", "allocate", str(path), *banks, "--place", "a=slow", "--json"]) == 0


def test_over_capacity_says_who_is_in_the_way(tmp_path: Path, capsys: Captured):
    """The largest at one step; also in the JSON."""
    path = tmp_path / "b.csv"
    path.write_text("id,lower,upper,size\na,0,3,16\nb,2,5,8\nc,2,3,1\n")
    assert main(["research", "allocate", str(path), "--capacity", "20"]) == 4
    assert "a 16 B, b 8 B cannot share 20 B at step 2 (24 B needed)" in capsys.readouterr().err
    assert lowtide.research.allocate(path, 20).conflict is not None
    assert lowtide.research.allocate(path, 25).conflict is None


def test_a_fixed_buffer_names_its_memory():
    """Without one its offset is one of the first memory; two memories are one too many."""
    fixed = Buffer("f", 8, block("f", 0, 2, 8).rectangles, 1, 8)
    banks = {"fast": 32, "slow": 32}
    placed = lowtide.research.allocate([fixed], banks=banks)
    assert (placed.memory_of, placed.offsets) == ({"f": "fast"}, {"f": 8})
    assert lowtide.research.allocate([fixed], banks=banks, places={"f": "slow"}).memory_of == {"f": "slow"}
    with pytest.raises(InputError, match="f has a fixed offset"):
        lowtide.research.allocate([fixed], banks=banks, places={"f": "slow,fast"})


def test_reuse_only_where_the_capacity_demands_it(tmp_path: Path, capsys: Captured):
    """With room for all, no two share a byte; with less, as many as fit; with none to spare, the least height."""
    path = tmp_path / "b.csv"
    path.write_text("id,lower,upper,size\na,0,1,4\nb,1,2,4\nc,2,3,8\nd,3,4,8\n")
    for capacity, alone in ((24, 4), (23, 2), (16, 2), (15, 1), (8, 0)):
        placed = lowtide.research.allocate(path, capacity, spread=True)
        assert placed.height_bytes <= capacity
        assert placed.alone == alone
    assert main(["research", "allocate", str(path), "--capacity", "24", "--spread"]) == 0
    assert "4 of them share no byte with any other" in capsys.readouterr().err
    assert main(["research", "allocate", str(path), "--spread"]) == 2


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 7))
def test_least_reuse_keeps_every_rule(seed: int, n: int):
    """Whatever the capacity: the placement holds, is within it, and so many buffers share no byte."""
    buffers = random_buffers(seed, n, 6, 5, (1, 2))
    problem = with_ties(seed, buffers)
    found = allocate_buffers(problem)
    known = Packing(tuple(found.offsets.values()), found.height_bytes, found.lower_bound_bytes, "", {})
    capacity = found.height_bytes + Random(seed).randint(0, 12)
    packing, alone = minimise_reuse(problem, capacity, known, Limits())
    check(problem, packing.offsets)
    assert packing.height_bytes <= capacity
    used = [
        {at + byte for p in b.rectangles for byte in range(p.low, p.low + p.size)}
        for at, b in zip(packing.offsets, buffers, strict=True)
    ]
    lonely = [i for i in range(n) if not any(used[i] & used[j] for j in range(n) if j != i)]
    assert len(lonely) >= alone


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(["strict", "generic", "hmcos"]), st.floats(1.0, 2.0))
def test_plans_of_least_reuse_hold(seed: int, target: str, room: float):
    """Within the budget, with the same order and peak, every check passed; without room the plan is as it was."""
    graph = random_graph(Random(seed), plain=target == "strict")  # then every storage is a block of the layout
    whole = lowtide.research.plan(graph, target=target)
    if not whole.arena_bytes:
        return
    budget = int(room * whole.arena_bytes)
    plan = lowtide.research.plan(graph, target=target, budget=budget, spread=True)
    assert (plan.order, plan.peak_bytes, plan.in_place) == (whole.order, whole.peak_bytes, whole.in_place)
    assert whole.arena_bytes <= (plan.arena_bytes or 0) <= budget
    assert lowtide.verify(graph, plan)
    alone = (plan.search or {}).get("buffers_alone", 0)
    if target == "strict":
        used = [range(b.offset, b.offset + b.size) for b in layout_of(plan, graph).blocks]
        free = [a for a in used if sum(a.start < b.stop and b.start < a.stop for b in used) == 1]
        assert len(free) >= alone


def test_with_room_for_all_no_tensor_of_a_plan_shares_a_byte(tmp_path: Path, capsys: Captured):
    """Six tensors end to end; without a budget, and under a runtime's own rules, --spread is refused."""
    path, plan_file = graph_file(tmp_path, branches()), tmp_path / "p.json"
    call = ["research", "plan", str(path), "--target", "strict", "--spread"]
    assert main([*call, "--budget", "211", "--plan", str(plan_file)]) == 0
    made = lowtide.research.plan(path, target="strict", budget=211, spread=True)
    assert (made.arena_bytes, made.arena_optimal) == (211, False)
    assert sorted((made.offsets or {}).values())[-1] < 211
    assert main(["verify", str(path), str(plan_file)]) == 0
    assert main(call) == 2
    assert main(["research", "plan", str(path), "--target", "onnxruntime", "--spread", "--budget", "9KiB"]) == 2
    capsys.readouterr()
