"""Forged plans, each of which is wrong, by the thousand: does the checker accept one?

    python tests/stress_forgeries.py [--count 20000] [--seed 0] [--kinds KIND ...]

Honest plans of small models, of every kind that there is, are forged: any one word of them, figures that are altered
together, bounds with their certificates, statuses with their budgets, decisions that cannot be (`support/forgeries`).
What only a second search can tell is refused with `prove=True`. The exit status is 1 if a forged plan is accepted, if
an honest one is refused, or if the checker falls over.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from random import Random

from lowtide.errors import VerificationError
from support.forgeries.bases import KINDS, base
from support.forgeries.forge import forgeries
from support.forgeries.judge import ACCEPTED, BY_WORD, judged, pending, verdict


@dataclass
class Tally:
    """What became of the forgeries, by family and by kind of plan."""

    families: dict[str, Counter[str]] = field(default_factory=dict)
    kinds: Counter[str] = field(default_factory=Counter)
    plans: int = 0
    wrong: int = 0
    known: Counter[str] = field(default_factory=Counter)
    flaws: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def table(self, words: str) -> str:
        """As Markdown."""
        every = sum(self.families.values(), Counter[str]())
        refused = every.total() - every[ACCEPTED] - every[BY_WORD]
        lines = [
            "# Forged plans",
            "",
            f"`python tests/stress_forgeries.py {words}`: {self.wrong:,} plans that are wrong, made of {self.plans:,} "
            f"honest ones of {len(self.kinds)} kinds, in {len(self.families)} families; "
            f"{1000 * self.seconds / max(1, self.wrong):.1f} s for a thousand. Refused {refused:,}; accepted on a "
            f"search's word and refused by a second one (`--prove`) {every[BY_WORD]:,}; accepted {len(self.flaws):,}.",
            "",
            "| family | forged | refused | only with `--prove` | accepted | refused as |",
            "|---|--:|--:|--:|--:|---|",
        ]
        for family, seen in sorted(self.families.items()):
            total, accepted = sum(seen.values()), seen[ACCEPTED]
            as_what = Counter({said: n for said, n in seen.items() if said not in (ACCEPTED, BY_WORD)})
            names = ", ".join(f"{said} {n:,}" for said, n in as_what.most_common(4))
            lines.append(
                f"| {family} | {total:,} | {sum(as_what.values()):,} | {seen[BY_WORD]:,} | {accepted:,} | {names} |"
            )
        lines += ["", "| kind of plan | forged |", "|---|--:|"]
        lines += [f"| {kind} | {n:,} |" for kind, n in sorted(self.kinds.items())]
        if self.known:
            lines += ["", "Not counted above, as the checker is known to take them on trust (`PENDING`), accepted:", ""]
            lines += [f"- {family}: {n:,}" for family, n in sorted(self.known.items())]
        return "\n".join(lines) + "\n"


def hunt(tally: Tally, kind: str, seed: int, most: int) -> None:
    """Forge the plan of a kind and a seed, `most` times at most."""
    try:
        on = base(kind, seed)
    except VerificationError as error:
        tally.flaws.append(f"kind {kind!r} seed {seed}: the planner's own plan is refused: {error}")
        return
    if on is None:
        return
    tally.plans += 1
    random = Random(f"forge {kind} {seed}")
    if (said := verdict(on, on.document)) != ACCEPTED:
        tally.flaws.append(f"kind {kind!r} seed {seed}: the honest plan is refused: {said}")
        return
    drawn = list(forgeries(on, random, most=min(24, most)))
    began = time.perf_counter()
    for forged in random.sample(drawn, min(most, len(drawn))):
        said = judged(on, forged)
        if pending(forged) and (said == ACCEPTED or said.startswith("crash")):
            tally.known[forged.family] += 1
            continue
        tally.wrong += 1
        tally.kinds[kind] += 1
        tally.families.setdefault(_family(forged.family), Counter())[said.partition(":")[0]] += 1
        if said == ACCEPTED or said.startswith("crash"):
            tally.flaws.append(f"{said} {forged.family}: {forged.why}")
            print(f"seed {seed} {said} {forged.family}: {forged.why}", flush=True)
    tally.seconds += time.perf_counter() - began


def _family(name: str) -> str:
    """A family's name; of a changed word, what it is a word of."""
    what, _, where = name.partition(": ")
    return f"{what}: {where.split('.')[0]}" if where else name


def main(words: Sequence[str] | None = None) -> int:
    """Forge until there are as many as asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--each", type=int, default=60, help="forgeries of a plan, at most")
    parser.add_argument("--kinds", nargs="*", default=list(KINDS), choices=list(KINDS), metavar="KIND")
    chosen = parser.parse_args(words)
    tally = Tally()
    for seed in count(chosen.seed):
        for kind in chosen.kinds:
            if tally.wrong < chosen.count:
                hunt(tally, kind, seed, min(chosen.each, chosen.count - tally.wrong))
        if tally.wrong >= chosen.count:
            break
    print(tally.table(f"--count {chosen.count} --seed {chosen.seed}"))
    for line in tally.flaws:
        print(line)
    return 1 if tally.flaws else 0


if __name__ == "__main__":
    sys.exit(main())
