"""Outputs appear together or not at all, and never over an input."""

from __future__ import annotations

from pathlib import Path

import pytest

from lowtide.errors import InputError
from lowtide.outputs import Outputs


def test_all_appear_at_the_end(tmp_path: Path):
    """Nothing under its own name before, nothing temporary after; older files are replaced and keep their mode."""
    a, b = tmp_path / "a", tmp_path / "b"
    b.write_bytes(b"old")
    b.chmod(0o640)
    with Outputs() as outputs:
        outputs.write(a, b"1")
        outputs.write(b, b"2")
        assert not a.exists()
        assert b.read_bytes() == b"old"
    assert (a.read_bytes(), b.read_bytes(), b.stat().st_mode & 0o777) == (b"1", b"2", 0o640)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b"]


def test_an_error_leaves_nothing(tmp_path: Path):
    """Neither the outputs before it nor temporary files."""
    with pytest.raises(ZeroDivisionError), Outputs() as outputs:
        outputs.write(tmp_path / "a", b"1")
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


def test_an_input_is_never_an_output(tmp_path: Path):
    """Not by its name, a link to it, another way to it, or a second name of the same file."""
    source = tmp_path / "m"
    source.write_bytes(b"model")
    (tmp_path / "soft").symlink_to(source)
    (tmp_path / "hard").hardlink_to(source)
    (tmp_path / "d").mkdir()
    for name in ("m", "soft", "hard", "d/../m"):
        with pytest.raises(InputError, match="the output is the input"), Outputs([source]) as outputs:
            outputs.write(tmp_path / name, b"x")
    late = Outputs()
    late.protect(source)
    with pytest.raises(InputError, match="the output is the input"):
        late.write(source, b"x")
    assert source.read_bytes() == b"model"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("-", "--json prints the result"),
        ("folder", "is a directory"),
        ("none/x", "cannot write here"),
        ("same", "two outputs"),
    ],
)
def test_where_nothing_can_be_written(tmp_path: Path, name: str, words: str):
    """One line that names the output."""
    (tmp_path / "folder").mkdir()
    target = name if name == "-" else tmp_path / name
    with pytest.raises(InputError, match=words), Outputs() as outputs:
        if name == "same":
            outputs.write(target, b"1")
        outputs.write(target, b"2")
    assert [p.name for p in tmp_path.iterdir()] == ["folder"]
