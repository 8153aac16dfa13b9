"""What ops cost in time, as a call says it: a cost file, and how much longer a plan may take."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from lowtide.cost.file import CostFile, expected, operations, predicted_within, read_cost, stand_in
from lowtide.errors import InputError
from lowtide.rewrites import PlanCost
from lowtide.sizes import parse_overhead

if TYPE_CHECKING:
    from lowtide.cost.model import CostModel, Prediction
    from lowtide.transform.cut import Cutter


@dataclass(frozen=True)
class Costs:
    """A cost file, and the bound on time.

    Attributes
    ----------
    file, sha256
        The cost file and its hash.
    place
        Where it comes from, for errors.
    max_overhead
        Part of the uncut model's predicted time that a plan may take more; None: any.
    given
        Whether the call names the file; else it is the default.
    timed
        Whether the file says what ops take; else it counts their operations.
    """

    file: CostFile
    sha256: str
    place: str
    max_overhead: float | None = None
    given: bool = True
    timed: bool = True

    def of_operations(self, dialect: str) -> Costs:
        """The same bound on the operations of a model, whatever time they take."""
        file = operations(dialect)
        return Costs(
            file, sha256(file.to_json()).hexdigest(), "operations", self.max_overhead, given=False, timed=False
        )

    def model(self, cutter: Cutter) -> CostModel:
        """The file looked up for a graph. Raises `InputError` if it is of another dialect."""
        from lowtide.cost.model import CostModel

        return CostModel(self.file, cutter, self.place)

    def most_nanoseconds(self, whole: Prediction) -> int:
        """What a plan's ops may take, added up; 0: any time."""
        if self.max_overhead is None:
            return 0
        return max(1, int(whole.nanoseconds * (1 + predicted_within(self.file.trials, self.max_overhead))))

    def expected(self, whole: Prediction, nanoseconds: int) -> int:
        """What a model in parts takes whose ops take so long added up: as trials have shown."""
        if not self.file.trials:
            return nanoseconds
        before = max(1, whole.nanoseconds)
        return max(1, round(before * (1 + expected(self.file.trials, nanoseconds / before - 1))))

    def of_plan(self, whole: Prediction, planned: Prediction | None = None) -> PlanCost:
        """What a plan says of its time; without what its ops take, that of the model uncut."""
        after = whole.nanoseconds if planned is None else self.expected(whole, planned.nanoseconds)
        planned = planned or whole
        return PlanCost(
            predicted_seconds=after / 1e9,
            uncut_seconds=whole.nanoseconds / 1e9,
            overhead=after / max(1, whole.nanoseconds) - 1,
            max_overhead=self.max_overhead,
            cost_file=self.sha256,
            level=self.file.level,
            device=self.file.device,
            threads=self.file.threads,
            measured=planned.by["measured"],
            between=planned.by["between"],
            roofline=planned.by["roofline"],
        )


def find_costs(cost: CostFile | str | Path | None, max_overhead: str | float | None = None) -> Costs | None:
    """The costs that a call names: a file, or for a bound alone the stand-in; None if it names none. Raises
    `InputError`: the file is none, or the bound is no part of a time."""
    most = None if max_overhead is None else parse_overhead(max_overhead)
    if cost is None:
        return None if most is None else Costs(*stand_in(), "cpu.json", most, given=False)
    if isinstance(cost, CostFile):
        return Costs(cost, sha256(cost.to_json()).hexdigest(), "cost file", most)
    if not str(cost):
        raise InputError("--cost names no file")
    return Costs(*read_cost(cost), str(cost), most)
