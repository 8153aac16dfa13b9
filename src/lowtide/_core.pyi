"""
lowtide's native core: searches for orders, places and traffic. Ops and storages are positions; sizes are bytes.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

class Model:
    """Ops, the storages they touch, and what they may overwrite."""

    def __init__(
        self,
        preds: Sequence[Sequence[int]],
        sizes: Sequence[int],
        users: Sequence[Sequence[int]],
        at_start: Sequence[bool],
        at_end: Sequence[bool],
        workspace: Sequence[int],
        overwrites: Sequence[Sequence[tuple[int, int]]],
    ) -> None: ...
    def peak(self, order: Sequence[int]) -> int: ...
    def profile(self, order: Sequence[int]) -> Lives:
        """The order step by step."""

class Lives:
    """An order step by step."""

    @property
    def footprint(self) -> list[int]:
        """Bytes live while each step runs."""

    @property
    def transient(self) -> list[int]:
        """Bytes live after each step."""

    @property
    def first(self) -> list[int]:
        """Step at which each storage begins; -1: before step 0."""

    @property
    def last(self) -> list[int]:
        """Step at which each storage ends; the number of steps: not at all."""

    @property
    def in_place(self) -> list[tuple[int, int]]:
        """Ops that write in place, and which of their overwrites."""

    __match_args__: tuple = ...

    def __repr__(self) -> str: ...
    def __getstate__(self) -> tuple: ...
    def __setstate__(self, state: tuple) -> None: ...

class TracePoint:
    """The bounds after one of them got better."""

    @property
    def seconds(self) -> float:
        """Seconds since the search began."""

    @property
    def best(self) -> int:
        """Bytes of the best order's peak so far."""

    @property
    def bound(self) -> int:
        """Bytes that no order stays below, as far as proved."""

    __match_args__: tuple = ("seconds", "best", "bound")

    def __repr__(self) -> str: ...
    def __getstate__(self) -> tuple: ...
    def __setstate__(self, state: tuple) -> None: ...

class Solution:
    """What the exact scheduler found and proved."""

    @property
    def order(self) -> list[int]:
        """The best order, as positions of ops."""

    @property
    def peak(self) -> int:
        """Bytes of that order's peak."""

    @property
    def lower_bound(self) -> int:
        """Bytes that no order stays below."""

    @property
    def proof(self) -> Literal["none", "cut", "search"]:
        """What the lower bound rests on."""

    @property
    def cut_op(self) -> int:
        """The op whose minimum cut is the best one; -1: none was looked at."""

    @property
    def cut_bound(self) -> int:
        """Bytes of that cut."""

    @property
    def refuted(self) -> int:
        """By search: no order has a peak of so many bytes or less."""

    @property
    def direction(self) -> Literal["", "forward", "reversed", "propagation"]:
        """Which search refuted that."""

    @property
    def refuting_states(self) -> int:
        """States that the refutation expanded."""

    @property
    def stopped(self) -> Literal["proof", "complete", "time", "memory", "interrupt"]:
        """How the search ended."""

    @property
    def reduced_ops(self) -> int:
        """Ops left once chains are fused."""

    @property
    def states(self) -> int:
        """States expanded by all engines together."""

    @property
    def beam_states(self) -> int:
        """States expanded by beams."""

    @property
    def work(self) -> int:
        """Nanoseconds of work of engines, beams and cuts, about."""

    @property
    def cuts(self) -> int:
        """Minimum cuts, propagation's among them."""

    @property
    def symmetries(self) -> int:
        """Generators found."""

    @property
    def trace(self) -> list[TracePoint]:
        """Each time the best or the bound got better."""

    @property
    def memory_bytes(self) -> int:
        """Bytes that stored states took at most."""

    __match_args__: tuple = ...

    def __repr__(self) -> str: ...
    def __getstate__(self) -> tuple: ...
    def __setstate__(self, state: tuple) -> None: ...

def solve(
    model: Model,
    start: Sequence[int],
    switches: Mapping[str, bool],
    seconds: float,
    memory_bytes: int,
    seed: int,
    budget: int,
    until_decided: bool,
    until_impossible: bool,
    first_slice: int,
    report: object | None,
    reach_memory_bytes: int = 268435456,
    gap: float = 0.0,
    most_states: int = 0,
    most_work: int = 0,
) -> Solution:
    """
    The order of least peak, from `start` on. `report` is called with (best, bound, seconds); true stops it.
    """

class CutArc:
    """Flow over one arc of a cut's network."""

    @property
    def storage(self) -> int:
        """Position of the storage; -1 for a precedence."""

    @property
    def start(self) -> int:
        """Position of the op where the arc begins; -1 for the source."""

    @property
    def end(self) -> int:
        """Position of the op where the arc ends; -1 for the sink."""

    @property
    def bytes(self) -> int:
        """Bytes that flow over the arc."""

    __match_args__: tuple = ("storage", "start", "end", "bytes")

    def __repr__(self) -> str: ...
    def __getstate__(self) -> tuple: ...
    def __setstate__(self, state: tuple) -> None: ...

class CutCase:
    """The cut at an op that runs in place over one storage, or over none."""

    @property
    def storage(self) -> int:
        """Position of the storage overwritten; -1 for none."""

    @property
    def value(self) -> int:
        """Bytes of the cut."""

    @property
    def downset(self) -> list[int]:
        """Ops that ran before in the cheapest case, ascending."""

    @property
    def flow(self) -> list[CutArc]:
        """A maximum flow, which proves the value."""

    __match_args__: tuple = ("storage", "value", "downset", "flow")

    def __repr__(self) -> str: ...
    def __getstate__(self) -> tuple: ...
    def __setstate__(self, state: tuple) -> None: ...

class Cut:
    """The footprint of an op that no order beats."""

    @property
    def value(self) -> int:
        """Bytes of the least case."""

    @property
    def cases(self) -> list[CutCase]:
        """One case for each way to run in place."""

    __match_args__: tuple = ("value", "cases")

    def __repr__(self) -> str: ...
    def __getstate__(self) -> tuple: ...
    def __setstate__(self, state: tuple) -> None: ...

def cut_at(model: Model, op: int) -> Cut:
    """The minimum cut at an op, with the flows that prove it."""

def fused(model: Model, reach_memory_bytes: int = 268435456) -> list[list[int]]:
    """Chains of ops that some best order runs one right after the other."""

def restore_own_order(model: Model, order: Sequence[int], budget: int) -> list[int]:
    """
    The order with stretches put back into own order, where no footprint then exceeds the budget.
    """

def draw(model: Model, budget: int, width: int, seed: int, reversed: bool) -> list[int]:
    """An order within the budget that a beam finds, or an empty one."""

class Packing:
    """Where quick engines put buffers."""

    @property
    def offsets(self) -> list[int]:
        """Bytes, by buffer."""

    @property
    def height(self) -> int:
        """Bytes that all of it takes."""

    @property
    def bound(self) -> int:
        """Bytes of the load bound."""

    @property
    def rule(self) -> int:
        """
        Index of the rule that decided the height; -1 if there was nothing to place.
        """

    @property
    def stretches(self) -> int:
        """Stretches of time that no buffer crosses."""

    @property
    def pairs(self) -> int:
        """Pairs of pieces that are there at the same time."""

    @property
    def passes(self) -> int:
        """Passes over all buffers, or over those of a stretch."""

    @property
    def work(self) -> int:
        """Work of the passes, in nanoseconds or so."""

    __match_args__: tuple = ...

    def __repr__(self) -> str: ...
    def __getstate__(self) -> tuple: ...
    def __setstate__(self, state: tuple) -> None: ...

class Part:
    """A stretch of time that no buffer crosses."""

    @property
    def members(self) -> list[int]:
        """Indices of its buffers."""

    @property
    def bound(self) -> int:
        """Bytes of its load bound."""

    @property
    def unit(self) -> int:
        """Bytes that every height is a multiple of."""

    @property
    def proves(self) -> bool:
        """Whether the search's no is a proof."""

    __match_args__: tuple = ("members", "bound", "unit", "proves")

    def __repr__(self) -> str: ...
    def __getstate__(self) -> tuple: ...
    def __setstate__(self, state: tuple) -> None: ...

class Fitted:
    """The answer of an exact search for places."""

    @property
    def fits(self) -> bool | None:
        """Whether the buffers fit; None: not known."""

    @property
    def offsets(self) -> list[int]:
        """Bytes, by buffer, where the buffers fit."""

    @property
    def most(self) -> int:
        """The most buffers placed at once."""

    @property
    def nodes(self) -> int:
        """Nodes of the search tree."""

    @property
    def work(self) -> int:
        """Units of work that it took."""

    __match_args__: tuple = ("fits", "offsets", "most", "nodes", "work")

    def __repr__(self) -> str: ...
    def __getstate__(self) -> tuple: ...
    def __setstate__(self, state: tuple) -> None: ...

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
    def at_peak(self) -> list[tuple[int, int, int]]:
        """
        What is there at the first step of most load, as (buffer, low, size), by buffer; nothing of no buffers.
        """

    def fixed_at(self, places: Sequence[tuple[int, int]]) -> Buffers:
        """The problem with some buffers fixed, given as (buffer, offset)."""

    def height(self, offsets: Sequence[int]) -> int:
        """Bytes that a placement takes."""

    def order(self, key: str) -> list[int]: ...
    def place(self, order: Sequence[int], best_fit: bool, ceiling: int = -1, kernel: str = "") -> list[int] | None: ...
    def portfolio(self, rules: Sequence[tuple[str, bool]], work: int) -> Packing: ...
    def squeaky(self, rules: Sequence[tuple[str, bool]], rounds: int, work: int) -> Packing: ...
    def sweep(
        self,
        rules: Sequence[tuple[str, bool]],
        rounds: int,
        window_work: int,
        work: int,
        segments: Sequence[int],
        recall: bool = True,
    ) -> Packing: ...

class Exact:
    """
    Whether buffers fit under a height, by search, for each stretch that no buffer crosses.
    """

    def __init__(self, problem: Buffers) -> None: ...
    def __len__(self) -> int: ...
    def part(self, part: int) -> Part:
        """One of the stretches."""

    def order(self, part: int, key: str, seed: int) -> list[int]:
        """A stretch's buffers by a key, or with a seed near that."""

    def fits(
        self,
        part: int,
        order: Sequence[int],
        leaps: bool,
        capacity: int,
        work: int,
        switches: Mapping[str, bool],
        stop: object | None = None,
    ) -> Fitted:
        """
        Whether a stretch fits under `capacity` bytes; `stop` is asked now and then.
        """

class HmcosIteration:
    """One turn of HMCOS's Algorithm 1."""

    @property
    def peak_bytes(self) -> int:
        """Bytes of the schedule's peak."""

    @property
    def vertices(self) -> int:
        """Vertices of the top level: intact groups and free sequences."""

    @property
    def groups(self) -> int:
        """Groups among these."""

    @property
    def freed_sequences(self) -> int:
        """Sequences that earlier iterations took out of their groups."""

    @property
    def dissolved_groups(self) -> int:
        """Groups dissolved after this iteration."""

    @property
    def expanded(self) -> int:
        """Vertices tried in a state of the top level."""

    @property
    def states(self) -> int:
        """Partial schedules kept at the top level."""

    @property
    def pruned(self) -> int:
        """Partial schedules over the budget, groups' included."""

    @property
    def group_searches(self) -> int:
        """Runs of Algorithm 2 inside a group."""

    @property
    def group_expanded(self) -> int:
        """Vertices tried inside groups."""

    @property
    def group_states(self) -> int:
        """Partial schedules kept inside groups."""

    @property
    def simple_schedules(self) -> int:
        """Groups whose simple schedule was taken."""

    @property
    def memo_hits(self) -> int:
        """Schedules of groups known from before."""

    @property
    def seconds(self) -> float:
        """Seconds that the iteration took."""

    __match_args__: tuple = ...

    def __repr__(self) -> str: ...
    def __getstate__(self) -> tuple: ...
    def __setstate__(self, state: tuple) -> None: ...

class HmcosResult:
    """What HMCOS found."""

    @property
    def order(self) -> list[int]:
        """The best order, as positions of ops."""

    @property
    def stopped(self) -> Literal["proof", "complete", "time", "memory", "interrupt"]:
        """How the search ended."""

    @property
    def peak_bytes(self) -> int:
        """Bytes of that order's peak."""

    @property
    def start_peak_bytes(self) -> int:
        """Bytes of the peak of the order given to begin with."""

    @property
    def kept_start(self) -> bool:
        """Whether no better order was found."""

    @property
    def cells(self) -> int:
        """Groups after step 1."""

    @property
    def borders(self) -> int:
        """Groups made by step 4."""

    @property
    def sequences(self) -> list[list[int]]:
        """Ops of each sequence."""

    @property
    def groups(self) -> list[list[int]]:
        """Sequences of each group."""

    @property
    def iterations(self) -> list[HmcosIteration]:
        """Iterations; the last one may be unfinished."""

    @property
    def memory_bytes(self) -> int:
        """Bytes that partial schedules took at most."""

    __match_args__: tuple = ...

    def __repr__(self) -> str: ...
    def __getstate__(self) -> tuple: ...
    def __setstate__(self, state: tuple) -> None: ...

def hmcos(
    model: Model,
    rpo: Sequence[int],
    cell_output: Sequence[bool],
    scope: Sequence[int],
    switches: Mapping[str, bool],
    seconds: float,
    memory_bytes: int,
    report: object | None,
) -> HmcosResult:
    """
    HMCOS from a reverse post-order. `report` is called with (best, seconds); true stops it.
    """

class SerenityAttempt:
    """One run of SERENITY's Algorithm 1."""

    @property
    def segment(self) -> int:
        """Number of the segment."""

    @property
    def budget(self) -> int:
        """Bytes of tau; -1 for none."""

    @property
    def step_limit(self) -> int:
        """T, the signatures that a step may hold; -1 for none."""

    @property
    def flag(self) -> Literal["solution", "no solution", "timeout", "stopped"]:
        """How the run ended."""

    @property
    def states(self) -> int:
        """Signatures stored, over all steps."""

    @property
    def moves(self) -> int:
        """Pairs of a signature and a node of it that were tried."""

    __match_args__: tuple = ...

    def __repr__(self) -> str: ...
    def __getstate__(self) -> tuple: ...
    def __setstate__(self, state: tuple) -> None: ...

class SerenityResult:
    """What SERENITY found."""

    @property
    def order(self) -> list[int]:
        """The order, as positions of ops."""

    @property
    def peak(self) -> int:
        """Bytes of that order's peak."""

    @property
    def kahn_peak(self) -> int:
        """Bytes of the peak of the segments as given, one after the other."""

    @property
    def segment_peaks(self) -> list[int]:
        """Bytes of the order's peak in each segment."""

    @property
    def attempts(self) -> list[SerenityAttempt]:
        """Runs of Algorithm 1."""

    @property
    def solved(self) -> int:
        """Segments with an order of least peak."""

    @property
    def states(self) -> int:
        """States of all attempts."""

    @property
    def moves(self) -> int:
        """Moves of all attempts."""

    @property
    def widest(self) -> int:
        """Signatures in the largest search step."""

    @property
    def stopped(self) -> Literal["proof", "complete", "time", "memory", "interrupt"]:
        """How the search ended."""

    @property
    def memory_bytes(self) -> int:
        """Bytes that stored states took at most."""

    __match_args__: tuple = ...

    def __repr__(self) -> str: ...
    def __getstate__(self) -> tuple: ...
    def __setstate__(self, state: tuple) -> None: ...

def serenity(
    model: Model,
    segments: Sequence[Sequence[Sequence[int]]],
    soft_budget: bool,
    printed: bool,
    step_limit: int,
    step_seconds: float,
    seconds: float,
    memory_bytes: int,
    report: object | None,
) -> SerenityResult:
    """
    SERENITY over segments of nodes. `report` is called with (best, seconds); true stops it.
    """

class Sample:
    """Peaks of random orders."""

    @property
    def orders(self) -> int:
        """Orders drawn."""

    @property
    def peaks(self) -> dict[int, int]:
        """How many orders have each peak (bytes, ascending)."""

    __match_args__: tuple = ("orders", "peaks")

    def __repr__(self) -> str: ...
    def __getstate__(self) -> tuple: ...
    def __setstate__(self, state: tuple) -> None: ...

def sample(model: Model, orders: int, seed: int, report: object | None) -> Sample:
    """
    Draws orders, each step one of the ready ops. `report` is called with how many there are; true ends it.
    """

class SpillModel:
    """Ops and the storages that may leave a small fast memory."""

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

class SpillResult:
    """What the search for least traffic found and proved."""

    @property
    def found(self) -> bool:
        """Whether there is an answer."""

    @property
    def cost(self) -> int:
        """Bytes of traffic of the best answer."""

    @property
    def bound(self) -> int:
        """Bytes that no answer costs less than (best-first search)."""

    @property
    def proved(self) -> bool:
        """Whether nothing is better, or nothing there at all."""

    @property
    def order(self) -> list[int]:
        """The order, as positions of ops."""

    @property
    def leaves(self) -> list[tuple[int, int]]:
        """(step, storage): what leaves before that step's op."""

    @property
    def states(self) -> int:
        """States that the search made."""

    @property
    def ended(self) -> Literal["complete", "time", "memory", "states", "interrupt"]:
        """How the search ended."""

    __match_args__: tuple = ...

    def __repr__(self) -> str: ...
    def __getstate__(self) -> tuple: ...
    def __setstate__(self, state: tuple) -> None: ...

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
) -> SpillResult:
    """
    Least traffic over all orders: best-first without a width, else by beams.
    """

class CutModel:
    """A graph in one order, and along which axes its ops can be cut."""

    def __init__(
        self,
        ops: Sequence[
            tuple[
                Sequence[
                    tuple[int, int, int, bool, Sequence[tuple[int, int]], int, bool, Sequence[tuple[int, int]], int]
                ],
                Sequence[tuple[int, Sequence[tuple[int, int, int, int, int]], bool, bool]],
                Sequence[tuple[int, Sequence[int]]],
                bool,
                int,
                Sequence[int],
                Sequence[tuple[int, int]],
                int,
            ]
        ],
        tensors: Sequence[tuple[int, Sequence[int], int, Sequence[int], bool, int, Sequence[int]]],
        storages: Sequence[tuple[int, int, int]],
        footprint: Sequence[int],
        before: Sequence[int],
        sums_in_place: bool,
        most_joined: int = 0,
        glue: Sequence[tuple[int, int]] | None = None,
        transfer: tuple[int, int] | None = None,
        again: bool = False,
    ) -> None: ...
    def limit_tensors(self, most: int) -> None:
        """
        Makes tensors of more bytes count for more than any footprint; those of the caller may have any size.
        """

class PathRegion:
    """Ops at positions [begin, end) that are cut together."""

    @property
    def begin(self) -> int:
        """First position."""

    @property
    def end(self) -> int:
        """Position behind the last."""

    @property
    def axis(self) -> int:
        """Axis of the last op."""

    @property
    def pace(self) -> Literal["pull", "push", "late", "pull again", "late again"]:
        """
        What stripes are equal parts of, and how far the other ops run: pull, push or late; again.
        """

    @property
    def stripes(self) -> int:
        """How many parts."""

    @property
    def peak(self) -> int:
        """Bytes of the highest step in it."""

    @property
    def ops(self) -> int:
        """Ops that run: parts, slices, joins and whole ones."""

    @property
    def weight(self) -> int:
        """What these weigh."""

    __match_args__: tuple = ...

    def __repr__(self) -> str: ...
    def __getstate__(self) -> tuple: ...
    def __setstate__(self, state: tuple) -> None: ...

class PathResult:
    """The best way through an order."""

    @property
    def peak(self) -> int:
        """Bytes of the highest step."""

    @property
    def ops(self) -> int:
        """Ops that run."""

    @property
    def weight(self) -> int:
        """What these weigh."""

    @property
    def order(self) -> list[int]:
        """The ops in the order of the way, in positions of the model's."""

    @property
    def regions(self) -> list[PathRegion]:
        """What is cut, in order, by positions in that order."""

    @property
    def handed(self) -> list[int]:
        """Tensors that they leave in pieces, which nobody puts together."""

    @property
    def evaluated(self) -> int:
        """Regions that were tried."""

    @property
    def given_up(self) -> int:
        """
        Of these those whose footprint is above the limit by some of their steps.
        """

    @property
    def complete(self) -> bool:
        """Whether it was not stopped."""

    __match_args__: tuple = ...

    def __repr__(self) -> str: ...
    def __getstate__(self) -> tuple: ...
    def __setstate__(self, state: tuple) -> None: ...

def region_cost(
    model: CutModel,
    begin: int,
    end: int,
    seed: int,
    axis: int,
    stripes: int,
    pace: Literal["pull", "push", "late", "pull again", "late again"] = "pull",
    limit: int = 4611686018427387904,
) -> tuple[int, int, list[int], int] | None:
    """
    Bytes of one region's highest step, its ops, the axis of each position (-1: whole), what they weigh.

    Above a limit it may be given up: no ops, and bytes above the limit that it takes at the least.
    """

def best_path(
    model: CutModel,
    longest: int,
    most_stripes: int,
    at_least: int,
    most_ops: int,
    stop: object | None = None,
    most_weight: int = 0,
    before: Sequence[Sequence[int]] = [],
) -> PathResult:
    """
    The way through the order with the lowest peak, then the least weight, over intervals cut in equal stripes.

    If it is said which ops must run `before` each, other orders are looked at, too.
    """

def paths_within(
    model: CutModel, longest: int, most_stripes: int, limits: Sequence[int], stop: object | None = None, above: int = 0
) -> list[PathResult]:
    """
    Ways of the least weight under each of some limits on the peak, those there are, in the model's own order.

    With `above`, ops may run whole above a limit, too, and weigh so much more.
    """

def path_front(model: CutModel, longest: int, most_stripes: int, stop: object | None = None) -> list[PathResult]:
    """Ways of ever lower peaks and ever more weight, the whole graph first."""

class LoopPlay:
    """What a loop keeps of each tensor."""

    @property
    def slots(self) -> list[int]:
        """Positions of its ring; 0: it is whole, or lies over another."""

    @property
    def made(self) -> list[int]:
        """Positions made in all."""

    @property
    def behind(self) -> list[list[int]]:
        """By how many bytes it has to begin below each input."""

    @property
    def beside(self) -> list[list[int]]:
        """
        Of each with a ring of its own others whose rings have something when it has.
        """

    @property
    def begun(self) -> list[list[int]]:
        """
        Bytes of each input that are done with before its first position is written.
        """

    __match_args__: tuple = ("slots", "made", "behind", "beside", "begun")

    def __repr__(self) -> str: ...
    def __getstate__(self) -> tuple: ...
    def __setstate__(self, state: tuple) -> None: ...

def play_loop(
    ops: Sequence[
        tuple[
            int,
            int,
            Sequence[tuple[int, tuple[int, int, int, int, int], tuple[int, int, int, int, int]]],
            Sequence[int],
            Sequence[tuple[int, tuple[int, int, int, int, int], tuple[int, int, int, int, int]]],
        ]
    ],
    tensors: Sequence[tuple[int, bool, int]],
    inputs: Sequence[int],
    handed: int = 0,
) -> LoopPlay:
    """
    Positions of each tensor that a loop keeps, and how far it lies behind inputs; its last op drives.
    """

class SequenceProblem:
    """
    Ops: (reads, makes, after, cost, workspace, saving, once, until); values: (size, maker, kept); moves: value, out, in
    """

    def __init__(
        self,
        ops: Sequence[tuple[Sequence[int], Sequence[int], Sequence[int], int, int, int, bool, Sequence[int]]],
        values: Sequence[tuple[int, int, bool]],
        transfers: Sequence[tuple[int, int, int]] = [],
    ) -> None: ...
    def footprints(self, order: Sequence[int]) -> list[int]:
        """Bytes live while each run of a sequence of ops is on."""

    def cost(self, order: Sequence[int]) -> int:
        """Time of a sequence, until its last op has ended."""

    def shuffle(self, order: Sequence[int], steps: int, seed: int) -> list[tuple[list[int], int]]:
        """
        A sequence after so many random changes of it, and the peak after each.
        """

    def put_and_take(self, order: Sequence[int], rounds: int, seed: int) -> float:
        """
        Processor seconds of so many runs put in, the peak read, and taken away; 0 if none can be.
        """

class SequenceResult:
    """What the search for a sequence with repeated runs found."""

    @property
    def found(self) -> bool:
        """Whether the peak is within the budget."""

    @property
    def cost(self) -> int:
        """Time of all runs."""

    @property
    def peak(self) -> int:
        """Bytes."""

    @property
    def order(self) -> list[int]:
        """The ops as they run, some of them more than once."""

    @property
    def steps(self) -> int:
        """Repairs that were tried."""

    @property
    def chains(self) -> int:
        """Chains of repeated runs that were tried."""

    @property
    def stopped(self) -> Literal["proof", "complete", "time", "memory", "interrupt"]:
        """How the search ended."""

    __match_args__: tuple = ...

    def __repr__(self) -> str: ...
    def __getstate__(self) -> tuple: ...
    def __setstate__(self, state: tuple) -> None: ...

def search_sequence(
    problem: SequenceProblem,
    order: Sequence[int],
    budget: int,
    seed: int,
    seconds: float,
    steps: int = -1,
    enough: int = 0,
    moves: bool = True,
    repairs: bool = True,
    report: object | None = None,
) -> SequenceResult:
    """
    Least time of a sequence whose peak is within a budget, by peak shaving and repairs.
    """

def anneal_sequence(
    problem: SequenceProblem,
    order: Sequence[int],
    budget: int,
    seed: int,
    seconds: float,
    steps: int,
    report: object | None = None,
) -> SequenceResult:
    """
    Least time of a sequence whose peak is within a budget, by random changes.
    """

def cut_starts(problem: SequenceProblem, order: Sequence[int], budget: int) -> list[list[int]]:
    """Sequences to begin a search with, by the price cut at the highest op."""

def price_cut(
    problem: SequenceProblem,
    op: int,
    p: int,
    q: int,
    before: int = 0,
    after: int = 0,
    first: Sequence[int] = [],
    with_proof: bool = False,
) -> tuple[int, int, list[tuple[int, int, int, int]], list[int]]:
    """
    Least sum at prices when an op first runs, bytes held, flow (value, from, to, amount), ops run again.
    """

def maximum_flow(nodes: int, arcs: Sequence[tuple[int, int, int]]) -> int:
    """
    What flows at most from node 0 to node 1 along arcs (from, to, capacity).
    """
