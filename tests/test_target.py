"""Targets: what each rule answers, TOML both ways, and what is refused."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import pairwise
from pathlib import Path

import pytest

from lowtide.errors import InputError
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.report.text import target_text
from lowtide.target import BUILT_IN, Target, read_toml, resolve, to_toml
from lowtide.toml_fields import toml_text


def _pair(kind: str, size: int = 8, shape: tuple[int, ...] | None = None, **attributes: object) -> tuple[Graph, Op]:
    """x of 8 bytes, and one op of this kind that makes y of `size` bytes."""
    op = Op(0, (0,), (1,), "op", kind, attributes=attributes)
    tensors = (Tensor(0, 8, Kind.INPUT, "x", (2,)), Tensor(1, size, Kind.OUTPUT, "y", shape))
    return Graph("g", tensors, (op,)), op


@pytest.mark.parametrize("name", BUILT_IN)
def test_toml_is_read_back(tmp_path: Path, name: str):
    """What `lowtide research target NAME` prints is that target, under its file's name unless it says its own."""
    path = tmp_path / "mine.toml"
    path.write_text(to_toml(BUILT_IN[name]))
    assert read_toml(path) == BUILT_IN[name]


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_key_is_explained_where_it_is_printed(tmp_path: Path, name: str):
    """`lowtide research target NAME` says what a key means and takes, as comments that reading back skips."""
    text = target_text(BUILT_IN[name])
    path = tmp_path / "mine.toml"
    path.write_text(text)
    assert read_toml(path) == BUILT_IN[name]
    lines = text.splitlines()
    bare = [line for above, line in pairwise(lines) if " = " in line and not above.startswith("#")]
    assert [line.partition(" = ")[0] for line in bare if not line.startswith("#")] == ["elementwise_types"]
    assert '# "never"; "first": only over the first non-constant input of equal byte size' in text
    assert 'counted: "never"; "while_used": while an op that reads them runs; or "always".' in text


def test_toml_changes_single_fields(tmp_path: Path):
    """Starting from a built-in one; names with quotes survive."""
    path = tmp_path / "mine.toml"
    path.write_text('base = "generic"\nalignment = 16\npersistent = [' + toml_text('a"\\b\n') + "]\n")
    assert read_toml(path) == replace(BUILT_IN["generic"], name="mine", alignment=16, persistent=('a"\\b\n',))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("alignment = 3", "use a power of two"),
        ("alignment = true", "alignment is 'True'; it must be a whole number"),
        ('in_place = "maybe"', "in_place is 'maybe'; use one of never, first, any"),
        ('overlap = "x"', "overlap is 'x'; use one of"),
        ('constants = "x"', "constants is 'x'; use one of"),
        ('rule = "x"', "rule is 'x'; use one of"),
        ('kernels = "x"', "kernels is 'x'; use one of"),
        ('kernels = "esp_nn"', "which rule tflm alone knows"),
        ('fixed = ["x"]', "fixed has 'x'; write TENSOR=OFFSET"),
        ('rule = "tflm"\nfixed = ["x=0"]', "fix none"),
        ("view_types = [1]", "must be a list of texts"),
        ("colour = 1", "unknown key 'colour'"),
        ('base = "x"', "base is 'x'"),
        ("= 1", "not a TOML file"),
    ],
)
def test_a_wrong_file_is_named(tmp_path: Path, text: str, words: str):
    """And what is wrong in it, with what to write instead."""
    path = tmp_path / "t.toml"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        read_toml(path)
    assert str(error.value).startswith(f"{path}: ")
    assert words in str(error.value)


def test_auto_goes_by_the_file():
    """Capitals do not matter; everything else is generic. TFLM is that of microcontrollers."""
    names = {source: resolve("auto", source=source).name for source in ("a.TFLITE", "a.pt2", "a.onnx", "", "tflite")}
    assert names == {
        "a.TFLITE": "tflm,pointer=32",
        "a.pt2": "torch",
        "a.onnx": "generic",
        "": "generic",
        "tflite": "generic",
    }


def test_fields_follow_a_name():
    """They are part of the target's name, and typed as the field is."""
    target = resolve("tflm,kernels=cmsis_nn,alignment=32,keep_inputs=true")
    assert (target.name, target.kernels) == ("tflm,kernels=cmsis_nn,alignment=32,keep_inputs=true", "cmsis_nn")
    assert (target.alignment, target.keep_inputs, target.tflm_rule.kernels) == (32, True, "cmsis_nn")
    for wrong in ("alignment=x", "keep_inputs=1", "persistent=x", "name=x", "alignment"):
        with pytest.raises(InputError, match=wrong.partition("=")[0]):
            resolve(f"tflm,{wrong}")
    with pytest.raises(InputError, match="there is no target 'nope'"):
        resolve("nope")


def test_inputs_are_overwritten_or_pinned_not_both():
    """And neither where they are the caller's."""
    assert resolve("tflite", overwrite_inputs=True).keep_inputs is False
    assert resolve("strict", pin_inputs=True).overwrite_inputs is False
    with pytest.raises(InputError, match="both overwritten and pinned"):
        resolve("strict", overwrite_inputs=True, pin_inputs=True)
    with pytest.raises(InputError, match="the caller's"):
        resolve("torch", pin_inputs=True)


def test_what_is_asked_adds_to_the_target():
    """Names twice count once; a fixed offset replaces an older one of the same tensor."""
    base = replace(BUILT_IN["strict"], persistent=("a",), fixed=("a=0", "b=8"))
    target = resolve(base, persistent=("a", "c"), double_buffered=("d",), fixed={"a": 16})
    assert (target.persistent, target.double_buffered, target.fixed) == (("a", "c"), ("d",), ("b=8", "a=16"))
    tensors = {name: Tensor(0, 8, name=name) for name in "abcde"}
    assert {name: target.copies(t) for name, t in tensors.items()} == {"a": 1, "b": 0, "c": 1, "d": 2, "e": 0}
    assert {name: target.offset(t) for name, t in tensors.items()} == {"a": 16, "b": 8, "c": None, "d": None, "e": None}


def test_views_share_and_training_does_not():
    """Equal bytes only; a dropout that trains is no view."""
    generic = BUILT_IN["generic"]
    assert generic.view_source(*_pair("Reshape")) == 0
    assert generic.view_source(*_pair("Reshape", size=4)) is None
    assert generic.view_source(*_pair("Dropout", training_mode=1)) is None
    assert generic.view_source(*_pair("Mine")) is None
    assert replace(generic, view_types=("Mine",)).view_source(*_pair("Mine")) == 0
    assert BUILT_IN["strict"].view_source(*_pair("Reshape")) is None


def test_in_place_needs_equal_bytes_and_no_broadcast():
    """By the table, or by the user's own list of types; a fixed output is written over nothing."""
    generic = BUILT_IN["generic"]
    assert generic.in_place_inputs(*_pair("Relu")) == (0,)
    assert generic.in_place_inputs(*_pair("Relu", size=4)) == ()
    assert generic.in_place_inputs(*_pair("Relu", shape=(1,))) == ()
    assert generic.in_place_inputs(*_pair("Relu", shape=(1, 2))) == (0,)
    assert generic.in_place_inputs(*_pair("Softmax")) == ()
    assert generic.in_place_inputs(*_pair("BatchNormalization")) == (0,)
    assert generic.in_place_inputs(*_pair("BatchNormalization", training_mode=1)) == ()
    assert replace(generic, elementwise_types=("Mine",)).in_place_inputs(*_pair("Mine")) == (0,)
    assert replace(generic, fixed=("y=0",)).in_place_inputs(*_pair("Relu")) == ()
    assert BUILT_IN["hmcos"].in_place_inputs(*_pair("Reshape")) == (0,)


def test_every_field_is_documented():
    """In the class's docstring, which is what a person reads who writes a TOML file."""
    assert Target.__doc__ is not None
    for field in fields(Target):
        assert field.name in Target.__doc__, field.name
