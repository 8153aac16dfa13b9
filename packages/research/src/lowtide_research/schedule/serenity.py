"""SERENITY: dynamic programming over zero-indegree sets (Ahn et al., MLSys 2020), written from the paper.

The system of the paper is its graph rewriting and this scheduler. The rewriting (section 3.3) is concat elimination:
``plan(model, allow="concat", method="serenity")`` rewrites what lowers the peak and orders the parts with this method;
`rewriting` applies it to every concat, as in the paper's Table 2. The scheduler::

    ops --divide (3.2)--> segments --Algorithm 1 within a budget--> orders --combine--> order
                                        ^          |
                                        '- budget -'  Algorithm 2

The search is in the C++ core (``core/papers/serenity*``), and shares nothing with the exact scheduler but the model of
memory.

**Algorithm 1.** Search step i keeps every set of i ops that can have run, with the order of least peak that leads to
it. The paper names the set by its zero-indegree set, the ops that may run next; each gives the other, so their number
is the same, at most 2^|V|, and so are the pairs tried, at most |V| 2^|V|. What is live after a set of ops does not
depend on their order, nor does the footprint of the op that runs next, under any of lowtide's memory rules (aliases,
views, overwriting in place). So the best order to a set is all that is needed (the paper's Theorem 1), and what is
left at the end has the least peak of all orders.

**Divide and conquer** cuts after ops to which all others are ancestors or descendants (`serenity_parts`): every order
runs the segments one after the other, so their best orders make up a best order of all. HMCOS's comparison cuts at
cells that read the last two cells, too (HMCOS, DAC 2022, section 4.2.1): that loses the orders in which cells mix.

**Algorithm 2**, as printed, has no floor and no bracket: "no solution" moves the budget to the middle of the last two
budgets, whichever way that is, and "timeout" halves it for ever, so that it may end nowhere (after one timeout at 100
and no solution at 50, it goes to 75, 62.5, 68.75, ... and never above 75). ``update="printed"`` does exactly that,
and gives the segment up where the budget no longer moves. By default:

- The budget stays between the largest budget known to have no solution (at first just below the largest single op)
  and the smallest known to time out (at first Kahn's peak, which has a solution). "Timeout" halves the budget, as
  printed, or takes the middle of the two where the half is known to fail; "no solution" takes the middle.
- A run is the same under every budget from the largest peak it kept to below the least peak it dropped; both ends
  are moved so far.
- When nothing is left between the two ends, T is too small for this segment at any budget: it is doubled, and the
  upper end is Kahn's peak again. Each budget tried brings the ends nearer, and T need not grow beyond the number of
  sets of one step: so it ends, by itself or by the limits.

**T** is the paper's limit on the time of a search step: `step_seconds`. By default it is a number of sets that a step
may hold, so that the same call gives the same order on every machine; 65,536 sets are about 0.2 seconds. The paper does
not give its T.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from lowtide import _core
from lowtide.analyse.liveness import largest_single_op
from lowtide.analyse.storage import MemoryModel
from lowtide.certificates import Certificate, NoCertificate, SearchCertificate
from lowtide.errors import InputError
from lowtide.schedule.method import Schedule, core_model
from lowtide.schedule.order import Kahn
from lowtide.stop import Limits, Progress
from lowtide_research.schedule.serenity_parts import at_hourglasses, at_ops, cell_outputs, joined

Cells = Literal["hourglass", "cell"]
Update = Literal["bracketed", "printed"]


@dataclass(frozen=True)
class Serenity:
    """SERENITY's schedule. Of least peak if it ends by itself, unless it is divided at cells or gives a segment up.

    Attributes
    ----------
    divide_and_conquer
        Schedule the graph in segments (section 3.2), else as a whole.
    soft_budget
        Algorithm 2 around Algorithm 1, else Algorithm 1 without a budget.
    update
        How Algorithm 2 moves the budget: ``"bracketed"`` ends by itself, ``"printed"`` may give a segment up.
    step_limit
        T of Algorithm 2: sets of ops that a search step may hold. Doubled where no budget keeps within it, unless
        `update` is ``"printed"``.
    step_seconds
        T in wall seconds of a search step, as in the paper; 0: T is `step_limit`.
    cells
        Where to divide: ``"hourglass"``, after ops that every order passes with all ancestors done and no descendant
        (exact); ``"cell"``, after the ops that end a cell, as in HMCOS's comparison (not exact).
    cell_output
        With ``cells="cell"``: op types, separated by commas, of which one ends each cell.
    sequences
        Join ops to sequences first, as in HMCOS's comparison, where that loses no best order. SERENITY's paper takes
        convolution, activation and normalisation for one node to begin with.

    Raises
    ------
    InputError
        `step_limit` is below 1, or `step_seconds` is negative.

    Examples
    --------
    >>> from lowtide_research import zoo
    >>> from lowtide.analyse.storage import memory_model
    >>> from lowtide.target import BUILT_IN
    >>> model = memory_model(zoo.build("nasnet_a_imagenet").graph(), BUILT_IN["hmcos"])
    >>> made = hmcos_comparison().schedule(model, Limits())
    >>> round(max(made.counters["segment_peak_bytes"]) / 2**20, 3)
    4.406
    """

    name: ClassVar[str] = "serenity"
    slow: ClassVar[bool] = True
    left_counter: ClassVar[str] = "nodes"

    divide_and_conquer: bool = True
    soft_budget: bool = True
    update: Update = "bracketed"
    step_limit: int = 65_536
    step_seconds: float = 0.0
    cells: Cells = "hourglass"
    cell_output: str = "Concat,CONCATENATION,aten.cat"
    sequences: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.step_limit < 2**62:
            raise InputError(f"serenity.step_limit is {self.step_limit}; take from 1 to 2**62 - 1 sets for a step")
        if not 0 <= self.step_seconds < math.inf:
            raise InputError(f"serenity.step_seconds is {self.step_seconds}; take seconds, or 0 for none")

    @property
    def exact(self) -> bool:
        """Whether a search that ends by itself has looked at every order that can matter."""
        return self.cells == "hourglass" or not self.divide_and_conquer

    def supports(self, model: MemoryModel) -> str | None:
        """Every graph is supported; what cannot be divided takes long where it is wide."""
        return None

    def segments(self, model: MemoryModel) -> list[list[list[int]]]:
        """The segments in the order in which they run, each a list of nodes, each a list of positions."""
        graph = model.graph
        if not self.divide_and_conquer:
            parts = [list(range(len(graph.ops)))] if graph.ops else []
        elif self.cells == "hourglass":
            parts = at_hourglasses(graph)
        else:
            parts = at_ops(graph, cell_outputs(graph, self.cell_output.split(",")))
        return joined(model, parts) if self.sequences else [[[v] for v in part] for part in parts]

    def schedule(self, model: MemoryModel, limits: Limits) -> Schedule:
        """Schedule segment after segment; what is not done within the limits keeps Kahn's order.

        If an exact search ends by itself, the peak is the lower bound: no order has less. The counters are

        ``nodes``
            Nodes of each segment (the third column of the paper's Table 2).
        ``solved``, ``segment_peak_bytes``, ``kahn_peak_bytes``
            Segments with a best order, the peak of each, and of Kahn's order as divided.
        ``states``, ``moves``
            Sets of ops kept, and pairs of a set and a node tried, by all runs of Algorithm 1 together.
        ``widest_step``, ``search_memory_bytes``
            The most sets in one step, and the most memory for sets.
        ``runs``
            Runs of Algorithm 1 by result: ``solution``, ``no solution``, ``timeout``, ``stopped``.
        ``budget_steps``
            Of segments that took more than one run, each run: segment, budget in bytes, T, result, states, moves.
        """
        segments = self.segments(model)
        core = core_model(model)

        def report(best: int, seconds: float) -> bool:
            try:
                if limits.report is not None:
                    limits.report(Progress(best, 0, seconds))
            except KeyboardInterrupt:
                return True
            return False

        result = _core.serenity(
            core,
            segments=segments,
            soft_budget=self.soft_budget,
            printed=self.update == "printed",
            step_limit=self.step_limit,
            step_seconds=self.step_seconds,
            seconds=limits.left_seconds,
            memory_bytes=limits.memory_bytes,
            report=report,
        )
        order, peak = tuple(result.order), result.peak
        counters = _counters(segments, result)
        if result.stopped != "complete":
            kahn = Kahn().schedule(model, limits).order
            order = order if peak <= core.peak(kahn) else kahn
            return Schedule(order, stopped=result.stopped, counters=counters)
        if not self.exact or result.solved < len(segments):
            return Schedule(order, counters=counters)
        certificate: Certificate = NoCertificate()
        if peak > largest_single_op(model):
            certificate = SearchCertificate(
                refuted_bytes=peak - 1,
                direction="forward",
                states=result.states,
                switches={
                    "divide_and_conquer": self.divide_and_conquer,
                    "soft_budget": self.soft_budget,
                    "sequences": self.sequences,
                },
            )
        return Schedule(order, peak, certificate, "proof", counters)


def _counters(segments: list[list[list[int]]], result: _core.SerenityResult) -> dict[str, Any]:
    attempts = result.attempts
    runs_of = Counter(attempt.segment for attempt in attempts)
    return {
        "nodes": [len(nodes) for nodes in segments],
        "solved": result.solved,
        "segment_peak_bytes": result.segment_peaks,
        "kahn_peak_bytes": result.kahn_peak,
        "states": result.states,
        "moves": result.moves,
        "widest_step": result.widest,
        "search_memory_bytes": result.memory_bytes,
        "runs": dict(Counter(attempt.flag for attempt in attempts)),
        "budget_steps": [
            {
                "segment": attempt.segment,
                "budget_bytes": attempt.budget,
                "step_limit": attempt.step_limit,
                "result": attempt.flag,
                "states": attempt.states,
                "moves": attempt.moves,
            }
            for attempt in attempts
            if runs_of[attempt.segment] > 1
        ],
    }


def rows() -> dict[str, Serenity]:
    """The option sets of the paper's Table 2, by what the table calls them."""
    return {
        "DP": Serenity(divide_and_conquer=False, soft_budget=False),
        "DP + divide and conquer": Serenity(soft_budget=False),
        "DP + divide and conquer + adaptive soft budgeting": Serenity(),
    }


def hmcos_comparison() -> Serenity:
    """The options that give SERENITY's column of HMCOS's Table 1: cells one after the other, no soft budget. HMCOS
    switched the soft budget off because T had to be set by hand (section 4.2); the peaks are the same with it."""
    return Serenity(soft_budget=False, cells="cell", sequences=True)
