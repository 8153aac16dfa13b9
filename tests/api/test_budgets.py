"""`lowtide.toml`: which models have which budget, and what is wrong with a file of them."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

import lowtide
from lowtide.api.budgets import Budget, BudgetsDocument, read_budgets
from lowtide.errors import InputError
from support.command import Captured, run
from support.small_models import branches, graph_file, onnx_file


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two models, one of 109 bytes under strict and one of 3,600 or so; it is the current one."""
    (tmp_path / "models/deep").mkdir(parents=True)
    graph_file(tmp_path / "models", branches())
    onnx_file(tmp_path / "models/deep")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def models_of(project: Path) -> list[str]:
    """Their names."""
    return sorted(p.relative_to(project).as_posix() for p in project.rglob("*") if p.suffix in (".onnx", ".json"))


def test_the_first_table_that_matches_judges_a_file(project: Path) -> None:
    """Globs are from the file's own folder, wherever it is read from; what one says of time goes before the rest."""
    deep, flat = models_of(project)
    text = (
        f'time = 7\n[models."{flat}"]\nbudget = 200\ntarget = "strict"\ntime = 3\n[models."models/**/*"]\nbudget = "1K"'
    )
    (project / "lowtide.toml").write_text(text)
    entries = read_budgets(project / "lowtide.toml")
    assert [(e.name, e.settings["budget"], e.settings["time"]) for e in entries] == [
        (flat, 200, 3.0),
        (deep, "1K", 7.0),
    ]
    assert [e.path for e in entries] == [project / flat, project / deep]
    (project / "mine.toml").write_text('base = "strict"\n')
    (project / "b.toml").write_text('bank = [{ name = "sram", size = "64KiB" }]\n')
    (project / "lowtide.toml").write_text('[models."models/*"]\ntarget = "mine.toml"\nboard = "b.toml"')
    (entry,) = read_budgets(project / "lowtide.toml")
    assert [entry.settings[k] for k in ("target", "board")] == [str(project / n) for n in ("mine.toml", "b.toml")]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("models = ", "not a TOML file"),
        ("[models]", "no table"),
        ("time = 3", "no table"),
        ('modles = 3\n[models."*"]\nbudget = 1', "did you mean models?"),
        ('[models."models/*"]\nbugdet = 1', "models.\"models/*\": there is no key 'bugdet'"),
        ('[models."models/*"]\ntarget = "strict"', "say what there is"),
        ('[models."models/*"]\nbudget = "much"', "much"),
        ('[models."models/*"]\nbudget = -1', "-1"),
        ('[models."models/*"]\nbudget = [1]', 'models."models/*": not a file of budgets'),
        ('[models."models/*"]\nbudget = 1\ntime = -1', 'models."models/*": time is -1'),
        ('[models."models/*"]\nbudget = 1\ntarget = "strct"', "models.\"models/*\": there is no target 'strct'"),
        ('[models."models/*"]\nboard = "nono"', "models.\"models/*\": there is no board 'nono'"),
        ('[models."models/*"]\nbanks = ["a"]', 'models."models/*": '),
        ('[models."models/*"]\nbudget = 1\ntarget = 3', "not a file of budgets"),
        ('[models]\n"models/*" = "64KiB"', "this is no table"),
        ('[models."none/*"]\nbudget = 1', "no file matches"),
        ('[models."../*"]\nbudget = 1', "below the file's own folder"),
        ('[models."/etc/*"]\nbudget = 1', "below the file's own folder"),
        ('[models.""]\nbudget = 1', "below the file's own folder"),
        ("a=" + "[" * 5000, "not a TOML file"),
        ("\ud800", "not a TOML file"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(project: Path, text: str, says: str, capsys: Captured) -> None:
    """With the file, the table in it, and the key."""
    (project / "lowtide.toml").write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(InputError) as caught:
        read_budgets()
    assert says in str(caught.value)
    assert str(caught.value).startswith("lowtide.toml")
    status, out, err = run(capsys, "check", "-q")
    assert (status, out, err.count("\n")) == (2, "", 1)


def test_check_without_a_model_reads_it(project: Path, capsys: Captured) -> None:
    """One row a model under its own rules, the worst exit status; all formats; an option of a model is refused."""
    deep, flat = models_of(project)
    text = '[models."{}"]\nbudget = {}\ntarget = "strict"\n'
    (project / "lowtide.toml").write_text(text.format(flat, 200) + text.format(deep, '"1MiB"'))
    status, out, _ = run(capsys, "check", "-q")
    assert (status, [line.split()[0] for line in out.splitlines()[1:]]) == (0, [flat, deep])
    (project / "lowtide.toml").write_text(text.format(flat, 3) + text.format(deep, '"1MiB"'))
    status, out, _ = run(capsys, "check", "-q", "--format", "github")
    assert (status, [line.partition(" ")[0] for line in out.splitlines()]) == (4, ["::error", "::notice"])
    status, out, _ = run(capsys, "check", "-q", "--json", "--config", "lowtide.toml")
    assert [row["model"] for row in json.loads(out)] == [flat, deep]
    for words in (["--budget", "1"], ["--target", "strict"], ["--dim", "n=1"], ["--as-is"], ["--before", "."]):
        assert run(capsys, "check", *words)[0] == 2, words
    status, _, err = run(capsys, "check", flat, "--config", "lowtide.toml", "--budget", "1")
    assert (status, "leave MODEL out" in err) == (2, True)
    (project / "lowtide.toml").unlink()
    status, _, err = run(capsys, "check")
    assert (status, "there is none here" in err) == (2, True)


def test_a_model_that_cannot_be_read_is_a_row(project: Path, capsys: Captured) -> None:
    """The others are judged all the same; the summary has it, too."""
    (project / "models/broken.onnx").write_text("no model")
    (project / "lowtide.toml").write_text('[models."models/**/*"]\nbudget = "1MiB"\ntarget = "strict"\n')
    status, out, _ = run(capsys, "check", "-q", "--summary", "s.md", "--reports", "reports")
    assert status == 2
    assert len(out.splitlines()) == 4
    assert 'lowtide.toml: models."models/**/*": ' in out
    text = (project / "s.md").read_text()
    assert "1 of 3 do not fit" in text
    assert text.count("```mermaid") == 2
    assert len(list((project / "reports").glob("*.html"))) == 2


def test_the_summary_says_what_changed(
    project: Path, tmp_path_factory: pytest.TempPathFactory, capsys: Captured
) -> None:
    """A model that grew, one that is as it was, one that is new; it is appended to what is there."""
    deep, flat = models_of(project)
    before = tmp_path_factory.mktemp("before")
    (before / "models/deep").mkdir(parents=True)
    (before / deep).write_bytes((project / deep).read_bytes())
    document = branches()
    for tensor in document["tensors"]:
        tensor["size"] *= 2
    old = (project / flat).read_text()
    (before / flat).write_text(old)
    (project / flat).write_text(json.dumps(document))
    (project / "models/new.graph.json").write_text(old)
    (project / "lowtide.toml").write_text('[models."models/**/*"]\nbudget = "1MiB"\ntarget = "strict"\n')
    (project / "s.md").write_text("what another step wrote\n")
    assert run(capsys, "check", "-q", "--summary", "s.md", "--before", before)[0] == 0
    text = (project / "s.md").read_text()
    rows = {line.split(" | ")[0].strip("| "): line for line in text.splitlines() if line.startswith("| models/")}
    assert text.startswith("what another step wrote\n## lowtide: all 3 fit")
    assert "| 109 B | 218 B | +109 B (+100.0 %) |" in rows[flat]
    assert "| as now |" in rows[deep]
    assert "| new |" in rows["models/new.graph.json"]
    assert text.count("```mermaid") == 2
    assert run(capsys, "check", "--summary", "s.md", "--before", project / "none")[0] == 2


def test_the_schema_is_of_what_is_read() -> None:
    """`lowtide research schema budgets`."""
    document = lowtide.research.schema("budgets")
    assert set(document["$defs"]) == {Budget.__name__, BudgetsDocument.__name__}
    keys = {field.encode_name for field in msgspec.structs.fields(Budget)}
    assert set(document["$defs"]["Budget"]["properties"]) == keys


@pytest.mark.parametrize(
    "words",
    [
        ["--summary", "none/summary"],
        ["--summary", "s.md", "--reports", "models/deep/m.onnx"],
        ["--summary", "s.md", "--before", "none"],
    ],
)
def test_a_summary_that_cannot_be_written_is_refused_at_once(
    project: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    """Before a model is checked, and nothing is left."""
    (project / "lowtide.toml").write_text('[models."models/**/*"]\nbudget = "1MiB"\ntarget = "strict"\n')
    monkeypatch.setattr("lowtide.cli.check._check", lambda *_: pytest.fail("a model is checked"))
    before = sorted(project.rglob("*"))
    status, _, err = run(capsys, "check", "-q", *words)
    assert (status, err.count("\n")) == (2, 1)
    assert sorted(project.rglob("*")) == before
