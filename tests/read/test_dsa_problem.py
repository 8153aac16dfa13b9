"""dsa-solver's placement problems: what is read, what is honoured, what is refused."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import lowtide
from lowtide.allocate.csv_buffers import read_pool, read_problem
from lowtide.errors import InputError
from lowtide.read.dsa_problem import parse_dsa_problem
from support.command import Captured, run


def buffer(number: int, size: int, *lives: tuple[int, int], pool: int = 1, name: str = "") -> dict[str, Any]:
    """An entry."""
    return {
        "id": number, "size": size, "alignment": 32, "allowed_pools": [pool], "name": name or f"b{number}",
        "live_intervals": [{"lower": a, "upper": b} for a, b in lives],
    }  # fmt: skip


def document() -> dict[str, Any]:
    """Two pools; in the first a buffer that is there twice, one that is pinned, two that are kept apart."""
    return {
        "schema_version": 1, "profile": "pypto_research_v1", "instance": "k", "metadata": {"producer": "x"},
        "problem": {
            "pools": [
                {"id": 1, "name": "UB", "capacity": 4096, "reserved_ranges": [{"begin": 0, "end": 64}]},
                {"id": 2, "name": "", "capacity": None, "reserved_ranges": []},
                {"id": 3, "name": "unused", "capacity": None, "reserved_ranges": []},
            ],
            "buffers": [
                buffer(0, 100, (0, 2), (5, 7)), buffer(1, 100, (2, 5)), buffer(2, 50, (7, 9), name="b1"),
                buffer(3, 32, (0, 9)), buffer(4, 10, (1, 2), pool=2),
            ],
            "constraints": {
                "colocations": [], "temporal_exclusions": [], "separations": [{"first": 2, "second": 0}],
                "pinned_allocations": [{"buffer": 3, "pool": 1, "offset": 64}],
            },
            "cost_model": {"reuse_penalties": [{"first": 0, "second": 1, "cost": 2, "reason": "cross_pipe"}]},
            "objective": {"aggregation": "lexicographic", "terms": ["total_peak"]},
        },
    }  # fmt: skip


def test_all_ties_are_honoured(tmp_path: Path) -> None:
    """Gaps are shared, reserved bytes are not, pins and separations hold; names that stand twice get their numbers."""
    file = tmp_path / "k.json"
    file.write_text(json.dumps(document()))
    problem, capacity, costs = read_pool(file, "UB")
    assert (capacity, costs) == (4096, {(0, 1): 2})
    placed = lowtide.research.allocate(problem)
    at = placed.offsets
    assert set(at) == {"b0", "b1#1", "b1#2", "b3", "reserved0"}
    assert (at["reserved0"], at["b3"]) == (0, 64)
    assert min(at["b0"], at["b1#1"], at["b1#2"]) == 96
    low, high = sorted([(at["b0"], at["b0"] + 100), (at["b1#2"], at["b1#2"] + 50)])
    assert low[1] <= high[0]  # though they are never there at the same time
    assert (placed.height_bytes, placed.optimal) == (96 + 64 + 100, True)
    assert [p.pool for p in parse_dsa_problem(file.read_bytes())] == ["UB", "2"]


def test_the_command_asks_for_a_pool(tmp_path: Path, capsys: Captured) -> None:
    """Where there are several; a CSV has none."""
    file = tmp_path / "k.json"
    file.write_text(json.dumps(document()))
    status, _, err = run(capsys, "research", "allocate", file)
    assert (status, "say which with --pool: UB, 2" in err) == (2, True)
    status, _, err = run(capsys, "research", "allocate", file, "--pool", "ub")
    assert (status, "did you mean UB?" in err) == (2, True)
    status, out, _ = run(capsys, "research", "allocate", file, "--pool", "2", "-q")
    assert (status, out.splitlines()[1].split(",")[0]) == (0, "b4")
    (tmp_path / "b.csv").write_text("id,lower,upper,size\na,0,1,8\n")
    status, _, err = run(capsys, "research", "allocate", tmp_path / "b.csv", "--pool", "2")
    assert (status, "has no pools" in err) == (2, True)


def test_what_is_paid_for_reuse_is_weighed_where_that_is_asked(tmp_path: Path, capsys: Captured) -> None:
    """Buffers 0 and 1 share bytes where height alone counts; a capacity that is too small for both makes them."""
    file, text = tmp_path / "k.json", document()
    cost = text["problem"]["cost_model"]["reuse_penalties"]
    cost += [{"first": 1, "second": 0, "cost": 3, "reason": "again"}, {"first": 0, "second": 4, "cost": 9}]
    for capacity, paid, status in ((4096, 0, 0), (320, 5, 0), (240, None, 4)):
        text["problem"]["pools"][0]["capacity"] = capacity
        file.write_text(json.dumps(text))
        code, out, err = run(capsys, "research", "allocate", file, "--pool", "UB", "--reuse-cost", "--json")
        assert code == status, err
        said = json.loads(out)
        assert said.get("reuse_cost") == paid
        assert said["optimal"] == (paid is not None)
        assert set(said["offsets"]) == {"b0", "b1#1", "b1#2", "b3", "reserved0"}
    with pytest.warns(UserWarning, match="1 penalties for reuse are not weighed; --reuse-cost"):
        lowtide.research.allocate(read_problem(file, "UB"))


def test_the_words_for_reuse(tmp_path: Path, capsys: Captured) -> None:
    """The line below the placement, and what --reuse-cost cannot go with."""
    file, text = tmp_path / "k.json", document()
    for capacity, line in (
        (320, "reuse costs 2, proved optimal; height 2"),
        (240, "proved not to fit the capacity of 240 B"),
    ):
        text["problem"]["pools"][0]["capacity"] = capacity
        file.write_text(json.dumps(text))
        assert line in run(capsys, "research", "allocate", file, "--pool", "UB", "--reuse-cost")[2]
    csv = tmp_path / "b.csv"
    csv.write_text("id,lower,upper,size\na,0,1,8\n")
    for words, says in (
        ((csv, "--capacity", "8"), "there are no penalties to weigh"),
        ((file, "--pool", "UB", "--spread"), "leave out --bank, --board and --spread"),
        ((file, "--pool", "UB", "--bank", "m=1KiB"), "leave out --bank, --board and --spread"),
        ((file, "--pool", "2"), "needs --capacity"),
    ):
        status, _, err = run(capsys, "research", "allocate", *words, "--reuse-cost")
        assert (status, says in err) == (2, True), err


def test_the_capacity_of_the_pool_is_the_limit(tmp_path: Path, capsys: Captured) -> None:
    """Where none is named: 260 bytes are needed."""
    file, text = tmp_path / "k.json", document()
    for capacity, words, status in ((4096, (), 0), (100, (), 4), (100, ("--capacity", "1KiB"), 0)):
        text["problem"]["pools"][0]["capacity"] = capacity
        file.write_text(json.dumps(text))
        assert run(capsys, "research", "allocate", file, "--pool", "UB", "-q", *words)[0] == status, (capacity, words)
    assert run(capsys, "research", "allocate", file, "--pool", "UB", "-q", "--bank", "m=1KiB")[0] == 0


def test_a_placement_that_cannot_be_names_the_file(tmp_path: Path, capsys: Captured) -> None:
    """A buffer pinned where bytes are reserved."""
    file, text = tmp_path / "k.json", document()
    text["problem"]["constraints"]["pinned_allocations"][0]["offset"] = 32
    file.write_text(json.dumps(text))
    status, _, err = run(capsys, "research", "allocate", file, "--pool", "UB", "-q")
    assert (status, f"{file}: buffer reserved0 cannot be at its fixed offset 0: b3" in err) == (2, True)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda d: d.update(schema_version=2), "Invalid enum value 2"),
        (lambda d: d.pop("instance"), "instance"),
        (lambda d: d["problem"]["buffers"][0].update(size=-1), ">= 0"),
        (lambda d: d["problem"]["buffers"][0].update(size=2**62), "more than 2.62"),
        (lambda d: d["problem"]["buffers"][0].update(alignment=0), ">= 1"),
        (lambda d: d["problem"]["buffers"][0].update(id=1), "buffer 1 is listed twice"),
        (lambda d: d["problem"]["buffers"][0].update(allowed_pools=[1, 2]), "may lie in 2 pools"),
        (lambda d: d["problem"]["buffers"][0].update(allowed_pools=[9]), "pool 9, which does not exist"),
        (lambda d: d["problem"]["buffers"][0].update(live_intervals=[]), "no lifetime"),
        (lambda d: d["problem"]["buffers"][0]["live_intervals"][0].update(upper=0), "empty"),
        (lambda d: d["problem"]["buffers"][0]["live_intervals"][0].update(upper=6), "overlap"),
        (lambda d: d["problem"]["pools"][1].update(id=1), "two pools"),
        (lambda d: d["problem"]["pools"][0].update(bank_geometry={"bank_size": 1, "num_banks": 2}), "has banks"),
        (lambda d: d["problem"]["pools"][0]["reserved_ranges"][0].update(end=0), "empty range"),
        (lambda d: d["problem"]["cost_model"]["reuse_penalties"][0].update(first=77), "penalty names buffer 77, which"),
        (lambda d: d["problem"]["cost_model"]["reuse_penalties"][0].update(first=1), "penalty names buffer 1 twice"),
        (lambda d: d["problem"]["cost_model"]["reuse_penalties"][0].update(cost=-1), ">= 0"),
        (lambda d: d["problem"]["constraints"]["colocations"].append({"first": 0, "second": 1}), "colocations"),
        (lambda d: d["problem"]["constraints"]["temporal_exclusions"].append({"first": 0, "second": 1}), "exclusions"),
        (lambda d: d["problem"]["constraints"]["separations"].append({"first": 0, "second": 0}), "not two"),
        (lambda d: d["problem"]["constraints"]["separations"].append({"first": 0, "second": 77}), "77, which does not"),
        (lambda d: d["problem"]["constraints"]["pinned_allocations"][0].update(pool=2), "pinned"),
        (lambda d: d["problem"]["constraints"]["pinned_allocations"][0].update(buffer=77), "77, which does not exist"),
        (
            lambda d: d["problem"]["constraints"]["pinned_allocations"][0].update(exclusive_for_all_time=True),
            "all time",
        ),
    ],
)
def test_what_is_wrong_is_said_in_one_line(change: Callable[[Any], Any], says: str) -> None:
    """With the file and the buffer; what cannot be honoured is refused, never dropped."""
    changed = document()
    change(changed)
    with pytest.raises(InputError, match=says) as caught:
        parse_dsa_problem(json.dumps(changed).encode(), "k.json")
    assert str(caught.value).startswith("k.json: ")
    assert "\n" not in str(caught.value)


def test_damaged_documents_are_read_or_refused() -> None:
    """Never another error."""
    data, draw = json.dumps(document()), random.Random(5)
    for size in range(0, len(data), 11):
        with pytest.raises(InputError):
            parse_dsa_problem(data[:size].encode())
    for _ in range(500):
        at = draw.randrange(len(data))
        with suppress(InputError):
            parse_dsa_problem((data[:at] + draw.choice('0-9{}[]",x') + data[at + 1 :]).encode())
    for text in (b"[" * 100_000, b"\xff", b"[]", b"{}"):
        with pytest.raises(InputError):
            parse_dsa_problem(text)
