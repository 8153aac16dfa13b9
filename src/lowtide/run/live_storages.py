"""The most bytes of torch's storages that live at once, as operators make them and as they die: a dispatch mode and
weak references. What kernels take while they run is not seen."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any


def storages_peak(function: Callable[[], Any], uncounted: Iterable[Any] = ()) -> tuple[Any, int]:
    """What a function returns, and the most bytes of storages that lived at once while it ran.

    `uncounted` are tensors that are there before. Only what operators return is seen.
    """
    leaves = import_module("torch.utils._pytree").tree_leaves
    tensor = import_module("torch").Tensor
    known = {t.untyped_storage()._cdata for t in uncounted}
    live: dict[int, int] = {}
    now = most = 0

    def gone(key: int) -> None:
        nonlocal now
        now -= live.pop(key, 0)

    class Count(import_module("torch.utils._python_dispatch").TorchDispatchMode):
        """Sees every operator's results."""

        def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            nonlocal now, most
            returned = operator(*args, **(kwargs or {}))
            for value in leaves(returned):
                storage = value.untyped_storage() if isinstance(value, tensor) else None
                if storage is None or storage._cdata in known or storage._cdata in live:
                    continue
                live[storage._cdata] = storage.nbytes()
                now += storage.nbytes()
                weakref.finalize(storage, gone, storage._cdata)
            most = max(most, now)
            return returned

    with Count():
        returned = function()
    return returned, most
