"""Graph JSON out."""

import json
from dataclasses import replace

import pytest
from onnx import TensorProto

from lowtide.errors import InputError
from lowtide.read import read_model
from lowtide.read.graph_json import parse_graph_json
from lowtide.read.onnx.reader import read_onnx
from lowtide.write import write_model
from lowtide.write.graph_json import graph_json_bytes, write_graph_json
from support.graph_documents import GRAPH
from support.onnx_builder import graph as body_of
from support.onnx_builder import model, node, saved, value

WIDE = b"""{ "x_": [{"ops": [1, "]}"]}], "name":"g","tensors":[{"id":0,"size":1,"kind":"input"},
 {"id":1,"size":1,"kind":"output","x_note":"\\"ops\\": [ {"}, {"id":2,"size":1,"kind":"output"}],
 "\\u006fps" : [ {"id":5, "inputs":[0] ,"outputs":[1], "x_mine": {"deep": [[{}], "\\\\"]}},
\t{"outputs":[2],"inputs":[0],"id":6} ] , "x_ops2": [{"id": 1}], "x_tail": null}\n"""


def test_ops_move_and_every_other_byte_stays(tmp_path):
    """Unknown keys, odd spacing, escaped keys and strings that look like ops are untouched."""
    source, target = tmp_path / "a.graph.json", tmp_path / "b.graph.json"
    source.write_bytes(WIDE)
    write_model(source, [6, 5], target)
    first = b'{"id":5, "inputs":[0] ,"outputs":[1], "x_mine": {"deep": [[{}], "\\\\"]}}'
    second = b'{"outputs":[2],"inputs":[0],"id":6}'
    assert first in WIDE
    assert second in WIDE
    swapped = WIDE.replace(first, b"@").replace(second, first).replace(b"@", second)
    assert target.read_bytes() == swapped
    write_graph_json(target, [5, 6], tmp_path / "c.graph.json")
    assert (tmp_path / "c.graph.json").read_bytes() == WIDE


def test_folded_ops_keep_their_place(tmp_path):
    """A folded op stays before its consumer, in its slot."""
    source = tmp_path / "a.graph.json"
    source.write_text(json.dumps(GRAPH, indent=2))
    write_graph_json(source, [2, 1], tmp_path / "b.graph.json")
    assert (tmp_path / "b.graph.json").read_bytes() == source.read_bytes()
    with pytest.raises(InputError, match=r"puts op 1 .* before op 2"):
        write_graph_json(source, [1, 2], tmp_path / "b.graph.json")


def test_doubled_ops_and_wrong_targets_are_refused(tmp_path):
    """Two keys 'ops', the input as output, another format's ending."""
    source = tmp_path / "a.graph.json"
    source.write_text(json.dumps(GRAPH)[:-1] + ', "ops": ' + json.dumps(GRAPH["ops"]) + "}")
    with pytest.raises(InputError, match="'ops' is there 2 times"):
        write_graph_json(source, [2, 1], tmp_path / "b.graph.json")
    source.write_text(json.dumps(GRAPH))
    with pytest.raises(InputError, match="the output is the input"):
        write_graph_json(source, [2, 1], source)
    with pytest.raises(InputError, match=r"must end in \.json"):
        write_model(source, [2, 1], tmp_path / "b.onnx")
    assert [p.name for p in tmp_path.iterdir()] == ["a.graph.json"]


def test_a_graph_goes_out_and_comes_back():
    """Every field that graph JSON has survives, also in another order."""
    graph = parse_graph_json(json.dumps(GRAPH).encode())
    assert replace(parse_graph_json(graph_json_bytes(graph)), sha256=graph.sha256) == graph


def test_an_onnx_graph_as_graph_json(tmp_path):
    """Folded ops come in their place, other ops in the order asked for."""
    made = model(
        [node("Relu", "x", "a"), node("Constant", "", "k", value_floats=[1.0] * 4), node("Exp", "x", "b"),
         node("Sum", "a b k", "z")],
        [value("x")],
        [value("z")],
    )  # fmt: skip
    graph = read_onnx(saved(made, tmp_path))
    (tmp_path / "g.graph.json").write_bytes(graph_json_bytes(graph, [2, 0, 3]))
    assert [op["id"] for op in json.loads((tmp_path / "g.graph.json").read_bytes())["ops"]] == [2, 1, 0, 3]
    again = read_model(tmp_path / "g.graph.json")
    assert again.own_order == (2, 0, 3)
    assert again.tensors == tuple(replace(t, value=None) for t in graph.tensors)


def test_bodies_go_out_as_the_workspace_that_they_need_under_strict(tmp_path):
    """Graph JSON has no bodies; a plan of it must not be smaller for that."""
    then = body_of([node("Neg", "x", "a"), node("Exp", "a", "t")], [], [value("t", (8,))])
    made = model(
        [node("If", "c", "z", then_branch=then, else_branch=then)],
        [value("c", (), TensorProto.BOOL), value("x", (8,))],
        [value("z", (8,))],
    )
    again = parse_graph_json(graph_json_bytes(read_onnx(saved(made, tmp_path))))
    assert again.ops[0].workspace == 64
