"""lowtide lowers the memory high-water mark of neural networks, and proves how low it can go.

>>> import lowtide
>>> made = lowtide.plan("zoo:nasnet_a_cifar", target="strict", without=["recompute"])
>>> made.comparison.today_bytes, made.comparison.planned_bytes, made.optimal
(2359296, 1786624, True)
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from lowtide.interrupt import end_at_once, is_command
from lowtide.version import __version__

if TYPE_CHECKING:
    from lowtide import research
    from lowtide.api import (
        Check,
        MethodResult,
        Placement,
        WayToFit,
        apply,
        check,
        emit_c,
        export,
        inspect,
        load,
        report,
        run,
        verify,
    )
    from lowtide.api.default import plan
    from lowtide.api.default.fit import Fit, fit
    from lowtide.comparison import Comparison
    from lowtide.errors import InputError, LowtideError, MissingExtraError, VerificationError
    from lowtide.graph import Graph, Kind, Op, Tensor
    from lowtide.plan import Plan
    from lowtide.target import Target

if is_command():
    end_at_once()

__all__ = [
    "Check",
    "Comparison",
    "Fit",
    "Graph",
    "InputError",
    "Kind",
    "LowtideError",
    "MethodResult",
    "MissingExtraError",
    "Op",
    "Placement",
    "Plan",
    "Target",
    "Tensor",
    "VerificationError",
    "WayToFit",
    "__version__",
    "apply",
    "check",
    "emit_c",
    "export",
    "fit",
    "inspect",
    "load",
    "plan",
    "report",
    "research",
    "run",
    "verify",
]

_SHARED = frozenset({"plan", "report", "run", "verify"})
"""Functions that share their names with modules of this package."""


class _Package(ModuleType):
    """The package, whose functions and types are imported when one of them is first used."""

    def __setattr__(self, name: str, value: object) -> None:
        """Set it, unless it is a module with a function's name: the import of a module sets it here."""
        if not (name in _SHARED and isinstance(value, ModuleType)):
            super().__setattr__(name, value)

    def __getattr__(self, name: str) -> object:
        if name == "research":
            return import_module("lowtide.research")
        if name not in __all__:
            raise AttributeError(_missing(name))
        from lowtide import errors, graph
        from lowtide.api import default, public
        from lowtide.api.default import fit
        from lowtide.comparison import Comparison
        from lowtide.plan import Plan
        from lowtide.target import Target

        found = {**vars(errors), **vars(graph), **vars(public), "plan": default.plan, "fit": fit.fit, "Fit": fit.Fit}
        found |= {"Comparison": Comparison, "Plan": Plan, "Target": Target}
        vars(self).update({each: found[each] for each in __all__ if each in found and each not in vars(self)})
        return vars(self)[name]

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *__all__})


def _missing(name: str) -> str:
    """What is wrong with a name that is not public here."""
    if name == "torch":
        from lowtide.errors import install_command

        return f"import lowtide.torch; it needs torch: {install_command('torch')}"
    research = import_module("lowtide.research")
    moved = f"; it is now lowtide.research.{name}" if name in research.__all__ else ""
    return f"module {__name__!r} has no attribute {name!r}{moved}"


sys.modules[__name__].__class__ = _Package
