"""
lowtide's native core: exact scheduling. Ops and storages are positions; sizes are bytes.
"""

from collections.abc import Mapping, Sequence

class Model:
    def __init__(
        self,
        preds: Sequence[Sequence[int]],
        sizes: Sequence[int],
        touchers: Sequence[Sequence[int]],
        at_start: Sequence[bool],
        at_end: Sequence[bool],
        workspace: Sequence[int],
        overwrites: Sequence[Sequence[tuple[int, int]]],
    ) -> None: ...
    def peak(self, order: Sequence[int]) -> int: ...

def solve(
    model: Model,
    start: Sequence[int],
    switches: dict,
    seconds: float,
    memory_bytes: int,
    seed: int,
    budget: int,
    until_decided: bool,
    until_impossible: bool,
    first_slice: int,
    report: object | None,
) -> dict: ...
def hmcos(
    model: Model,
    rpo: Sequence[int],
    cell_output: Sequence[bool],
    switches: Mapping[str, bool],
    seconds: float,
    memory_bytes: int,
    report: object | None,
) -> dict: ...
def settle(model: Model, order: Sequence[int], budget: int) -> list[int]: ...
def draw(model: Model, budget: int, width: int, seed: int, reversed: bool) -> list[int]: ...
def cut_at(model: Model, op: int) -> dict: ...

class Buffers:
    """
    Buffers to place; `pieces` are (buffer, start, end, low, size), by buffer; `pairs` are (lower, upper, distance).
    """

    def __init__(
        self,
        sizes: Sequence[int],
        alignments: Sequence[int],
        fixed: Sequence[int],
        pieces: Sequence[tuple[int, int, int, int, int]],
        pairs: Sequence[tuple[int, int, int]],
        apart: Sequence[tuple[int, int]],
    ) -> None: ...
    def load_bound(self) -> int: ...
    def clash(self) -> int: ...
    def split(self) -> list[list[int]]: ...
    def order(self, key: str) -> list[int]: ...
    def place(self, order: Sequence[int], best_fit: bool, ceiling: int = -1, kernel: str = "") -> list[int] | None: ...
    def portfolio(self, rules: Sequence[tuple[str, bool]], work: int) -> dict: ...
    def squeaky(self, rules: Sequence[tuple[str, bool]], rounds: int, work: int) -> dict: ...
    def sweep(
        self, rules: Sequence[tuple[str, bool]], rounds: int, window_work: int, work: int, segments: Sequence[int]
    ) -> dict: ...

class Exact:
    """
    Whether buffers fit under a height, by search, for each stretch that no buffer crosses.
    """

    def __init__(self, problem: Buffers) -> None: ...
    def __len__(self) -> int: ...
    def part(self, part: int) -> dict:
        """
        A stretch: its members, load bound, unit of all heights, whether no is proved.
        """

    def order(self, part: int, key: str, seed: int) -> list[int]:
        """A stretch's buffers by a key, or with a seed near that."""

    def fits(
        self,
        part: int,
        order: Sequence[int],
        leaps: bool,
        capacity: int,
        work: int,
        switches: dict,
        stop: object | None = None,
    ) -> tuple:
        """
        Whether a stretch fits (None: not known), its offsets if so, the most buffers placed at once, nodes, work.
        """

def serenity(
    model: Model,
    segments: Sequence[Sequence[Sequence[int]]],
    soft_budget: bool,
    step_limit: int,
    seconds: float,
    memory_bytes: int,
    report: object | None,
) -> dict: ...
def sample(model: Model, orders: int, seed: int, report: object | None) -> dict: ...

class SpillModel:
    def __init__(
        self,
        preds: Sequence[Sequence[int]],
        storages: Sequence[tuple[int, int, int, Sequence[int], Sequence[int], Sequence[bool]]],
        workspace: Sequence[int],
        overwrites: Sequence[Sequence[tuple[int, int]]],
        capacity: int,
        write_once: bool,
        segments: Sequence[tuple[Sequence[int], int]],
        gate: int = -1,
    ) -> None: ...

def spill(
    model: SpillModel,
    width: int,
    state_limit: int,
    memory_bytes: int,
    upper: int,
    seed: int,
    jitter: int,
    seconds: float,
    safe_moves: bool = True,
    dominance: bool = True,
) -> dict: ...
