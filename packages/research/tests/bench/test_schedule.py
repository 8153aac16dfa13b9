"""`lowtide research bench schedule`: its published figures, its cells, its files, Ctrl-C and limits."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

import lowtide
from lowtide.cli import main
from lowtide.errors import InputError
from lowtide.schedule.exact import Exact
from lowtide.schedule.registry import methods
from lowtide_research import zoo
from lowtide_research.bench import schedule
from lowtide_research.bench.command import write
from lowtide_research.bench.machine import machine
from lowtide_research.bench.measure import Cell
from lowtide_research.bench.parts import PARTS
from lowtide_research.bench.schedule import ScheduleSuite
from lowtide_research.bench.suite import Results, run
from lowtide_research.zoo.published import UNITS, figures, printed
from lowtide_research.zoo.published.cases import FORMS, HMCOS, case_of
from support.bench import json_of, markdown, text
from support.small_models import branches, graph_file

SMALL = "swiftnet_cell_c"
KEYS = {
    "part", "network", "ops", "target", "form", "unit", "method", "setting", "status", "reason", "peak_bytes",
    "lower_bound_bytes", "optimal", "certificate", "reduced_ops", "states", "variables", "cpu_seconds", "runs",
    "constraint", "constraint_bytes", "within_constraint", "published", "counters",
}  # fmt: skip
"""Of a cell in the JSON; programs read them."""


@pytest.fixture(scope="module")
def small() -> Results[Cell]:
    """Every method on one small cell."""
    return run(ScheduleSuite(networks=[SMALL]))


def test_published_figures_are_of_networks_that_are_there() -> None:
    """Every row names a network of the zoo, a target, a method, a unit, and reads as a number."""
    assert len(figures()) > 150
    known_methods = set(methods())
    for f in figures():
        zoo.network(f.network).settings(f.network.partition(":")[2])
        assert f.method in known_methods
        assert f.unit in UNITS
        assert f.relation in ("=", ">")
        assert f.amount > 0
        assert f.figure in ("peak", "time", "arena", "variables")
        case = case_of(f.network)
        assert case is None or case.target == f.target


def test_no_figure_is_published_twice() -> None:
    """One value for each figure."""
    keys = [(f.network, f.method, f.setting, f.figure) for f in figures()]
    assert len(keys) == len(set(keys))


def test_published_figures_have_a_cell() -> None:
    """Every network and setting in the CSV is run by some part."""
    for f in figures():
        assert any(f.network in {c.network for c in part.cases} for part in PARTS.values()), f
    assert [f.text for f in printed("nasnet_a_cifar", "hmcos", "hmcos", "configuration 1")] == [">3600"]


def test_every_form_keeps_the_outputs() -> None:
    """What a paper takes for one op leaves the graph's ends as they are."""
    graph = zoo.build("darts_imagenet_normal_cell").graph()
    for form in FORMS.values():
        made = form(graph)
        assert {t.id for t in made.tensors if t.kind.value == "output"} == {
            t.id for t in graph.tensors if t.kind.value == "output"
        }


@pytest.mark.slow
def test_hmcos_networks_give_the_printed_peaks() -> None:
    """HMCOS, Table 1: RPO and HMCOS, to the printed digit (1.125 and 4.135 are printed as 1.13 and 4.13)."""
    found = run(ScheduleSuite(networks=[c.network for c in HMCOS], methods=["rpo", "hmcos"], time=30))
    assert found.complete
    assert len(found.rows) == 12
    for cell in found.rows:
        value = next(f for f in cell.published if f.figure == "peak").amount
        assert abs((cell.peak_bytes or 0) - value) < 0.0101 * 2**20
        assert cell.within_constraint is (value <= (cell.constraint_bytes or 0))


@pytest.mark.slow
def test_every_method_has_a_cell(small: Results[Cell]) -> None:
    """One row per method, the papers' optimum proved, published figures beside it."""
    assert [c.method for c in small.rows] == ["own", "rpo", "lpmf", "serenity", "hmcos", "zhong", "exact"]
    exact = small.rows[-1]
    assert (exact.peak_bytes, exact.lower_bound_bytes, exact.optimal, exact.status) == (32_928, 32_928, True, "ok")
    own = small.rows[0]
    assert not own.optimal
    assert own.published[0].text == "70"
    assert own.within_constraint
    assert all(c.runs >= 1 and c.cpu_seconds >= 0 for c in small.rows)


def test_json_keeps_its_keys(small: Results[Cell]) -> None:
    """The schema is stable: version 1, these keys, the machine without names of directories."""
    made = json.loads(json_of(small))
    assert list(made) == ["suite", "machine", "options", "complete", "cpu_seconds", "rows"]
    assert set(made["machine"]) == {"lowtide", "commit", "python", "system", "cpu", "cores"}
    assert all(set(cell) == KEYS == {f.name for f in fields(Cell)} for cell in made["rows"])
    assert "/" not in json.dumps([made["machine"], made["options"]]).replace("\\/", "/")


def test_tables_show_all_of_it(small: Results[Cell]) -> None:
    """Peaks with stars and ticks, seconds, ops."""
    shown = text(small)
    for words in ("32.9* ✓", "lower bound", "lowtide", "CPU seconds", "250.0"):
        assert words in shown
    assert "| network |" in markdown(small)


def test_a_limit_shows_as_such() -> None:
    """A method that its time ends says time, and is not repeated."""
    found = run(ScheduleSuite(networks=["random_width:n=100,width=32"], methods=["exact"], time=0.3))
    cell = found.rows[0]
    assert (cell.status, cell.optimal, cell.runs) == ("time", False, 1)
    assert "time" in text(found)


def test_a_limit_shows_the_gap(small: Results[Cell]) -> None:
    """What the solver proved by then, and the share of the peak above it; other methods prove nothing."""
    zhong, exact = (next(c for c in small.rows if c.method == name) for name in ("zhong", "exact"))
    stopped = replace(zhong, status="time", peak_bytes=40_000, counters={"ilp_bound_bytes": 30_000})
    assert " ✓ time, bound 30.0, gap 25.0 %" in markdown(replace(small, rows=(stopped, exact)))
    late = replace(exact, status="time", peak_bytes=40_000, lower_bound_bytes=32_000, optimal=False)
    assert "time, bound 32.0, gap 20.0 %" in text(replace(small, rows=(late,)))
    assert "gap" not in text(replace(small, rows=(replace(small.rows[3], status="memory"),)))


def test_graphs_of_a_directory(tmp_path: Path) -> None:
    """Each file is planned, file order beside it, and summed up."""
    graph_file(tmp_path, branches())
    found = run(ScheduleSuite(graphs=tmp_path))
    assert [(c.method, c.peak_bytes) for c in found.rows] == [("own", 208), ("exact", 109)]
    shown = text(found)
    assert "all 1, 1 proved" in shown
    assert "109" in shown
    assert str(tmp_path) not in json_of(found)
    with pytest.raises(InputError, match=r"no \*\.graph\.json"):
        run(ScheduleSuite(graphs=Path(__file__).parent))
    with pytest.raises(InputError, match="positive number of seconds"):
        run(ScheduleSuite(graphs=tmp_path, time=0))


@pytest.mark.slow
def test_parts_run_their_settings() -> None:
    """HMCOS's configurations, SERENITY's rows, Zhong et al.'s settings, each with its published figures."""
    small_hmcos = run(ScheduleSuite(parts=["hmcos-3"], networks=["darts_imagenet"], time=1))
    assert [c.setting for c in small_hmcos.rows] == [*(f"configuration {i}" for i in range(1, 8)), "lowtide"]
    assert small_hmcos.rows[2].published[0].text == "0.023"
    rows = run(ScheduleSuite(parts=["serenity-2"], time=2))
    assert [len(c.published) for c in rows.rows] == [0, 1, 1]
    zhong = run(ScheduleSuite(parts=["zhong-4", "zhong-5", "zhong-6", "zhong-9"], networks=[SMALL]))
    cells_of = Counter(c.part for c in zhong.rows)
    assert cells_of == {"zhong-4": 5, "zhong-5": 4, "zhong-6": 7, "zhong-9": 4}
    assert all(c.status == "ok" for c in zhong.rows)


def test_ablation_turns_each_switch_off_alone() -> None:
    """A row with all, and one per switch; every one proves the same peak."""
    found = run(ScheduleSuite(parts=["ablation"], networks=[SMALL]))
    assert len(found.rows) == 1 + len(Exact().switches)
    assert {c.peak_bytes for c in found.rows} == {32_928}
    assert "no propagate" in text(found)


def test_interrupted_keeps_what_is_done(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Ctrl-C ends the run; its finished cells are printed and written, and the status is 130."""
    real = schedule.measure
    calls: Iterator[int] = iter(range(100))

    def measure(*arguments: Any, **keywords: Any) -> Cell:
        if next(calls) == 2:
            raise KeyboardInterrupt
        return real(*arguments, **keywords)

    monkeypatch.setattr(schedule, "measure", measure)
    assert (
        main(["research", "bench", "schedule", "--networks", SMALL, "-o", str(tmp_path), "-q", "--label", "x"]) == 130
    )
    made = json.loads((tmp_path / "schedule-x.json").read_text())
    assert (made["complete"], len(made["rows"])) == (False, 2)


def test_what_goes_wrong_is_a_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error in a method does not end the run."""
    from lowtide.schedule.order import Rpo

    def fail(*_: object) -> None:
        raise ValueError("it  broke")

    monkeypatch.setattr(Rpo, "schedule", fail)
    found = run(ScheduleSuite(networks=[SMALL], methods=["rpo", "own"]))
    assert [(c.method, c.status) for c in found.rows] == [("rpo", "error"), ("own", "ok")]
    assert "ValueError: it broke" in text(found)


@pytest.mark.parametrize(
    "keywords",
    [{"networks": ["nowhere"]}, {"methods": ["fastest"]}, {"parts": ["zhong-7"]}, {"graphs": "nowhere"},
     {"search_memory": "12 apples"}],
)  # fmt: skip
def test_wrong_calls(keywords: dict[str, Any]) -> None:
    """Names that there are not."""
    with pytest.raises(InputError):
        run(ScheduleSuite(**keywords))


def test_command_prints_and_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Tables on stdout or JSON, progress on stderr, two files."""
    words = ["research", "bench", "schedule", "--networks", SMALL, "--methods", "own,exact"]
    assert main([*words, "-o", str(tmp_path)]) == 0
    captured = capsys.readouterr()
    assert "32.9* ✓" in captured.out
    assert f"{SMALL} exact: 32,928 B" in captured.err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["schedule.json", "schedule.md"]
    assert main([*words, "--json", "-q"]) == 0
    captured = capsys.readouterr()
    assert len(json.loads(captured.out)["rows"]) == 2
    assert captured.err == ""
    assert main(["research", "bench", "schedule", "--part", "none"]) == 2


def test_machine_says_no_names() -> None:
    """Version, and a commit if this is a checkout."""
    m = machine()
    assert m.lowtide == lowtide.__version__
    assert m.cores >= 1
    assert m.commit is None or len(m.commit.rstrip("+")) == 40


def test_unwritable_directory(small: Results[Cell], tmp_path: Path) -> None:
    """It is said, not raised as a bug."""
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot make this directory"):
        write(small, tmp_path / "file")
