"""torch.export archives in another order: every other byte as it was, checksums right, and the way back."""

from __future__ import annotations

import io
import json
import random
import zipfile
from pathlib import Path

import pytest

import lowtide
from lowtide.errors import InputError
from lowtide.write import write_model
from support.onnx_builder import random_order
from support.pt2_builder import archive, branches, call, document, meta


def nodes_of(path: Path) -> list[str]:
    """Names of what each node makes, in the file's order."""
    with zipfile.ZipFile(path) as file:
        assert file.testzip() is None
        graph = json.loads(file.read("m/models/model.json"))["graph_module"]["graph"]
    return [n["outputs"][0]["as_tensor"]["name"] for n in graph["nodes"]]


@pytest.mark.parametrize("seed", range(5))
def test_the_inverse_order_gives_the_identical_file(seed: int, tmp_path: Path) -> None:
    """The nodes come in the order asked for; nothing else changes; and back."""
    source, out, back = archive(tmp_path / "m.pt2", branches(4)), tmp_path / "o.pt2", tmp_path / "b.pt2"
    graph = lowtide.load(source)
    order = random_order(graph, seed)
    write_model(source, order, out)
    names = nodes_of(source)
    assert nodes_of(out) == [names[i] for i in order]
    assert len(out.read_bytes()) == len(source.read_bytes())
    write_model(out, [order.index(i) for i in range(len(order))], back)
    assert back.read_bytes() == source.read_bytes()
    assert lowtide.load(out).own_order == tuple(range(len(order)))


def test_a_zip_with_data_descriptors_as_torch_writes_them(tmp_path: Path) -> None:
    """The checksum stands behind the member then, and in the directory."""

    class Pipe(io.RawIOBase):
        """Something that cannot seek, so that `zipfile` writes descriptors."""

        def __init__(self) -> None:
            self.data = bytearray()

        def write(self, data: bytes) -> int:  # type: ignore[override]
            self.data += data
            return len(data)

        def writable(self) -> bool:
            return True

    pipe = Pipe()
    with zipfile.ZipFile(pipe, "w") as file:  # type: ignore[arg-type]
        file.writestr("m/before", b"1234")
        file.writestr("m/models/model.json", json.dumps(branches(3), indent=2))
        file.writestr("m/behind", b"5678")
    source, out = tmp_path / "m.pt2", tmp_path / "o.pt2"
    source.write_bytes(bytes(pipe.data))
    order = random_order(lowtide.load(source), 1)
    write_model(source, order, out)
    names = nodes_of(source)
    assert nodes_of(out) == [names[i] for i in order]
    with zipfile.ZipFile(out) as file:
        assert file.getinfo("m/models/model.json").flag_bits & 8
        assert file.read("m/behind") == b"5678"


def test_a_plan_is_applied_and_found_again(tmp_path: Path) -> None:
    """The written file's own order has the plan's peak."""
    source, out = archive(tmp_path / "m.pt2", branches(4)), tmp_path / "o.pt2"
    plan = lowtide.research.plan(source)
    assert plan.required_bytes == plan.peak_bytes
    plan.apply(source, out)
    again = lowtide.research.plan(out)
    assert again.own_order_peak_bytes == plan.peak_bytes == again.peak_bytes < plan.own_order_peak_bytes


def test_an_order_that_changes_the_meaning_is_refused(tmp_path: Path) -> None:
    """Over a tensor that is written into, and over what is needed."""
    nodes = [
        call("exp.default", ["x"], ["a"]), call("sum.default", ["a"], ["before"]),
        call("add_.Tensor", ["a", "x"], ["a2"]), call("sub.Tensor", ["before", "a2"], ["y"]),
    ]  # fmt: skip
    metas = {n: meta([4]) for n in ("x", "a", "a2", "y")} | {"before": meta([])}
    source = archive(tmp_path / "m.pt2", document(nodes, ["x"], ["y"], metas))
    for order in ([0, 2, 1, 3], [1, 0, 2, 3]):
        with pytest.raises(InputError, match="topological"):
            write_model(source, order, tmp_path / "o.pt2")
    assert not (tmp_path / "o.pt2").exists()


def test_a_compressed_archive_is_read_but_not_written(tmp_path: Path) -> None:
    """Its length would change; the message says what to do."""
    source = archive(tmp_path / "m.pt2", branches(3), zipfile.ZIP_DEFLATED)
    plan = lowtide.research.plan(source)
    with pytest.raises(InputError, match="compressed; save it again"):
        plan.apply(source, tmp_path / "o.pt2")
    with pytest.raises(InputError, match=r"must end in \.pt2"):
        plan.apply(source, tmp_path / "o.onnx")
    stored = archive(tmp_path / "s.pt2", branches(3))
    with pytest.raises(InputError, match="input"):
        lowtide.research.plan(stored).apply(stored, stored)


def test_random_orders_of_random_size(tmp_path: Path) -> None:
    """Any node may be of any length."""
    rng = random.Random(0)
    made = branches(6)
    for node in made["graph_module"]["graph"]["nodes"]:
        node["metadata"] = {"stack": "}] , [{" * rng.randrange(50), '\u00e9\\"': "x" * rng.randrange(300)}
    source = archive(tmp_path / "m.pt2", json.dumps(made, ensure_ascii=False).encode())
    for seed in range(10):
        order = random_order(lowtide.load(source), seed)
        write_model(source, order, tmp_path / "o.pt2")
        names = nodes_of(source)
        assert nodes_of(tmp_path / "o.pt2") == [names[i] for i in order]


def test_what_nothing_reads_is_checked_too(tmp_path: Path) -> None:
    """Strings that planning skips may be no text, numbers longer than Python reads: one line, nothing written."""
    whole = json.dumps(branches(2)).encode()
    no_text = archive(tmp_path / "t.pt2", whole.replace(b"kept, with", b"kept\xff with", 1))
    with pytest.raises(InputError, match="no JSON"):
        lowtide.load(no_text)
    long = archive(tmp_path / "l.pt2", whole.replace(b'{"note":', b'{"n": ' + b"9" * 5000 + b', "note":', 1))
    plan = lowtide.research.plan(long)
    with pytest.raises(InputError, match="no JSON that Python reads"):
        plan.apply(long, tmp_path / "o.pt2")
    assert not (tmp_path / "o.pt2").exists()


def test_an_archive_without_a_graph_is_reported_once(tmp_path: Path) -> None:
    """The reason, and not the message of a broken zip around it."""
    with zipfile.ZipFile(tmp_path / "m.pt2", "w") as file:
        file.writestr("m/version", b"1")
    with pytest.raises(InputError, match=r"m\.pt2: the archive holds no graph; save"):
        lowtide.load(tmp_path / "m.pt2")
