"""torch.export archives for tests, built without torch: a zip with one JSON document and a few other members."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

Json = dict[str, Any]


def tensor(name: str) -> Json:
    """An argument that is a tensor."""
    return {"as_tensor": {"name": name}}


def symbol(expression: str, hint: int) -> Json:
    """A size over symbols."""
    return {"as_expr": {"expr_str": expression, "hint": {"as_int": hint}}}


def meta(
    shape: Sequence[int | Json], strides: Sequence[int | Json] | None = None, offset: int = 0, dtype: int = 7
) -> Json:
    """Type, shape and strides of a tensor; row-major if no strides are given."""
    if strides is None:
        filled: list[int | Json] = [1]
        for n in reversed([n if isinstance(n, int) else 1 for n in shape[1:]]):
            filled.insert(0, int(filled[0]) * n)  # type: ignore[arg-type]
        strides = filled[: len(shape)] if shape else []
    sized = [n if isinstance(n, dict) else {"as_int": n} for n in shape]
    stepped = [n if isinstance(n, dict) else {"as_int": n} for n in strides]
    return {
        "dtype": dtype, "sizes": sized, "requires_grad": False, "device": {"type": "cpu", "index": None},
        "strides": stepped, "storage_offset": {"as_int": offset}, "layout": 7,
    }  # fmt: skip


def call(target: str, reads: Iterable[str | Json], makes: Sequence[str] | Json, **more: Json) -> Json:
    """A node; several outputs are one list argument if `makes` is such an argument."""
    arguments = [tensor(r) if isinstance(r, str) else r for r in reads]
    inputs = [{"name": f"a{i}", "arg": a, "kind": 1} for i, a in enumerate(arguments)]
    inputs += [{"name": name, "arg": a, "kind": 2} for name, a in more.items()]
    outputs = [makes] if isinstance(makes, dict) else [tensor(name) for name in makes]
    return {
        "target": target if "." in target and target.startswith(("torch", "_op")) else f"torch.ops.aten.{target}",
        "inputs": inputs, "outputs": outputs, "metadata": {"note": "kept, with \"quotes\" and [brackets]"},
        "is_hop_single_tensor_return": None, "name": None,
    }  # fmt: skip


def document(
    nodes: Sequence[Json],
    inputs: Sequence[str],
    outputs: Sequence[str],
    metas: Mapping[str, Json],
    weights: Sequence[str] = (),
) -> Json:
    """A program."""
    specs = [{"parameter": {"arg": {"name": w}, "parameter_name": w}} for w in weights]
    specs += [{"user_input": {"arg": tensor(name)}} for name in inputs]
    graph = {
        "inputs": [tensor(name) for name in (*weights, *inputs)], "outputs": [tensor(name) for name in outputs],
        "nodes": list(nodes), "tensor_values": dict(metas), "sym_int_values": {}, "sym_bool_values": {},
        "is_single_tensor_return": False, "custom_obj_values": {}, "sym_float_values": {},
    }  # fmt: skip
    signature = {"input_specs": specs, "output_specs": [{"user_output": {"arg": tensor(name)}} for name in outputs]}
    module = {"graph": graph, "signature": signature, "module_call_graph": [], "metadata": {}}
    return {"graph_module": module, "opset_version": {"aten": 10}, "schema_version": {"major": 8, "minor": 20}}


def archive(path: Path, program: Json | bytes, compression: int = zipfile.ZIP_STORED) -> Path:
    """Write the archive; `program` is the document or its bytes."""
    with zipfile.ZipFile(path, "w", compression) as file:
        file.writestr("m/data/weights/weight_0", b"\0" * 100)
        file.writestr("m/models/model.json", program if isinstance(program, bytes) else json.dumps(program))
        file.writestr("m/archive_version", b"0")
    return path


def branches(count: int = 3, relu: str = "relu.default") -> Json:
    """x -> `count` wide tensors, written breadth-first, each shrunk to a narrow one; their sum is the output."""
    metas = {"x": meta([1, 4, 8]), "w": meta([64, 4])}
    wide, thin = [f"wide{i}" for i in range(count)], [f"thin{i}" for i in range(count)]
    nodes = [call("linear.default", ["x", "w"], [f"pre{i}"]) for i in range(count)]
    nodes += [call(relu, [f"pre{i}"], [wide[i]]) for i in range(count)]
    nodes += [call("sum.dim_IntList", [wide[i]], [thin[i]]) for i in range(count)]
    at = thin[0]
    for i in range(1, count):
        nodes.append(call("add.Tensor", [at, thin[i]], [f"s{i}"]))
        at = f"s{i}"
    for i in range(count):
        metas |= {f"pre{i}": meta([1, 64, 8]), wide[i]: meta([1, 64, 8]), thin[i]: meta([1, 8]), f"s{i}": meta([1, 8])}
    return document(nodes, ["x"], [at], metas, ["w"])
