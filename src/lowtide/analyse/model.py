"""What the schedulers know of memory: storages, who touches them, and what may be written in place."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, NamedTuple

from lowtide import _core
from lowtide.graph import Graph
from lowtide.target import Target


class Storage(NamedTuple):
    """A block of memory.

    `tensors` are ids, the root first; `users` positions of the ops that make or read any of them, ascending.
    `at_start`: there before step 0. `at_end`: there after the last step. Of a group with lifetimes of their own
    each stretch of bytes in the same tensors is one; the first of these is the smallest.
    """

    size: int
    tensors: tuple[int, ...]
    users: tuple[int, ...]
    at_start: bool
    at_end: bool


@dataclass(frozen=True, slots=True)
class Overwrite:
    """An op at position `op` may put tensor `output` over tensor `input`, if storage `storage` dies there.

    It then saves `saving` bytes while the op runs. With a `distance`, the output is placed freely as long as it
    begins that many bytes or more below the input or shares no byte with it; without one, exactly on the input.
    """

    op: int
    output: int
    input: int
    storage: int
    saving: int
    distance: int | None = None


@dataclass(frozen=True)
class MemoryModel:
    """A graph under a target, ready for planning."""

    graph: Graph
    target: Target
    # Every storage that can occupy memory: no constants (unless the target counts them), no unread inputs.
    storages: tuple[Storage, ...]
    # Tensor id to index in `storages`; constants and unread inputs are absent. Of a tensor in several storages, that
    # which is named by it, or the first.
    storage_of: dict[int, int]
    displacement: dict[int, int]  # tensor id to bytes from the start of its storage
    # Per op position, bytes needed while it runs (streamed constants included where the target counts those).
    workspace: tuple[int, ...]
    overwrites: tuple[tuple[Overwrite, ...], ...]  # per op position, the in-place choices that the target allows
    touched: tuple[tuple[int, ...], ...] = field(repr=False)  # per op position, the storages it touches, ascending
    # Storages at fixed distances, each with its bytes from the start of the group.
    groups: tuple[tuple[tuple[int, int], ...], ...] = ()

    @property
    def alignment(self) -> int:
        """Offsets are multiples of this, in bytes."""
        return self.target.alignment

    @cached_property
    def core(self) -> _core.Model:
        """The model as the native core takes it; ops and storages keep their positions."""
        return _core.Model(
            preds=self.graph.predecessors,
            sizes=[s.size for s in self.storages],
            users=[s.users for s in self.storages],
            at_start=[s.at_start for s in self.storages],
            at_end=[s.at_end for s in self.storages],
            workspace=self.workspace,
            overwrites=[[(o.storage, o.saving) for o in row] for row in self.overwrites],
        )

    def __getstate__(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}
