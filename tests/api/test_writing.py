"""What is written replaces nothing that the call has read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lowtide
from lowtide.api.writing import PlanFiles, check_outputs, write_all
from lowtide.cli import main
from lowtide.errors import InputError
from support.small_models import branches, graph_file, with_weights_beside

TARGET = 'base = "generic"\nalignment = 16\n'
BOARD = 'bank = [{ name = "sram", size = "64KiB" }]\n'


def files(folder: Path) -> dict[str, tuple[list[Any], Path]]:
    """Per kind of file that a call reads: the call, and the file."""
    graph = graph_file(folder, branches())
    target, board, source = folder / "t.toml", folder / "b.toml", (folder / "nets").with_suffix(".py")
    target.write_text(TARGET)
    board.write_text(BOARD)
    source.write_text(f"def make():\n    return {str(graph)!r}\n")
    return {
        "model": ([graph], graph),
        "external data": ([with_weights_beside(folder)], folder / "weights.bin"),
        "target": ([graph, "--target", target], target),
        "board": ([graph, "--board", board], board),
        "function": ([f"{source}:make"], source),
    }


@pytest.mark.parametrize("option", ["--plan", "--log", "--header"])
@pytest.mark.parametrize("kind", ["model", "external data", "target", "board", "function"])
def test_no_output_replaces_what_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, option: str
) -> None:
    """Status 2 and one line, before anything is planned; the file is what it was."""
    call, file = files(tmp_path)[kind]
    before = file.read_bytes()
    assert main(["research", "plan", *map(str, call), option, str(file), "-q"]) == 2
    assert "the output is the input" in capsys.readouterr().err
    assert file.read_bytes() == before


def test_a_link_to_the_weights_is_the_weights(tmp_path: Path) -> None:
    """By whatever name; and a new file beside them is none of them."""
    source = with_weights_beside(tmp_path)
    (tmp_path / "p.json").symlink_to(tmp_path / "weights.bin")
    with pytest.raises(InputError, match="the output is the input"):
        check_outputs(source, [tmp_path / "p.json"])
    check_outputs(source, [tmp_path / "new.json"])


def test_writing_looks_again(tmp_path: Path) -> None:
    """`write_all` refuses by itself, and writes none of the others."""
    source = with_weights_beside(tmp_path)
    target = tmp_path / "t.toml"
    target.write_text(TARGET)
    plan = lowtide.research.plan(source, target=str(target))
    for path in (target, tmp_path / "weights.bin"):
        with pytest.raises(InputError, match="the output is the input"):
            write_all(plan, source, PlanFiles(plan=path, log=tmp_path / "log.csv"), target=str(target))
    assert not (tmp_path / "log.csv").exists()


def test_a_shared_arena_replaces_no_weights(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nor does the layout of one plan."""
    source = with_weights_beside(tmp_path)
    weights = tmp_path / "weights.bin"
    before = weights.read_bytes()
    other = graph_file(tmp_path, branches())
    assert (
        main(["research", "share", str(source), str(other), "--target", "generic", "--header", str(weights), "-q"]) == 2
    )
    with pytest.raises(InputError, match="the output is the input"):
        lowtide.export(lowtide.research.plan(source), source, header=weights)
    assert weights.read_bytes() == before
    assert "the output is the input" in capsys.readouterr().err
