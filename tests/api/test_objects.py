"""Objects that are no models: one line says what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

import lowtide
from lowtide.errors import InputError

NET = type("Net", (type("Module", (), {"__module__": "torch.nn.modules.module"}),), {"__repr__": lambda _: "x" * 9000})


@pytest.mark.parametrize(("model", "words"), [(NET(), "torch.export.export("), (7, "a int is no model")])
@pytest.mark.parametrize("call", [lowtide.research.plan, lowtide.inspect, lowtide.research.compare, lowtide.load])
def test_an_object_is_answered_in_a_line(model: object, words: str, call) -> None:
    """With what makes a file of it, and without all that it prints of itself."""
    with pytest.raises(InputError) as caught:
        call(model)
    assert words in str(caught.value)
    assert len(str(caught.value)) < 300


def test_a_real_module_is_known() -> None:
    """By the name that its class has."""
    torch = pytest.importorskip("torch", reason="pip install '.[torch]'")
    with pytest.raises(InputError, match=r"a torch\.nn\.Module has no order yet"):
        lowtide.research.plan(torch.nn.Linear(2, 2))


def test_a_model_proto_is_saved_first() -> None:
    """Of whichever protobuf."""
    onnx = pytest.importorskip("onnx")
    with pytest.raises(InputError, match=r"onnx\.save"):
        lowtide.research.plan(onnx.ModelProto())


def test_files_of_torch_and_functions_that_return_modules(tmp_path: Path) -> None:
    """`.pt` and `.pth` hold weights or TorchScript; a user's function may return what is no model."""
    for name in ("m.pt", "m.PTH"):
        (tmp_path / name).write_bytes(b"")
        with pytest.raises(InputError, match="export the module"):
            lowtide.research.plan(tmp_path / name)
    (tmp_path / "net.py").write_text("def net():\n    return 3\n")
    with pytest.raises(InputError, match="returned int; return a Graph or a path"):
        lowtide.research.plan(f"{tmp_path / 'net.py'}:net")
