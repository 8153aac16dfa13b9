"""What is kept of a .tflite file, so that it need not be there any more."""

from __future__ import annotations

import pickle
import struct
from pathlib import Path

import pytest

from lowtide.errors import InputError
from lowtide.read.tflite.dependencies import dependency_bytes
from lowtide.read.tflite.model import OFFLINE_PLAN, TfliteFile, parse_tflite
from lowtide.read.tflite.reader import read_tflite
from support.tflite_builder import Net, residual


def _file(net: Net, folder: Path) -> TfliteFile:
    path = folder / "m.tflite"
    path.write_bytes(net.bytes())
    graph = read_tflite(path)
    path.unlink()
    assert isinstance(graph.file, TfliteFile)
    again = pickle.loads(pickle.dumps(graph))
    assert again == graph
    assert again.file == graph.file
    return graph.file


def test_the_whole_structure_is_kept(tmp_path: Path) -> None:
    """Subgraphs, size, and which operator must run before which other."""
    net = residual()
    net.metadata("model_control_dependencies", dependency_bytes([[(0, 2)]]))
    file = _file(net, tmp_path)
    assert file.model == parse_tflite(net.bytes(), "m")
    assert (file.size_bytes, file.dependencies, file.offline_plan()) == (len(net.bytes()), (((0, 2),),), None)


def test_an_offline_plan_is_kept(tmp_path: Path) -> None:
    """One offset for each tensor of all subgraphs."""
    net = residual()
    count = parse_tflite(net.bytes(), "m").tensor_count
    net.metadata(OFFLINE_PLAN, struct.pack(f"<{3 + count}i", 0, 1, count, *range(count)))
    assert _file(net, tmp_path).offline_plan() == list(range(count))


@pytest.mark.parametrize(
    ("words", "held"), [((), "nothing"), ((0, 1), "nothing"), ((0, 1, 7, 1, 2), "7 tensors")], ids=str
)
def test_a_plan_that_tflm_refuses_is_an_error_when_it_is_asked_for(
    tmp_path: Path, words: tuple[int, ...], held: str
) -> None:
    """Not when the file is read: it can be planned again."""
    net = residual()
    net.metadata(OFFLINE_PLAN, struct.pack(f"<{len(words)}i", *words))
    file = _file(net, tmp_path)
    with pytest.raises(InputError, match=f"its offline plan is for {held}"):
        file.offline_plan()
