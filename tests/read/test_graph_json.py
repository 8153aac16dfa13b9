"""Graph JSON in."""

import hashlib
import json

import pytest

import lowtide.research
from lowtide.errors import InputError
from lowtide.graph import Kind
from lowtide.read import read_model
from lowtide.read.graph_json import parse_graph_json
from support.graph_documents import GRAPH


def _changed(change):
    made = json.loads(json.dumps(GRAPH))
    change(made)
    return json.dumps(made).encode()


def test_every_field_is_read(tmp_path):
    """Ids need not be dense, unknown keys are ignored, constant-only ops are folded."""
    path = tmp_path / "g.graph.json"
    path.write_text(json.dumps(GRAPH))
    graph = read_model(path)
    assert graph.own_order == (2, 1)
    assert [op.id for op in graph.folded] == [9]
    assert graph.tensor_by_id[4].kind is Kind.CONSTANT
    assert graph.tensor_by_id[10].shape == (2,)
    assert (graph.tensor_by_id[5].alias_of, graph.tensor_by_id[5].alias_offset) == (7, 4)
    assert (graph.ops[0].workspace, graph.ops[0].flops, graph.ops[1].after) == (16, 2, (2,))
    assert graph.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda g: g.pop("ops"), "missing required field `ops`"),
        (
            lambda g: g["tensors"][0].update(size="8"),
            r"Expected `int`, got `str` - at `\$\.tensors\[",
        ),
        (
            lambda g: g["tensors"][0].update(kind="weight"),
            r"kind`; use one of 'input', 'output', 'activation', 'constant'",
        ),
        (lambda g: g.update(dialect="keras"), r"dialect`; use one of '', 'onnx', 'tflite', 'aten'"),
        (lambda g: g["tensors"][0].update(size=-1), ">= 0 - at .*size"),
        (lambda g: g["tensors"][0].update(size=2**63), "more than 2.62|out of range"),
        (lambda g: g["tensors"][0].update(size=2**64), "out of range|Expected|more than"),
        (lambda g: g["tensors"][0].update(id=3), "tensor id 3 is used twice"),
        (lambda g: g["ops"][1].update(id=1), "op id 1 is used twice"),
        (lambda g: g["ops"][1].update(inputs=[99]), "names tensor 99, which does not exist"),
        (lambda g: g["ops"][1].update(inputs=[10, 5]), "cycle"),
        (lambda g: g["ops"].reverse(), "comes before"),
        (lambda g: g["ops"][2].update(outputs=[7]), "is made by"),
        (lambda g: g["tensors"][3].update(alias_of=5), "alias of itself"),
        (lambda g: g["tensors"][3].update(alias_of=77), "alias of tensor 77, which does not exist"),
        (lambda g: g["ops"][2].update(after=[55]), "op 55, which does not exist"),
    ],
)
def test_malformed_graphs_are_refused(change, message):
    """Each wrong value is named with its place, in one line."""
    with pytest.raises(InputError, match=message) as caught:
        parse_graph_json(_changed(change), "g.graph.json")
    assert str(caught.value).startswith("g.graph.json: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("tensor", "op", "message"),
    [
        (
            {"alias_of": 0, "alias_offset": 32},
            {},
            "v ends 96 B from the start of x, which has 64 B; correct its alias_off",
        ),
        ({"size": 65, "alias_of": 0}, {}, "v ends 65 B from the start of x, which has 64 B"),
        ({"alias_offset": 8}, {}, "v has alias_offset and no alias_of"),
        ({}, {"labels": "n -> n"}, 'has labels, which dialect "labels" alone reads'),
        ({"alias_of": 0}, {"writes": [1]}, "writes over tensor 1, which it does not read"),
        ({"alias_of": 0}, {"writes": [0], "overwrites": [0]}, "has tensor 0 in writes and in overwrites; keep one"),
    ],
)
def test_what_cannot_be_meant_is_refused(tensor, op, message):
    """Nothing that an entry says is dropped, and no memory grows for an alias."""
    data = {
        "name": "g",
        "tensors": [
            {"id": 0, "size": 64, "kind": "input", "name": "x"},
            {"id": 1, "size": 64, "kind": "output", "name": "v"} | tensor,
        ],
        "ops": [{"id": 0, "inputs": [0], "outputs": [1]} | op],
    }
    with pytest.raises(InputError, match=message):
        parse_graph_json(json.dumps(data).encode())


@pytest.mark.parametrize("data", [b"", b"nonsense", b"[1, 2]", b'{"name": "\xff"}', b"[" * 100_000])
def test_what_is_no_json_is_refused(data):
    """Empty, text, another shape, bad UTF-8, absurd depth."""
    with pytest.raises(InputError):
        parse_graph_json(data, "g.graph.json")


def test_every_prefix_is_refused():
    """A file cut short is no graph."""
    data = json.dumps(GRAPH).encode()
    for size in range(len(data)):
        with pytest.raises(InputError):
            parse_graph_json(data[:size])


def test_unreadable_files(tmp_path):
    """A directory, a missing file."""
    folder = tmp_path / "folder.graph.json"
    folder.mkdir()
    for path in (folder, tmp_path / "missing.graph.json"):
        with pytest.raises(InputError, match="cannot read the file"):
            read_model(path)


@pytest.mark.parametrize("number", [-5, 2**63, 10**25])
def test_ids_that_no_plan_can_name_are_refused(number):
    """Negative ones, and those beyond 2^63 - 1; of tensors as of ops."""
    for change in ("tensor", "op"):
        data = {
            "name": "g",
            "tensors": [{"id": 0, "size": 1, "kind": "output"}],
            "ops": [{"id": 0, "inputs": [], "outputs": [0]}],
        }
        if change == "tensor":
            data["tensors"][0]["id"] = data["ops"][0]["outputs"][0] = number
        else:
            data["ops"][0]["id"] = number
        with pytest.raises(InputError, match=f"{change} id {number} is not from 0 to|>= 0 - at .*id`"):
            parse_graph_json(json.dumps(data).encode(), "g.graph.json")


def test_the_dialect_may_be_given():
    """Types of ops are nobody's unless the document says whose."""
    assert parse_graph_json(json.dumps(GRAPH).encode()).dialect == ""
    assert parse_graph_json(_changed(lambda g: g.update(dialect="aten"))).dialect == "aten"
    with pytest.raises(InputError, match="dialect"):
        parse_graph_json(_changed(lambda g: g.update(dialect="mlir")))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda g: g["tensors"][0].update(aliasof=3),
            r"'aliasof' in tensors\[0\]; did you mean alias_of",
        ),
        (lambda g: g["ops"][1].update(input=[3]), r"unknown key 'input' in ops\[1\]; did you mean inputs\?"),
        (lambda g: g.update(nodes=[]), r"unknown key 'nodes' in the graph; .*keys of your own begin with x_"),
        (lambda g: g.update(zzz=1), r"the graph has name, tensors, ops, version, dialect, source"),
        (lambda g: g.update(version=2), r"\$\.version"),
        (lambda g: g.update(x_a=1, tensors=7), r"Expected `array`, got `int` - at `\$\.tensors`"),
        (lambda g: g.update(x_a=1, ops=[7]), r"Expected `object`, got `int` - at `\$\.ops\[0\]`"),
        (lambda g: g["ops"][1].update(overwrites=[7]), "may overwrite tensor 7, which it does not read"),
        (lambda g: g["ops"][2].update(overwrites=[7]), r"may overwrite tensor 7 of 8 B with 4 B; sizes have to be"),
        (lambda g: g["ops"][1].update(outputs=[7, 5], overwrites=[10]), "has 2 outputs, and overwrites is for one"),
    ],
)
def test_keys_that_are_none_and_rights_that_cannot_be_are_named(change, message):
    """With what was probably meant."""
    with pytest.raises(InputError, match=message):
        parse_graph_json(_changed(change), "g.graph.json")


def test_keys_of_the_writers_own_mean_nothing():
    """They begin with x_, at every level; all else is read as without them."""

    def change(g):
        g.update(x_tool="mine", version=1)
        g["tensors"][0]["x_bank"] = 3
        g["ops"][0]["x_"] = {"aliasof": 1}

    own, plain = parse_graph_json(_changed(change)), parse_graph_json(json.dumps(GRAPH).encode())
    assert (own.tensors, own.ops, own.folded) == (plain.tensors, plain.ops, plain.folded)


def test_an_expanded_view_takes_no_memory_for_what_it_repeats():
    """Nor do views of it; a larger view that repeats nothing is an error, as the test before shows."""
    mask = {"alias_of": 0, "dtype": "float32"}
    tensors = [
        {"id": 0, "size": 64, "kind": "input", "shape": [4, 4]},
        {"id": 1, "size": 512, "kind": "activation", "shape": [8, 1, 4, 4]} | mask,
        {"id": 2, "size": 512, "kind": "output", "shape": [8, 16]} | mask | {"alias_of": 1},
    ]
    ops = [{"id": 0, "inputs": [0], "outputs": [1]}, {"id": 1, "inputs": [1], "outputs": [2]}]
    graph = parse_graph_json(json.dumps({"name": "g", "tensors": tensors, "ops": ops}).encode())
    assert [t.size for t in graph.tensors] == [64, 64, 64]
    assert lowtide.research.plan(graph, target="strict").peak_bytes == 64
    tensors[1]["shape"] = [4, 32]
    with pytest.raises(InputError, match="ends 512 B"):
        parse_graph_json(json.dumps({"name": "g", "tensors": tensors, "ops": ops}).encode())
