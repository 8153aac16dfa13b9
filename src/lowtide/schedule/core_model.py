"""A memory model as the native core takes it: what every method of the core starts from."""

from __future__ import annotations

from lowtide import _core
from lowtide.analyse.storage import MemoryModel


def core_model(model: MemoryModel) -> _core.Model:
    """Hand a memory model to the core. Ops and storages keep their positions."""
    return _core.Model(
        preds=model.graph.predecessors,
        sizes=[s.size for s in model.storages],
        users=[s.users for s in model.storages],
        at_start=[s.at_start for s in model.storages],
        at_end=[s.at_end for s in model.storages],
        workspace=model.workspace,
        overwrites=[[(o.storage, o.saving) for o in row] for row in model.overwrites],
    )
