"""Memory planning for ExecuTorch: lowtide's arenas as the algorithm of its memory planning pass.

::

    from executorch.exir import ExecutorchBackendConfig, to_edge
    from executorch.exir.passes import MemoryPlanningPass
    from lowtide.executorch import algorithm_suite

    program = to_edge(torch.export.export(model, inputs)).to_executorch(
        ExecutorchBackendConfig(memory_planning_pass=MemoryPlanningPass(algorithm_suite()))
    )

The order of the ops is the exported graph's; each memory (`mem_id`) is placed by itself, and what shares the storage of
another tensor stays where that one puts it. Plan the order first with `lowtide plan MODEL.pt2`.

Source: executorch.exir.memory_planning (`greedy`, whose signature and result this has), ExecuTorch 1.5.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from lowtide.errors import InputError, MissingExtraError


@dataclass(frozen=True)
class MemoryPlanner:
    """A memory planning algorithm, called as ExecuTorch calls its own."""

    seconds: float = 20.0  # most time of the search, for each memory

    @property
    def __name__(self) -> str:
        """By this name ExecuTorch tells algorithms apart."""
        return "lowtide"

    def __call__(
        self,
        alignment: int,
        specs: Iterable[Any],
        graph_module: Any,
        graph_signature: Any = None,
        extra_padding: int = 0,
    ) -> Any:
        """Place tensors.

        `alignment`: bytes that offsets and sizes are multiples of.
        `specs`: TensorSpecs with lifetimes (first and last node, inclusive); `mem_id` says in which memory, 1 if None.
        `graph_module`: its `input_mem_buffer_sizes`, if there, are bytes at the start of each memory that are taken
          already.
        `graph_signature`: not needed.
        `extra_padding`: bytes added to the size of each memory.
        Returns: for each spec memory, object (one for each memory) and offset; and the size of each memory.
        Raises `MissingExtraError`: ExecuTorch is not installed.
        Raises `InputError`: a spec without a lifetime, or whose storage is in no spec of this memory.
        """
        try:
            from executorch.exir.memory_planning import (  # type: ignore[import-not-found]
                MemoryAlgoResult,
                SpecAllocResult,
            )
        except ImportError:
            raise MissingExtraError("executorch", "executorch", "planning for ExecuTorch") from None
        known = list(specs)
        for spec in known:
            spec.realign(alignment)
        taken = list(getattr(graph_module, "input_mem_buffer_sizes", None) or ())
        memories: dict[int, list[Any]] = {}
        for spec in known:
            memories.setdefault(1 if spec.mem_id is None else spec.mem_id, []).append(spec)
        sizes = [0] * max(2, max(memories, default=1) + 1, len(taken))
        for mem_id, size in enumerate(taken):
            sizes[mem_id] = size
        placed: dict[Any, Any] = {}
        for mem_id, members in sorted(memories.items()):
            start = -(-sizes[mem_id] // alignment) * alignment
            offsets, height = self._place(members, alignment)
            for spec, offset in zip(members, offsets, strict=True):
                placed[spec] = SpecAllocResult(mem_id, 0, start + offset)
            sizes[mem_id] = start + height + extra_padding
        return MemoryAlgoResult({spec: placed[spec] for spec in known}, sizes)

    def _place(self, specs: list[Any], alignment: int) -> tuple[list[int], int]:
        """An offset for each spec of a memory, and the memory's size."""
        from lowtide.allocate.arena import allocate_best
        from lowtide.allocate.buffers import Problem, block
        from lowtide.stop import Limits

        index = {id(spec): i for i, spec in enumerate(specs)}
        root: list[tuple[int, int]] = []
        life: dict[int, tuple[int, int]] = {}
        for spec in specs:
            at, above, seen = spec, 0, {id(spec)}
            while getattr(at, "storage_base", None) is not None:
                above += at.storage_base_offset
                at = at.storage_base
                if id(at) in seen or id(at) not in index:
                    raise InputError(f"{spec} is in a storage that is not planned with it")
                seen.add(id(at))
            first, last = spec.lifetime
            if first is None or last is None:
                raise InputError(f"{spec} has no lifetime; run ExecuTorch's memory planning pass")
            r = index[id(at)]
            low, high = life.get(r, (first, last))
            life[r] = (min(low, first), max(high, last))
            root.append((r, above))
        roots = sorted(life, key=lambda r: (*life[r], -specs[r].allocated_memory, r))
        buffers = tuple(
            block(f"spec {r}", life[r][0], life[r][1] + 1, specs[r].allocated_memory, alignment) for r in roots
        )
        packing = allocate_best(Problem(buffers), Limits(self.seconds))
        offset_of = dict(zip(roots, packing.offsets, strict=True))
        offsets = [offset_of[r] + above for r, above in root]
        ends = (offset + spec.allocated_memory for offset, spec in zip(offsets, specs, strict=True))
        return offsets, max(ends, default=0)


plan_memory = MemoryPlanner()  # the algorithm with its defaults


def algorithm_suite(seconds: float = 20.0) -> Any:
    """What MemoryPlanningPass takes: ExecuTorch's suite with lowtide's algorithm alone. Raises `MissingExtraError`:
    ExecuTorch is not installed."""
    try:
        from executorch.exir.memory_planning import MemoryPlanningAlgorithmSuite  # type: ignore[import-not-found]
    except ImportError:
        raise MissingExtraError("executorch", "executorch", "planning for ExecuTorch") from None
    return MemoryPlanningAlgorithmSuite([MemoryPlanner(seconds)])
