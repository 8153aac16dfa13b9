"""A memory model as the native core takes it: what every method of the core starts from."""

from __future__ import annotations

from lowtide import _core
from lowtide.analyse.storage import MemoryModel


def core_model(model: MemoryModel) -> _core.Model:
    """Hand a memory model to the core. Ops and storages keep their positions."""
    return model.core
