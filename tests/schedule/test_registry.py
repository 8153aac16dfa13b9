import warnings
from dataclasses import dataclass
from importlib import metadata
from typing import ClassVar, Literal

import pytest

from lowtide import extensions
from lowtide.analyse.storage import MemoryModel
from lowtide.errors import InputError
from lowtide.schedule import registry
from lowtide.schedule.foreign import Foreign
from lowtide.schedule.method import Schedule
from lowtide.schedule.order import Kahn
from lowtide.stop import Limits

NAMES = ["own", "rpo", "kahn", "dfs", "bfs", "lpmf", "greedy", "exact"]


@dataclass(frozen=True)
class Reverse:
    """A method from elsewhere, with an option of each type."""

    name: ClassVar[str] = "reverse"
    depth: int = 3
    factor: float = 0.5
    loud: bool = False
    label: str = "x"
    order: Literal["own", "exact"] = "own"

    def supports(self, model: MemoryModel) -> str | None:
        """Every graph."""
        return None

    def schedule(self, model: MemoryModel, limits: Limits) -> Schedule:
        """Give no order."""
        return Schedule(())


@dataclass(frozen=True)
class Thief(Reverse):
    """Takes the name of a method that is there already."""

    name: ClassVar[str] = "kahn"


NOT_A_METHOD = object()


@pytest.fixture
def points(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Entry points of the group, as name = value lines to be filled in by the test."""
    lines: list[str] = []

    def entry_points(*, group: str) -> list[metadata.EntryPoint]:
        assert group == extensions.METHODS
        return [metadata.EntryPoint(*(part.strip() for part in line.split("=")), group) for line in lines]  # type: ignore[call-arg]

    monkeypatch.setattr(metadata, "entry_points", entry_points)
    return lines


def test_methods_come_in_a_fixed_order(points: list[str]) -> None:
    """The built-in methods are listed in the order of the documentation."""
    assert list(registry.methods()) == NAMES
    assert all(cls.name == name for name, cls in registry.methods().items())


def test_an_entry_point_adds_a_method(points: list[str]) -> None:
    """A method from another package comes after the built-in ones and can be made with options."""
    points.append(f"reverse = {__name__}:Reverse")
    assert list(registry.methods()) == [*NAMES, "reverse"]
    made = registry.make("reverse", {"depth": "7", "factor": "1e-3", "loud": "yes", "label": "a=b", "order": "exact"})
    assert made == Foreign(Reverse(7, 0.001, True, "a=b", "exact"))


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("no_such_module:Thing", "cannot be loaded"),
        (f"{__name__}:NoSuchName", "cannot be loaded"),
        (f"{__name__}:NOT_A_METHOD", "no dataclass"),
        (f"{__name__}:Thief", "already"),
    ],
)
def test_a_broken_entry_point_is_one_warning(points: list[str], value: str, reason: str) -> None:
    """The rest still works, and the warning names the entry point in one line."""
    points.append(f"broken = {value}")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert list(registry.methods()) == NAMES
    [warning] = caught
    text = str(warning.message)
    assert reason in text
    assert value in text
    assert "\n" not in text


def test_make_gives_a_plain_method(points: list[str]) -> None:
    """A built-in method is found without loading entry points."""
    points.append("broken = no_such_module:Thing")
    assert registry.make("kahn") == Kahn()


def test_make_names_the_methods_there_are(points: list[str]) -> None:
    """An unknown method is refused with the list of the known ones."""
    with pytest.raises(
        InputError,
        match="no method 'fastest'; use one of own, rpo, kahn, dfs, bfs, lpmf, greedy, exact",
    ):
        registry.make("fastest")


def test_make_names_the_options_there_are(points: list[str]) -> None:
    """An unknown option is refused with the list of the method's own."""
    points.append(f"reverse = {__name__}:Reverse")
    with pytest.raises(
        InputError, match=r"reverse has no option 'width'; its options: depth \(a whole number, default 3\)"
    ):
        registry.make("reverse", {"width": "3"})
    with pytest.raises(InputError, match="kahn has no option 'width'; its options: none"):
        registry.make("kahn", {"width": "3"})


@pytest.mark.parametrize(
    ("option", "text", "wanted"),
    [
        ("depth", "3.5", "a whole number"),
        ("depth", "", "a whole number"),
        ("factor", "half", "a number"),
        ("loud", "maybe", "true or false"),
        ("order", "other", "own or exact"),
    ],
)
def test_make_refuses_values_of_the_wrong_type(points: list[str], option: str, text: str, wanted: str) -> None:
    """The message says the option, what was given and what it takes."""
    points.append(f"reverse = {__name__}:Reverse")
    with pytest.raises(InputError, match=f"reverse.{option} is '{text}'; it takes {wanted}"):
        registry.make("reverse", {option: text})


@pytest.mark.parametrize(
    ("method", "option", "text"),
    [
        ("exact", "first_slice", "0"),
        ("exact", "first_slice", "99999999999999999999"),
        ("serenity", "step_limit", "0"),
        ("zhong", "bound", "0"),
        ("zhong", "parts", "-1"),
        ("zhong", "part_nodes", "0"),
        ("zhong", "part_variables", "-1"),
        ("zhong", "imbalance", "nan"),
        ("zhong", "ilp_seconds", "inf"),
    ],
)
def test_numbers_that_mean_nothing_are_refused(method: str, option: str, text: str) -> None:
    """Before anything runs, with the option's name and what it takes."""
    with pytest.raises(InputError, match=rf"{method}\.{option} is .*; take "):
        registry.make(method, {option: text})
