"""Everything that can be seen of a model, to compare before and after: a second look that shares nothing with
`lowtide.torch.frozen`."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np


def state_of(torch: Any, model: Any, optimizer: Any = None) -> dict[str, Any]:
    """What is there, by path: values of tensors, texts and numbers, and the identity of every object.

    Objects stay alive in what is returned, so that no identity is used twice.
    """
    seen: dict[str, Any] = {}
    visited: dict[int, Any] = {}

    def look(path: str, value: Any) -> None:
        if isinstance(value, torch.Tensor):
            seen[path] = (id(value), value.requires_grad, value.data_ptr(), value._version, type(value))
            if id(value) not in visited:
                visited[id(value)] = value
                seen[f"{path}:bytes"] = value.detach().clone()
                look(f"{path}.grad", value.grad if value.is_leaf else None)
                look(f"{path}.__dict__", vars(value))
            return
        if isinstance(value, bool | int | float | str | bytes | type(None)):
            seen[path] = value
            return
        seen[path] = id(value)
        if id(value) in visited:
            return
        visited[id(value)] = value
        if isinstance(value, Mapping):
            seen[f"{path}:keys"] = [repr(key) for key in value]
            for key, inner in value.items():
                look(f"{path}[{key!r}]", inner)
        elif isinstance(value, list | tuple):
            seen[f"{path}:length"] = len(value)
            for k, inner in enumerate(value):
                look(f"{path}[{k}]", inner)
        elif isinstance(value, set | frozenset):
            seen[f"{path}:set"] = sorted(map(repr, value))
        elif isinstance(getattr(value, "__dict__", None), dict) and not isinstance(value, type):
            look(f"{path}.", vars(value))

    look("", model)
    if optimizer is not None:
        look("optimizer.state", optimizer.state)
        look("optimizer.param_groups", optimizer.param_groups)
    seen["random"] = random.getstate()
    seen["numpy"] = [*np.random.get_state(legacy=False)["state"].values()]
    seen["torch.random"] = torch.get_rng_state()
    seen["modes"] = (torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.get_default_dtype())
    seen["kept alive"] = visited
    return seen


def differences(torch: Any, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Paths at which two looks at a model differ."""
    paths = [path for path in dict.fromkeys((*before, *after)) if path != "kept alive"]
    return [p for p in paths if p not in before or p not in after or not _equal(torch, before[p], after[p])]


def _equal(torch: Any, a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor):
        return torch.equal(a.reshape(-1).view(torch.uint8), b.reshape(-1).view(torch.uint8))
    if isinstance(a, list) and a and isinstance(a[0], np.ndarray):
        return all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))
    return bool(a == b)
