"""The mode of a module when a step is traced, and required when it runs: all that decides which ops run, except sizes.

A step is a list of ops: it does not see that a module was put in evaluation mode, that a parameter was frozen, or that
autocast is on. So each call looks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Mode:
    """`autocast`: a device's type and the type of numbers for each that has it on; `training`: of each module, in
    order; `trained`: whether each parameter needs a gradient; `weights`: which parameters the modules hold, of what
    type and where."""

    autocast: tuple[tuple[str, str], ...]
    training: tuple[bool, ...]
    trained: tuple[bool, ...]
    weights: tuple[tuple[int, Any, Any], ...] = ()

    def difference(self, other: Mode) -> str:
        """What is not as it was, in words; empty if all is."""
        if self.autocast != other.autocast:
            return f"planned {_words(self.autocast)}, and is called {_words(other.autocast)}"
        if self.training != other.training:
            return "planned with other modules in training mode; put them back with train() and eval()"
        if self.trained != other.trained:
            return "planned with other parameters frozen; put requires_grad back"
        if self.weights != other.weights:
            return (
                "planned with other parameters: some were replaced, or are of another type or on another device; "
                "copy into them, as load_state_dict() does"
            )
        return ""


def _words(autocast: tuple[tuple[str, str], ...]) -> str:
    return " and ".join(f"under autocast of {device} to {kind}" for device, kind in autocast) or "without autocast"


@dataclass(frozen=True)
class Modes:
    """Reads the mode: modules and parameters of a model, and types of the devices that it is on."""

    torch: Any
    modules: tuple[Any, ...]
    parameters: tuple[Any, ...]
    devices: tuple[str, ...]

    @classmethod
    def of(cls, torch: Any, model: Any, batch: Sequence[Any]) -> Modes:
        """Of a model and a batch."""
        parameters = tuple(model.parameters())
        tensors = [*parameters, *(x for x in torch.utils._pytree.tree_leaves(batch) if isinstance(x, torch.Tensor))]
        devices = dict.fromkeys(t.device.type for t in tensors if t.device.type != "meta")
        return cls(torch, tuple(model.modules()), parameters, tuple(devices))

    def now(self) -> Mode:
        """As it is."""
        torch = self.torch
        on = [d for d in self.devices if torch.is_autocast_enabled(d)]
        return Mode(
            tuple([(d, str(torch.get_autocast_dtype(d)).removeprefix("torch.")) for d in on]),
            tuple([module.training for module in self.modules]),
            tuple([p.requires_grad for p in self.parameters]),
            tuple([(id(p), p.dtype, p.device) for m in self.modules for p in m._parameters.values() if p is not None]),
        )


@contextmanager
def plain(torch: Any, mode: Mode) -> Iterator[None]:
    """Without the autocast of a mode: what it does is in the ops already."""
    with ExitStack() as stack:
        for device, _ in mode.autocast:
            stack.enter_context(torch.autocast(device, enabled=False))
        yield
