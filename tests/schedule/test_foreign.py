"""Methods of other packages: what they do wrong is said to be theirs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from typing import Any, ClassVar

import pytest

import lowtide
from lowtide.analyse.storage import MemoryModel
from lowtide.errors import InputError
from lowtide.extensions import METHODS
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.schedule.method import Schedule
from lowtide.stop import Limits


def raising() -> Schedule:
    """A mistake inside the method."""
    raise KeyError("lost\nin two lines")


ANSWERS: dict[str, Callable[[], Any]] = {
    "raises": raising,
    "none": lambda: None,
    "short": lambda: Schedule((0,)),
    "twice": lambda: Schedule((0, 0, 1)),
    "backwards": lambda: Schedule((1, 0, 2)),
    "words": lambda: Schedule(("a", "b", "c")),  # type: ignore[arg-type]
    "boastful": lambda: Schedule((0, 1, 2), lower_bound=10**9),
    "list": lambda: Schedule([0, 1, 2]),  # type: ignore[arg-type]
    "good": lambda: Schedule((0, 1, 2), lower_bound=1),
}


@dataclass(frozen=True)
class Elsewhere:
    """A method of another package that answers as it is told."""

    name: ClassVar[str] = "elsewhere"
    answer: str = "good"

    def supports(self, model: MemoryModel) -> str | None:
        """Every graph, if it does not fail."""
        if self.answer == "unsupported":
            raise ValueError("never heard of it")
        return None

    def schedule(self, model: MemoryModel, limits: Limits) -> Schedule:
        """The answer."""
        return ANSWERS[self.answer]()


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package is installed."""
    point = metadata.EntryPoint("elsewhere", f"{__name__}:Elsewhere", METHODS)
    monkeypatch.setattr(metadata, "entry_points", lambda *, group: [point] if group == METHODS else [])


def graph() -> Graph:
    """Three ops in a row."""
    tensors = (Tensor(0, 8, Kind.INPUT), Tensor(1, 8), Tensor(2, 8), Tensor(3, 8, Kind.OUTPUT))
    return Graph("row", tensors, (Op(0, (0,), (1,)), Op(1, (1,), (2,)), Op(2, (2,), (3,))), sha256="1" * 64)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ("raises", "failed: KeyError: 'lost"),
        ("unsupported", "failed: ValueError: never heard of it"),
        ("none", "returned no Schedule"),
        ("short", "returned an order that does not hold each of the 3 ops once"),
        ("twice", "returned an order that does not hold each of the 3 ops once"),
        ("backwards", "returned an order that runs op 1 before op 0, which it needs"),
        ("words", "returned an order or a bound that is no number"),
        ("boastful", "returned a lower bound of 1000000000 bytes, above the peak of its own order"),
    ],
)
def test_what_a_foreign_method_does_wrong_is_reported_in_one_line(answer: str, says: str) -> None:
    """By `plan` as by `compare`, with the method's name; it is no bug of lowtide's."""
    with pytest.raises(InputError) as caught:
        lowtide.research.plan(graph(), target="strict", method="elsewhere", options={"answer": answer})
    assert f"row: method elsewhere {says}" in str(caught.value)
    assert "\n" not in str(caught.value)
    [row] = lowtide.research.compare(
        graph(), target="strict", methods=["elsewhere"], options={"elsewhere": {"answer": answer}}
    )
    assert row.status == "error"
    assert says.removeprefix("failed: ") in (row.reason or "")


@pytest.mark.parametrize("answer", ["good", "list"])
def test_a_foreign_method_plans(answer: str) -> None:
    """A list of positions will do for an order."""
    plan = lowtide.research.plan(graph(), target="strict", method="elsewhere", options={"answer": answer})
    assert (plan.order, plan.peak_bytes, plan.method) == ([0, 1, 2], 16, "elsewhere")


@dataclass(frozen=True)
class Notebook(Elsewhere):
    """The same, in no package."""

    name: ClassVar[str] = "notebook"


def test_a_method_is_handed_over_as_an_object() -> None:
    """No package is needed: its row stands where it was named, checked as all are; so does its plan."""
    rows = lowtide.research.compare(graph(), ["own", Notebook(), "exact"])
    assert [(row.method, row.status, row.peak_bytes) for row in rows] == [
        (name, "ok", 16) for name in ("own", "notebook", "exact")
    ]
    plan = lowtide.research.plan(graph(), method=Notebook())
    assert (plan.method, plan.order) == ("notebook", [0, 1, 2])
    (row,) = lowtide.research.compare(graph(), [Notebook("backwards")])
    assert (row.status, "before op 0" in (row.reason or "")) == ("error", True)


def test_where_a_method_raised_is_said() -> None:
    """The line of its own code, in its row and by `plan`."""
    line = raising.__code__.co_firstlineno + 2
    (row,) = lowtide.research.compare(graph(), [Notebook("raises")])
    assert (row.reason or "").endswith(f"(test_foreign.py:{line})")
    with pytest.raises(InputError, match=f"test_foreign.py:{line}; use another one"):
        lowtide.research.plan(graph(), method=Notebook("raises"))


WRONG: dict[str, tuple[Callable[[], object], str]] = {
    "class": (
        lambda: lowtide.research.compare(graph(), [Notebook]),
        r"is the class Notebook; make one, as Notebook\(\)",
    ),  # type: ignore[list-item]
    "plan": (lambda: lowtide.research.plan(graph(), method=Notebook), r"is the class Notebook; make one"),  # type: ignore[arg-type]
    "none": (
        lambda: lowtide.research.compare(graph(), [3]),
        r"give a list of texts or methods \(name, supports, schedule\)",
    ),  # type: ignore[list-item]
    "options": (
        lambda: lowtide.research.plan(graph(), method=Notebook(), options={"answer": "good"}),
        "is made already",
    ),
    "of compare": (
        lambda: lowtide.research.compare(graph(), [Notebook()], options={"notebook": {"a": "b"}}),
        "is made already",
    ),
    "name": (
        lambda: lowtide.research.compare(graph(), [type("Own", (Notebook,), {"name": "own"})()]),
        "a method 'own' already",
    ),
    "spilling": (
        lambda: lowtide.research.compare(graph(), [Notebook()], memories=["fast=64"]),
        "methods that spill go by",
    ),
    "recompute": (
        lambda: lowtide.research.plan(graph(), method=Notebook(), allow="recompute", budget="90%"),
        "a published method of recomputation is given by its name",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_handed_over_wrongly_is_said(name: str) -> None:
    """In a line."""
    call, words = WRONG[name]
    with pytest.raises(InputError, match=words):
        call()
