"""One function for each command, each a recipe of the steps in which data flows.

The names of `public` are here too, imported when the first of them is used: a command waits for what it needs alone.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lowtide.api.public import *  # noqa: F403


def __getattr__(name: str) -> object:
    if name != "public" and not name.startswith("__"):  # what an import of a module asks for first
        public = import_module("lowtide.api.public")
        if name in getattr(public, "__all__", ()):
            globals().update({each: getattr(public, each) for each in public.__all__})
            return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
