"""Wrong types: every argument of every public call, and the one place that looks at them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from inspect import isfunction, signature
from typing import Any

import numpy as np
import pytest

import lowtide
import lowtide.torch
from lowtide import Graph, InputError, Kind, Op, Tensor
from lowtide.arguments import Batch, check, typed
from lowtide.sizes import Dims, Size

CANDIDATES: dict[str, Any] = {
    "object": object(), "whole": 5, "number": 2.5, "text": "text", "None": None, "truth": True, "bytes": b"x",
    "texts": ["x"], "numbers": [0.5], "wholes": [3], "objects": [object(), object()],
    "sizes": {"a": 5}, "by number": {5: 5},
}  # fmt: skip
LISTS = {"texts", "numbers", "wholes", "objects"}
CLASSES = ("Graph", "Plan", "Target", "BufferFile", "Problem", "CostFile", "Step", "StepPlan", "Costs")
TAKES: dict[str, set[str]] = {
    **{name: set[str]() for name in CLASSES},
    "None": {"None"},
    "str": {"text"},
    "int": {"whole"},
    "float": {"whole", "number"},
    "bool": {"truth"},
    "Path": set(),
    "Size": {"whole", "number", "text", "truth"},  # of which `lowtide.sizes.parse_size` says more
    "Level": {"text"},
    "Model": {"text"},
    "Exported": set(),
    "Module": set(),
    "Any": {*CANDIDATES},
    "Method": set(),
    "NodeReport": set(),
    "Callable": set(),
    "Sequence[str]": {"texts"},
    "Sequence[str | Method]": {"texts"},
    "Sequence[int]": {"wholes"},
    "Sequence[float]": {"wholes", "numbers"},
    "Sequence[Any]": LISTS,
    "Example": LISTS,
    "Batch": {*LISTS, "sizes", "by number"},
    "Sequence[str | Path]": {"texts"},
    "Sequence[str | int | None]": {"texts", "wholes"},
    "Sequence[Model]": {"texts"},
    "Sequence[Buffer]": set(),
    "list[Progress]": set(),
    "Dims": {"sizes"},
    "Options": set(),
    "StepOptions": set(),
    "Banks": {"texts", "sizes"},
    "Memories": {"texts", "sizes"},
    "Places": set(),
    "Mapping[str, int]": {"sizes"},
    "Mapping[str, Options]": set(),
    "Mapping[str, Sequence[int]]": set(),
    "Mapping[str, Sequence[Any]]": set(),
}
"""Types in signatures, and the candidates that are of them. A signature with a type that is not here has to be thought
of, and so has `lowtide.arguments`."""


def calls() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Every public function, by its name."""
    for room in (lowtide, lowtide.torch):
        for name in room.__all__:
            if isfunction(getattr(room, name)):
                yield f"{room.__name__}.{name}", getattr(room, name)


def options(annotation: str) -> list[str]:
    """The types of a union.

    >>> options("Sequence[str | int] | None")
    ['Sequence[str | int]', 'None']
    """
    return [re.sub(r"^Callable\[.*", "Callable", part) for part in re.split(r" \| (?![^\[]*\])", annotation)]


PARAMETERS = [
    (name, parameter.name, str(parameter.annotation))
    for name, call in calls()
    for parameter in signature(call).parameters.values()
    if parameter.kind is not parameter.VAR_KEYWORD  # handed on to `plan`
]


@cache
def a_plan() -> lowtide.Plan:
    """Some plan."""
    return lowtide.research.plan("zoo:swiftnet_cell_a", method="own", time=5.0)


REQUIRED: dict[str, Callable[[], Any]] = {
    "model": lambda: "zoo:swiftnet_cell_a",
    "models": lambda: ["zoo:swiftnet_cell_a"],
    "plan": a_plan,
    "planned": lambda: None,
    "buffers": lambda: "buffers.csv",
    "out": lambda: "out.onnx",
    "folder": lambda: "folder",
    "name": lambda: "rp2040",
    "kind": lambda: "graph",
    "sizes": lambda: {"n": [1, 2]},
    "loss_fn": lambda: None,
    "example": lambda: (),
    "step": lambda: object.__new__(lowtide.torch.Step),
    "budget": lambda: "1GiB",
}


@pytest.mark.parametrize(("call", "parameter", "annotation"), PARAMETERS, ids=lambda v: str(v))
def test_a_wrong_type_is_said(call: str, parameter: str, annotation: str) -> None:
    """In one line of lowtide's own error, with the argument's name; before anything is read or written."""
    function = dict(calls())[call]
    takes = set[str]().union(*(TAKES[option] for option in options(annotation)))
    others = {
        p.name: REQUIRED[p.name]()
        for p in signature(function).parameters.values()
        if (p.default is p.empty or p.name == "budget") and p.kind is not p.VAR_KEYWORD and p.name != parameter
    }
    few = LISTS - {"objects"} if annotation == "Sequence[Model]" else set[str]()  # of one model
    wrong = {name: value for name, value in CANDIDATES.items() if name not in takes | few}
    for value in wrong.values():
        with pytest.raises(InputError) as caught:
            function(**others, **{parameter: value})
        words = str(caught.value)
        assert parameter.removesuffix("s") in words, words
        assert "give" in words, words
        assert len(words) < 300
    assert wrong or annotation == "Any"


def test_what_is_of_a_type_goes_through() -> None:
    """Numbers of numpy's, lists of any kind, and what can be gone through only once, which is left as it is."""
    once = iter(["a"])
    for value, annotation in (
        (np.int64(3), "int"), (np.float32(3), "float"), (np.bool_(True), "bool"), (("a",), "Sequence[str]"),
        ({"a": 1}.keys(), "Sequence[str]"), (np.linspace(0, 1, 3), "str | float | Sequence[float]"),
        (once, "Sequence[str]"), ({"n": 3, "x": [1, 2]}, "Dims"), (len, "Callable[[str], int] | None"),
    ):  # fmt: skip
        check("value", value, annotation)
    assert list(once) == ["a"]


@pytest.mark.parametrize(
    ("value", "annotation", "words"),
    [
        ("3", "float", "x is '3' (str); give a number"),
        (None, "Plan", "x is None; give a lowtide.Plan"),
        ([3], "Sequence[str | Path] | None", "x is [3] (list); give a list of texts or paths or None"),
        (object(), "str | int", "x is of type object; give text or a whole number"),
        ("y" * 99, "Mapping[str, int]", "x is of type str; give a dict of text to a whole number"),
        (
            {"n": "3"},
            "Dims",
            "x is {'n': '3'} (dict); give a dict of text to a whole number or a list of whole numbers",
        ),
        ("abc", "Sequence[str]", "x is 'abc' (str); give a list of texts"),
        (np.array(0.5), "Sequence[float]", "x is array(0.5) (ndarray); give a list of numbers"),
        ({}, "Example | None", "x is {} (dict); give a tuple of what a call takes, as (x, y) or (x,) or None"),
    ],
)
def test_the_words(value: object, annotation: str, words: str) -> None:
    """What came, and what is wanted."""
    with pytest.raises(InputError) as caught:
        check("x", value, annotation)
    assert str(caught.value) == words


def test_a_type_that_nobody_knows_is_a_mistake_of_ours() -> None:
    """Said when the call is made, whatever it is given."""

    @typed
    def call(x: Unheard) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(KeyError, match="Unheard"):
        call(3)


def test_pythons_own_errors_stay() -> None:
    """An argument that there is none of, or one too few, is as for every function, with the one that was meant."""
    more: dict[str, Any] = {"buget": 3}
    with pytest.raises(TypeError, match=r"plan\(\) got an unexpected keyword argument 'buget'; did you mean budget\?"):
        lowtide.research.plan("zoo:swiftnet_cell_a", **more)
    with pytest.raises(TypeError, match=r"plan\(\) .* 'gapp'; did you mean gap\?"):  # handed on
        lowtide.check("zoo:swiftnet_cell_a", "1MiB", gapp=3)
    with pytest.raises(TypeError, match="model"):
        lowtide.research.plan()  # type: ignore[call-arg]


def test_short_names_of_types_are_what_they_stand_for() -> None:
    """The table's text of an alias is the alias."""
    from lowtide import arguments
    from lowtide.allocate.banks.places import Banks, Places
    from lowtide.api.job import Options
    from lowtide.spill.words import Memories

    space = {"Mapping": Mapping, "Sequence": Sequence}
    for name, alias in {
        "Dims": Dims,
        "Banks": Banks,
        "Places": Places,
        "Options": Options,
        "Memories": Memories,
    }.items():
        assert eval(arguments._SHORT[name], space) == alias
    assert Size == str | int


IN, OUT = Tensor(0, 4, Kind.INPUT), Tensor(1, 4, Kind.OUTPUT)


def graph(tensors: Any = (IN, OUT), ops: Any = ()) -> Graph:
    """A graph of what a type checker would not let through."""
    return Graph("g", tensors, ops)


def anything(kind: Callable[..., Any], *fields: Any) -> Any:
    """The same of a tensor or an op."""
    return kind(*fields)


WRONG_GRAPHS: dict[str, tuple[Callable[[], object], str]] = {
    "tensors": (lambda: graph(5), "g: tensors is 5 (int); give a list of lowtide.Tensors"),
    "elements": (lambda: graph((1,)), "g: tensors is (1,) (tuple); give a list of lowtide.Tensors"),
    "size": (lambda: graph([anything(Tensor, 0, 4.0)]), "g: tensor 0: size is 4.0 (float); give a whole number"),
    "kind": (
        lambda: graph([anything(Tensor, 0, 4, "input")]),
        "g: tensor 0 has kind 'input'; give a lowtide.Kind, as Kind.INPUT",
    ),
    "inputs": (
        lambda: graph(ops=[anything(Op, 0, 0, (1,))]),
        "g: op 0: inputs is 0 (int); give a list of whole numbers",
    ),
    "id": (lambda: graph(ops=[anything(Op, "a", (0,), (1,))]), "g: op a: id is 'a' (str); give a whole number"),
    "target": (
        lambda: anything(lowtide.Target, "t", True, 5),
        "t: in_place is 5 (int); give text",
    ),
}


@pytest.mark.parametrize("name", WRONG_GRAPHS)
def test_objects_say_which_field_is_wrong(name: str) -> None:
    """A graph of one's own that cannot be one, and a target."""
    build, words = WRONG_GRAPHS[name]
    with pytest.raises(InputError) as caught:
        build()
    assert str(caught.value) == words


def test_a_graph_takes_lists_and_generators() -> None:
    """And has tuples of them."""
    assert graph((t for t in (IN, OUT)), [Op(0, (0,), (1,))]) == Graph("g", (IN, OUT), (Op(0, (0,), (1,)),))


@pytest.mark.parametrize("path", [5, None])
def test_an_output_is_a_path(path: Any) -> None:
    """Of methods too; 5 is no file descriptor here."""
    with pytest.raises(InputError, match=r"the output is (5 \(int\)|None); give text or a path"):
        a_plan().save(path)


def test_a_batch_that_is_not_one_tuple_is_explained() -> None:
    """``step(model, x, y)`` gave the second to the next parameter."""

    @typed
    def step(model: str, example: Batch, *, budget: Size | None = None) -> None:
        """Take a batch."""

    step("net", (1, 2))
    with pytest.raises(TypeError, match=r"give the batch as one tuple: \(x, y\)"):
        step("net", [1], [2])
