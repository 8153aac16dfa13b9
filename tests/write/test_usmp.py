import json
from itertools import combinations
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

import lowtide
from lowtide.api.exports import layout_of
from lowtide.write.arena_map import Block
from lowtide.write.usmp import conflicts, usmp_json
from support.small_models import branches, graph_file, op, tensor


def test_pools_buffers_and_allocations(tmp_path: Path):
    """One pool of the arena's size; a buffer and its allocation for each storage; those live together conflict."""
    path = graph_file(tmp_path, branches())
    made = lowtide.research.plan(path, target="strict")
    found = json.loads(usmp_json(layout_of(made, path)))
    assert found["pools"][0] == {
        "pool_name": "arena", "size_hint_bytes": -1, "clock_frequency_hz": -1, "read_bandwidth_bytes_per_cycle": -1,
        "write_bandwidth_bytes_per_cycle": -1, "read_latency_cycles": 0, "write_latency_cycles": 0, "used_bytes": 109,
    }  # fmt: skip
    at = {a["name_hint"]: a["byte_offset"] for a in found["allocations"]}
    assert at == {t.name: made.offset_of(t.id) for t in made.tensors}
    buffers = {b["name_hint"]: b for b in found["buffers"]}
    assert buffers["t0"]["kind"] == "input"
    assert buffers["t1"]["size_bytes"] == 100
    assert buffers["t2"]["conflicts"] == ["t0", "t3", "t4"] or buffers["t1"]["conflicts"] == ["t0", "t4", "t3"]
    for b in buffers.values():
        for other in b["conflicts"]:
            o = buffers[other]
            assert b["first_step"] <= o["last_step"]
            assert o["first_step"] <= b["last_step"]
            here, there = at[b["name_hint"]], at[other]
            assert here + b["size_bytes"] <= there or there + o["size_bytes"] <= here


def test_in_place_is_no_conflict_and_names_are_distinguished(tmp_path: Path):
    """An output over its input may share its bytes; two tensors of one name get numbers."""
    relu = {
        "name": "relu",
        "tensors": [tensor(0, 64, "input"), tensor(1, 64) | {"name": "t0"}, tensor(2, 64, "output") | {"name": "t0"}],
        "ops": [op(0, [0], [1]), op(1, [1], [2]) | {"type": "Relu"}],
    }
    path = graph_file(tmp_path, relu)
    found = json.loads(usmp_json(layout_of(lowtide.research.plan(path), path)))
    assert {b["name_hint"]: b["conflicts"] for b in found["buffers"]} == {"t0": ["t0_2"], "t0_2": ["t0"], "t0_3": []}


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 4)), min_size=1, max_size=2), max_size=8))
def test_conflicts_are_the_pairs_that_meet(drawn: list[list[tuple[int, int]]]):
    """As a look at every step of every pair says."""
    spans = []
    for steps in drawn:
        cells = sorted({t for start, length in steps for t in range(start, start + length)})
        spans.append(tuple((t, t + 1) for t in cells))
    blocks = [Block(f"b{i}", "buffer", "arena", 0, 1, s) for i, s in enumerate(spans)]
    found = conflicts(blocks)
    for i, j in combinations(range(len(blocks)), 2):
        assert (j in found[i]) == (i in found[j]) == bool(set(spans[i]) & set(spans[j]))
