"""Outputs appear together or not at all, and never over an input."""

from __future__ import annotations

import os
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

    def fail() -> None:
        with Outputs() as outputs:
            outputs.write(tmp_path / "a", b"1")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_takes_no_files_is_not_said_to_be_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """As where a system makes the files itself; of a folder that is not there it is said."""
    with pytest.raises(InputError, match="there is no folder"), Outputs() as outputs:
        outputs.write(tmp_path / "none/a", b"1")

    def fail(final: Path) -> None:
        raise FileNotFoundError(2, "No such file or directory", str(final))

    monkeypatch.setattr("lowtide.outputs._create_temporary", fail)
    with pytest.raises(InputError, match="no file can be made in") as error, Outputs() as outputs:
        outputs.write(tmp_path / "a", b"1")
    assert str(tmp_path / "a") in str(error.value)
    assert "there is no folder" not in str(error.value)


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
    ("name", "words"), [("-", "--json prints"), ("folder", "is a directory"), ("none/x", "cannot write here")]
)
def test_where_nothing_can_be_written(tmp_path: Path, name: str, words: str):
    """One line that names the output."""
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match=words), Outputs() as outputs:
        outputs.write(name if name == "-" else tmp_path / name, b"2")
    assert [p.name for p in tmp_path.iterdir()] == ["folder"]


def test_two_outputs_of_one_name(tmp_path: Path):
    """The second is refused, whatever way leads to it."""
    (tmp_path / "link").symlink_to(tmp_path / "a")
    outputs = Outputs()
    outputs.write(tmp_path / "a", b"1")
    with pytest.raises(InputError, match="two outputs have this name"):
        outputs.write(tmp_path / "link", b"2")
    outputs.discard()
    assert [p.name for p in tmp_path.iterdir()] == ["link"]


@pytest.mark.parametrize("links", [True, False])
def test_a_rename_that_fails_undoes_those_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool):
    """An older file is as it was, a new one is gone, and nothing temporary stays; with and without hard links."""
    for name in ("old", "other"):
        (tmp_path / name).write_bytes(b"before")
    replace = os.replace

    def once_too_often(source: Path, target: Path) -> None:
        if Path(target).name == "blocked":
            raise PermissionError(13, "Permission denied")
        replace(source, target)

    def no_links(source: Path, target: Path) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "replace", once_too_often)
    if not links:
        monkeypatch.setattr(os, "link", no_links)
    outputs = Outputs()
    for name in ("old", "new", "blocked", "other"):
        outputs.write(tmp_path / name, b"after")
    with pytest.raises(InputError, match="blocked: cannot write the file: Permission denied"):
        outputs.commit()
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {"old": b"before", "other": b"before"}
    for name in ("old", "new"):
        outputs.write(tmp_path / name, b"after")
    outputs.commit()
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {
        "old": b"after", "new": b"after", "other": b"before",
    }  # fmt: skip
