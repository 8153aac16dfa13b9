"""`lowtide research bench allocate`: rows, checks, tables and files, Ctrl-C; and arenas of networks of the zoo."""

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

import lowtide
from lowtide.allocate.arena import ENGINES
from lowtide.allocate.buffers import Buffer, Problem, Rectangle, block
from lowtide.allocate.greedy import RULES
from lowtide.cli import main
from lowtide.errors import InputError
from lowtide.target import resolve
from lowtide.verify.check.plan import verify_plan
from lowtide_research import zoo
from lowtide_research.bench import allocation, placing
from lowtide_research.bench.allocation import AllocateSuite
from lowtide_research.bench.command import write
from lowtide_research.bench.placing import OURS, OURS_TO_CAPACITY, Row, allocators, measure, overlap
from lowtide_research.bench.suite import run
from lowtide_research.zoo.published import UNITS, figures
from support.bench import json_of, markdown, text

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
    found = run(AllocateSuite(instances=instances, time=5))
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


def test_rows_as_json(instances: Path, tmp_path: Path) -> None:
    """Every field, no directory, two files."""
    found = run(AllocateSuite(instances=instances, allocators=["tflm", OURS], time=5))
    made = json.loads(json_of(found))
    assert list(made) == ["suite", "machine", "options", "complete", "cpu_seconds", "rows"]
    assert all(set(row) == {f.name for f in fields(Row)} for row in made["rows"])
    assert str(tmp_path) not in json.dumps(made)
    assert [r["allocator"] for r in made["rows"]] == ["tflm", OURS, OURS_TO_CAPACITY, "tflm", OURS]
    assert sorted(p.name for p in write(found, tmp_path / "out", "x")) == ["allocate-x.json", "allocate-x.md"]


NETWORKS = (
    "swiftnet", "darts_imagenet", "amoebanet_a_imagenet", "randwire_cifar10_cell_a", "unet_plus_plus",
    "lstm:layers=2,steps=6", "transformer:layers=2", "fft:points=16", "gpt_training:layers=1,micro=1",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("target", ["strict", "hmcos", "generic"])
@pytest.mark.parametrize("name", NETWORKS)
def test_no_byte_is_lost_and_every_byte_replayed(name: str, target: str) -> None:
    """Order and arena together, under each alignment: the arena is the peak of the rounded sizes."""
    graph = zoo.build(name).graph()
    for alignment in (1, 64):
        rules = replace(resolve(target), alignment=alignment)
        plan = lowtide.research.plan(graph, target=rules, time=20)
        verify_plan(graph, plan, rules, replay_bytes=True)
        lost = plan.figures.arena_lost
        assert lost is None or not lost.gap_bytes
        if alignment == 1:
            assert plan.arena_bytes == plan.peak_bytes


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
    """A wrong placement."""
    problem = Problem((block("a", 0, 3, 4), block("b", 2, 5, 4)))
    about: dict[str, Any] = {"instance": "x"}
    rule = allocators()["tflm"]
    monkeypatch.setattr(placing.Greedy, "pack", lambda *_: placing.Packing((0, 0), 4, 8, "wrong", {}))
    row = measure(problem, rule, 1, about)
    assert (row.status, row.reason) == ("error", "AssertionError: b overlaps another at step 2")


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
    assert main(["research", "bench", "allocate", "--instances", str(instances), "--json", "-q"]) == 130
    made = json.loads(capsys.readouterr().out)
    assert (made["complete"], len(made["rows"])) == (False, 2)


def test_command_prints_and_writes(instances: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Tables on stdout, progress on stderr, files where -o says."""
    words = [
        "research", "bench", "allocate", "--instances", str(instances), "--allocators",
        "tflm,lowtide",
    ]  # fmt: skip
    assert main([*words, "-o", str(tmp_path / "out")]) == 0
    captured = capsys.readouterr()
    assert "height / load" in captured.out
    assert "tiny tflm: 8 B, 1.0000 of the load" in captured.err
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["allocate.json", "allocate.md"]


@pytest.mark.parametrize(
    ("keywords", "words"),
    [
        ({}, "--instances"),
        ({"instances": ".", "allocators": ["best"]}, "there is no allocator"),
        ({"instances": "nowhere"}, "cannot read this directory"),
    ],
)
def test_wrong_calls(keywords: dict[str, Any], words: str) -> None:
    """One line that says what there is."""
    with pytest.raises(InputError, match=words):
        run(AllocateSuite(**keywords))
