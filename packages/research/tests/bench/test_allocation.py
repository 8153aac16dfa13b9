"""`lowtide bench allocate`: rows, checks, tables and files, external allocators, Ctrl-C; and the sweep over the zoo."""

import csv
import io
import json
import sys
import types
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from lowtide.allocate.arena import ENGINES
from lowtide.allocate.buffers import Buffer, Pair, Problem, Rectangle, block, load_bound
from lowtide.allocate.greedy import RULES
from lowtide.cli import main
from lowtide.errors import InputError
from lowtide.stop import Limits
from lowtide.target import resolve
from lowtide_research import zoo
from lowtide_research.bench import allocation, external, placing
from lowtide_research.bench.allocation import AllocateSuite
from lowtide_research.bench.output import write
from lowtide_research.bench.placing import OURS, OURS_TO_CAPACITY, Row, allocators, measure, overlap
from lowtide_research.bench.suite import run
from lowtide_research.zoo.published import UNITS, figures
from support.bench import csv_of, json_of, markdown, text

SMALL = "swiftnet_cell_c"
CSV = "id,lower,upper,size\na,0,3,4\nb,1,5,4\nc,3,9,4\nd,5,9,4\n"


@pytest.fixture
def instances(tmp_path: Path) -> Path:
    """Two files of buffers, one of them with a capacity."""
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "tiny.8.csv").write_text(CSV)
    (folder / "plain.csv").write_text(CSV + "e,0,9,100\n")
    return folder


def test_every_allocator_has_a_row(instances: Path) -> None:
    """Each rule, each engine, all of ours together; capacities from names; heights at the proved least have a star."""
    found = run(AllocateSuite(parts=["instances"], instances=instances, time=5))
    assert found.complete
    names = [r.allocator for r in found.rows if r.instance == "tiny"]
    assert names[: len(RULES)] == [r.name for r in RULES]
    assert {*(e.name for e in ENGINES), OURS} <= set(names)
    tiny = next(r for r in found.rows if (r.instance, r.allocator) == ("tiny", OURS))
    assert (tiny.capacity_bytes, tiny.fits, tiny.height_bytes, tiny.load_bytes, tiny.optimal) == (8, True, 8, 8, True)
    plain = next(r for r in found.rows if (r.instance, r.allocator) == ("plain", OURS))
    assert (plain.capacity_bytes, plain.fits, plain.height_bytes) == (None, None, 108)
    shown = text(found)
    for words in ("tiny", "1*", "height / load", "CPU seconds", "lowtide to capacity, all together"):
        assert words in shown
    assert "| instance |" in markdown(found)


def test_rows_as_json_and_csv(instances: Path, tmp_path: Path) -> None:
    """Every field in both, no directory in either, three files."""
    found = run(AllocateSuite(parts=["instances"], instances=instances, allocators=["tflm", OURS], time=5))
    made = json.loads(json_of(found))
    assert list(made) == ["suite", "schema", "machine", "options", "complete", "cpu_seconds", "rows", "published"]
    assert all(set(row) == {f.name for f in fields(Row)} for row in made["rows"])
    assert str(tmp_path) not in json.dumps(made)
    rows = list(csv.DictReader(io.StringIO(csv_of(found))))
    assert [r["allocator"] for r in rows] == ["tflm", OURS, OURS_TO_CAPACITY, "tflm", OURS]
    assert sorted(p.name for p in write(found, tmp_path / "out", "x")) == [
        "allocate-x.csv", "allocate-x.json", "allocate-x.md",
    ]  # fmt: skip


def test_orders_of_methods() -> None:
    """TFLite's greedy and our engines on each method's order; the peak of the exact order is the least."""
    found = run(AllocateSuite(parts=["orders"], networks=[SMALL], methods=["own", "rpo", "exact"], time=5))
    assert [(r.order, r.allocator) for r in found.rows] == [
        (m, a) for m in ("own", "rpo", "exact") for a in ("tflite", OURS)
    ]
    peaks = {r.order: r.peak_bytes or 0 for r in found.rows}
    assert peaks["exact"] == min(peaks.values())
    assert all((r.height_bytes or 0) >= (r.load_bytes or 0) >= (r.peak_bytes or 0) for r in found.rows)
    assert "arena / load by TFLite's greedy" in text(found)


@pytest.mark.slow
def test_hmcos_table_1_beside_ours() -> None:
    """On HMCOS's networks no byte is lost: the arena is the peak, rounded up, and 11 % or more below what it prints."""
    found = run(AllocateSuite(parts=["hmcos-1"], networks=["darts_imagenet", "nasnet_a_imagenet"], time=3))
    ours = [r for r in found.rows if r.order == OURS]
    assert [r.instance for r in ours] == ["nasnet_a_imagenet", "darts_imagenet"]
    for row in ours:
        assert row.height_bytes == row.load_bytes
        assert (row.height_bytes or 0) - (row.peak_bytes or 0) < 64
        assert row.replayed
        printed = next(
            f
            for f in allocation.published_figures(found.rows)
            if (f.network, f.method, f.figure) == (row.instance, "hmcos", "arena")
        )
        assert (row.height_bytes or 0) < 0.89 * printed.amount
    shown = text(found)
    assert "its code" in shown
    assert "4.93" in shown


NETWORKS = (
    "swiftnet", "darts_imagenet", "amoebanet_a_imagenet", "randwire_cifar10_cell_a", "unet_plus_plus",
    "lstm:layers=2,steps=6", "transformer:layers=2", "fft:points=16", "gpt_training:layers=1,micro=1",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("target", allocation.TARGETS)
@pytest.mark.parametrize("name", NETWORKS)
def test_no_byte_is_lost_and_every_byte_replayed(name: str, target: str) -> None:
    """Order and arena together, under each alignment: the arena is the peak of the rounded sizes."""
    graph = zoo.build(name).graph()
    for alignment in allocation.ALIGNMENTS:
        rules = replace(resolve(target), alignment=alignment)
        row = allocation._layout(graph, rules, "layout", name, 20)
        assert row.reason is None
        assert row.replayed
        assert row.height_bytes == row.load_bytes
        if alignment == 1:
            assert row.height_bytes == row.peak_bytes


def test_layout_tables_list_what_is_above() -> None:
    """Counts by target and alignment; a row above its load is listed with its bound and where."""
    found = run(AllocateSuite(parts=["layout"], networks=[SMALL], time=5))
    assert len(found.rows) == len(allocation.TARGETS) * len(allocation.ALIGNMENTS)
    assert "arenas above their load" not in text(found)
    above = replace(found.rows[0], height_bytes=(found.rows[0].load_bytes or 0) + 64, lost="a ends highest")
    shown = text(replace(found, rows=(above, *found.rows[1:])))
    assert "arenas above their load" in shown
    assert "a ends highest" in shown


def test_a_file_that_cannot_be_read_is_a_row(tmp_path: Path) -> None:
    """The others are planned; what is wrong with it is said below the tables."""
    (tmp_path / "broken.graph.json").write_text("{")
    found = run(AllocateSuite(parts=["layout"], networks=[SMALL], graphs=tmp_path, time=5))
    wrong = [r for r in found.rows if r.status == "error"]
    assert [(r.instance, r.height_bytes) for r in wrong] == [("broken.graph.json", None)]
    assert len(found.rows) == 1 + len(allocation.TARGETS) * len(allocation.ALIGNMENTS)
    assert "broken.graph.json" in text(found)


def test_placements_are_checked() -> None:
    """A sweep over time that finds overlaps, and offsets that are not aligned, negative or not where they are fixed."""
    a, b = block("a", 0, 3, 4), block("b", 2, 5, 4)
    assert overlap(Problem((a, b)), (0, 4)) is None
    assert overlap(Problem((a, b)), (0, 3)) == "b overlaps another at step 2"
    assert overlap(Problem((a, b)), (4, 1)) == "b overlaps another at step 2"
    assert overlap(Problem((a, block("c", 3, 5, 4))), (0, 0)) is None
    assert overlap(Problem((a, replace(b, alignment=8))), (0, 4)) == "b lies at 4"
    assert overlap(Problem((a, replace(b, offset=8))), (0, 4)) == "b lies at 4"
    assert overlap(Problem((a, b)), (0, -4)) == "b lies at -4"
    steps = Buffer("steps", 8, (Rectangle(0, 2, 0, 8), Rectangle(2, 4, 4, 4)))
    assert overlap(Problem((steps, block("d", 2, 4, 4))), (0, 0)) is None
    assert overlap(Problem((steps, block("d", 1, 4, 4))), (0, 0)) == "d overlaps another at step 1"


def test_what_goes_wrong_is_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong placement, and what does not support a problem."""
    problem = Problem((block("a", 0, 3, 4), block("b", 2, 5, 4)))
    about: dict[str, Any] = {"part": "instances", "instance": "x"}
    rule = allocators()["tflm"]
    monkeypatch.setattr(placing.Greedy, "pack", lambda *_: placing.Packing((0, 0), 4, 8, "wrong", {}))
    row = measure(problem, rule, 1, about)
    assert (row.status, row.reason) == ("error", "AssertionError: b overlaps another at step 2")
    tied = Problem(problem.buffers, (Pair(0, 1, 1),))
    row = measure(tied, external.VelaHillClimb(), 1, about)
    assert (row.status, row.reason, row.height_bytes) == ("unsupported", "plain rectangles only", None)


def test_velas_hill_climb_is_found_by_import(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a module of its name: sections of time, ends inclusive, the load as the limit; time ends the search."""

    class HillClimbAllocator:
        def __init__(self, lrs: list[Any], max_iterations: int | None, memory_limit: int) -> None:
            assert [(r.start_time, r.end_time, r.size, r.get_alignment()) for r in lrs] == [(0, 1, 4, 1), (1, 2, 4, 1)]
            assert (max_iterations, memory_limit) == (None, 8)
            self.allocated_addresses = [0, 4]

        def attempt_bottleneck_fix(self, indices: list[int], iterations_stuck: int) -> None: ...

        def allocate(self) -> list[int]:
            for k in range(3):
                self.attempt_bottleneck_fix([0, 1], k)
            return self.allocated_addresses

    problem = Problem((block("a", 0, 30, 4), block("b", 20, 50, 4)))
    assert load_bound(problem) == 8
    for name in ("ethosu", "ethosu.vela"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    module = types.ModuleType(external.VELA)
    module.__dict__["HillClimbAllocator"] = HillClimbAllocator
    monkeypatch.setitem(sys.modules, external.VELA, module)
    found = external.VelaHillClimb().pack(problem, Limits())
    assert (found.offsets, found.height_bytes, found.counters) == ((0, 4), 8, {"iterations": 3})
    late = external.VelaHillClimb().pack(problem, Limits(seconds=1e-9))
    assert late.counters == {"iterations": 0}


def test_reference_figures_read() -> None:
    """What others' own code gave has its source and reads as a number."""
    assert len(figures("allocate")) == 17
    for f in figures("allocate"):
        assert f.paper
        assert f.note
        assert f.unit in UNITS
        assert f.amount > 0


def test_interrupted_keeps_what_is_done(
    monkeypatch: pytest.MonkeyPatch, instances: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C ends the run with status 130; its finished rows are printed."""
    real = allocation.measure
    calls = iter(range(100))

    def some(*arguments: Any) -> Row:
        if next(calls) == 2:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(allocation, "measure", some)
    assert main(["bench", "allocate", "--part", "instances", "--instances", str(instances), "--json", "-q"]) == 130
    made = json.loads(capsys.readouterr().out)
    assert (made["complete"], len(made["rows"])) == (False, 2)


def test_command_prints_and_writes(instances: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Tables on stdout, progress on stderr, files where -o says."""
    words = ["bench", "allocate", "--part", "instances", "--instances", str(instances), "--allocators", "tflm,lowtide"]
    assert main([*words, "-o", str(tmp_path / "out")]) == 0
    captured = capsys.readouterr()
    assert "height / load" in captured.out
    assert "tiny tflm: 8 B, 1.0000 of the load" in captured.err
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["allocate.csv", "allocate.json", "allocate.md"]


@pytest.mark.parametrize(
    ("keywords", "words"),
    [
        ({"parts": ["nothing"]}, "there is no part"),
        ({"parts": ["instances"]}, "--instances"),
        ({"networks": ["nowhere"]}, "the zoo has no network"),
        ({"methods": ["fastest"]}, "fastest"),
        ({"allocators": ["best"]}, "there is no allocator"),
        ({"instances": "nowhere"}, "cannot read this directory"),
        ({"graphs": str(Path(__file__).parent)}, "there is no"),
    ],
)
def test_wrong_calls(keywords: dict[str, Any], words: str) -> None:
    """One line that says what there is."""
    with pytest.raises(InputError, match=words):
        run(AllocateSuite(**keywords))
