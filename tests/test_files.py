"""Opening what a user names: no waiting, no endless reading, one line on what is wrong."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from lowtide.allocate.banks.boards import find_board
from lowtide.allocate.csv_buffers import read_problem
from lowtide.api.models import load
from lowtide.errors import InputError
from lowtide.files import MOST_SETTINGS_BYTES, read_all
from lowtide.plan import read_plan
from lowtide.target import read_toml

READERS: dict[str, Callable[[Path], object]] = {
    "a.onnx": load, "a.tflite": load, "a.pt2": load, "a.graph.json": load, "a.plan.json": read_plan,
    "a.csv": read_problem, "a.toml": read_toml, "board.toml": find_board,
}  # fmt: skip


@pytest.mark.parametrize("name", READERS)
def test_a_named_pipe_is_refused_and_not_waited_for(tmp_path: Path, name: str):
    """Nobody writes into it, so reading it would never end."""
    path = tmp_path / name
    os.mkfifo(path)
    with pytest.raises(InputError, match=f"{name}: this is not a regular file"):
        READERS[name](path)


@pytest.mark.parametrize("name", READERS)
def test_a_device_is_refused(tmp_path: Path, name: str):
    """/dev/zero never ends either."""
    path = tmp_path / name
    path.symlink_to("/dev/zero")
    with pytest.raises(InputError, match=f"{name}: this is not a regular file"):
        READERS[name](path)


@pytest.mark.parametrize("name", READERS)
def test_a_directory_and_a_loop_of_links_are_refused(tmp_path: Path, name: str):
    """Each in one line that names the file."""
    path = tmp_path / name
    path.mkdir()
    with pytest.raises(InputError, match=f"{name}: cannot read the .*: this is a directory"):
        READERS[name](path)
    path.rmdir()
    path.symlink_to(path)
    with pytest.raises(InputError, match=f"{name}: cannot read the .*: Too many levels"):
        READERS[name](path)


@pytest.mark.parametrize("name", ["a.graph.json", "a.pt2", "a.plan.json", "a.csv", "a.toml", "board.toml"])
def test_a_huge_file_is_refused_before_it_is_read(tmp_path: Path, name: str):
    """Three gigabytes of nothing cost no memory."""
    path = tmp_path / name
    with path.open("wb") as file:
        file.truncate(3 * 1024**3)
    with pytest.raises(InputError):
        READERS[name](path)


def test_what_is_small_enough_is_read_whole(tmp_path: Path):
    """To the last byte of the limit, and not beyond."""
    path = tmp_path / "t.toml"
    path.write_bytes(b"#" * MOST_SETTINGS_BYTES)
    assert read_all(path, "target", MOST_SETTINGS_BYTES) == b"#" * MOST_SETTINGS_BYTES
    path.write_bytes(b"#" * (MOST_SETTINGS_BYTES + 1))
    with pytest.raises(InputError, match="1,048,577 bytes, and a target has at most 1,048,576"):
        read_all(path, "target", MOST_SETTINGS_BYTES)
