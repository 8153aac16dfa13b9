"""What became of a model since another version of it: both planned, for a summary in continuous integration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lowtide.api.fitting import check
from lowtide.api.planning import plan
from lowtide.errors import InputError
from lowtide.plan import Plan
from lowtide.report.ci import ModelChange
from lowtide.stop import Progress


@dataclass(frozen=True)
class Version:
    """What a version of a model needs, in bytes, and its plan; None of a file that cannot be planned.

    Where the file order is judged (`as_is`) there is no plan.
    """

    required_bytes: int | None = None
    plan: Plan | None = None

    @property
    def live_bytes(self) -> tuple[int, ...]:
        """Footprint of each step of the plan."""
        return () if self.plan is None or self.plan.profile is None else tuple(self.plan.profile.bytes)


@dataclass(frozen=True)
class Versions:
    """A model now and before; `before` is None if there is no such file, and `now` itself if it has the same bytes."""

    now: Version
    before: Version | None


def versions(
    model: str | Path,
    before: str | Path | None,
    settings: Mapping[str, Any],
    report: Callable[[Progress], None] | None = None,
) -> Versions:
    """Plan a model and its version before, under the same `settings` of `lowtide.check`."""
    now = _version(model, settings, report)
    if before is None or not Path(before).is_file():
        return Versions(now, None)
    same = Path(before).read_bytes() == Path(model).read_bytes()
    return Versions(now, now if same else _version(before, settings, report))


def _version(path: str | Path, settings: Mapping[str, Any], report: Callable[[Progress], None] | None) -> Version:
    rest = {name: value for name, value in settings.items() if name != "as_is"}
    try:
        if settings.get("as_is"):
            return Version(check(path, as_is=True, report=report, **rest).required_bytes)
        found = plan(path, report=report, **rest)
        return Version(found.required_bytes, found)
    except InputError:
        return Version()


def change(name: str, verdict: str, available: str, seen: Versions) -> ModelChange:
    """A row of the summary, with the live bytes that its picture draws."""
    now, before, same = seen.now, seen.before or Version(), seen.before is seen.now
    return ModelChange(
        name, verdict, available, now.required_bytes, before.required_bytes, now.live_bytes,
        () if same else before.live_bytes, is_new=seen.before is None, same=same,
        room_bytes=None if now.plan is None else now.plan.budget_bytes,
    )  # fmt: skip
