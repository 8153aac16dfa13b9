"""What other packages add to lowtide: entry points, by group and name.

lowtide works without any of them. What the package lowtide-research adds has its names in `RESEARCH`, so that a message
can say where it comes from. Nothing here imports another package by name.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from lowtide.errors import InputError

if TYPE_CHECKING:
    from importlib import metadata

METHODS = "lowtide.methods"
SPILL_METHODS = "lowtide.spill_methods"
RECOMPUTE_METHODS = "lowtide.recompute_methods"
NETWORKS = "lowtide.networks"
"""Of its entry point ``zoo``, the module: ``names()``, ``network(name)``, ``build(name)``, ``printed_figures(...)``."""
COMMANDS = "lowtide.commands"  # functions that give a command's parser its arguments, by the command's name

RESEARCH: Mapping[str, Collection[str]] = {
    METHODS: ("cosma-peak", "hmcos", "serenity", "zhong"),
    SPILL_METHODS: ("belady", "cosma", "cosma-dnc", "cosma-fs", "greedy-spill"),
    RECOMPUTE_METHODS: ("checkmate", "chen", "dtr", "fastsa", "magis", "moccasin", "torchtitan"),
    NETWORKS: ("zoo",),
    COMMANDS: ("bench", "reproduce"),
}
"""Names of the entry points of lowtide-research, for messages alone."""


class MissingResearchError(InputError):
    """What was requested is in the package lowtide-research, which is not installed."""

    def __init__(self, wanted: str) -> None:
        self._wanted = wanted
        super().__init__(
            f"{wanted} needs the package lowtide-research: in a clone of lowtide, pip install ./packages/research"
        )

    def __reduce__(self) -> tuple[type[MissingResearchError], tuple[str]]:
        return type(self), (self._wanted,)


def entry_points(group: str) -> list[metadata.EntryPoint]:
    """Entry points of a group, by name."""
    from importlib import metadata  # slow to load, and most calls need none

    return _find_points(metadata.entry_points, group, tuple(sys.path))


@cache
def _find_points(find: Callable[..., Any], group: str, _: tuple[str, ...]) -> list[metadata.EntryPoint]:
    """The same, looked for once on each path: that reads a file of each installed package."""
    return sorted(find(group=group), key=lambda point: (point.name, point.value))


def extension(group: str, name: str) -> Any:
    """What an entry point of a group loads; None if no installed package has one of that name."""
    return next((point.load() for point in entry_points(group) if point.name == name), None)


def networks(wanted: str) -> Any:
    """The zoo of networks; `wanted` is what a message calls the thing that needs it, for example ``zoo:unet``. Raises
    `MissingResearchError`: no installed package brings networks."""
    zoo = extension(NETWORKS, "zoo")
    if zoo is None:
        raise MissingResearchError(wanted)
    return zoo


def methods_of(group: str, own: Mapping[str, type], calls: Sequence[str]) -> dict[str, type]:
    """Methods by name: lowtide's own, then those of installed packages, by entry point name. An entry point that
    cannot be loaded, is no method (a dataclass with a name and the methods `calls`), or has the name of another
    method is left out with a warning."""
    methods_by_name = dict(own)
    for point in entry_points(group):
        try:
            method = point.load()
        except Exception as error:  # it is another package's import
            _leave_out(point, f"it cannot be loaded: {type(error).__name__}: {error}")
            continue
        name = getattr(method, "name", None)
        if not (is_dataclass(method) and isinstance(method, type) and isinstance(name, str)):
            _leave_out(point, "it is no dataclass with a name; write @dataclass(frozen=True) and name: ClassVar[str]")
        elif not all(callable(getattr(method, call, None)) for call in calls):
            _leave_out(point, f"it lacks {' or '.join(f'{call}()' for call in calls)}")
        elif name in methods_by_name:
            _leave_out(point, f"there is a method {name!r} already")
        else:
            methods_by_name[name] = method
    return methods_by_name


def check_installed(group: str, name: str, methods: Collection[str]) -> None:
    """Raise `MissingResearchError` if a method is not among `methods`, and is one of lowtide-research's."""
    if name not in methods and name in RESEARCH[group]:
        raise MissingResearchError(f"method {name}")


def _leave_out(point: metadata.EntryPoint, why: str) -> None:
    text = f"method {point.name!r} ({point.value}, entry point group {point.group}) is left out: {why}"
    reported = globals().setdefault("__warningregistry__", {})  # each warning once in a process
    warnings.warn_explicit(" ".join(text.split()), UserWarning, __file__, 1, registry=reported)
