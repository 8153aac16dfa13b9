"""Floors that the checker proves against brute force, on as many drawn graphs as asked for.

    python tests/stress_floors.py regions --seed 0 --count 5000
    python tests/stress_floors.py sequences --seed 0 --count 50000

`regions`: bounds over everything that cuts. `sequences`: what is needed, and what it costs at least, where ops run
again, of the planner and of the checker. Prints each floor that brute force goes below, and the counts.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from verify.check import test_recompute, test_regions


def main() -> int:
    """Run, and say what was found; 1 if a floor is false."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=("regions", "sequences"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=200)
    args = parser.parse_args()
    found: Counter[str] = Counter()
    with TemporaryDirectory() as folder:
        for seed in range(args.seed, args.seed + args.count):
            if args.kind == "sequences":
                false = test_recompute.check(seed)
                found["false" if false else "held"] += 1
            else:
                floor, below = test_regions.check(seed, Path(folder))
                found["undecided" if below is None else "false" if below else "held"] += 1
                false = [f"{floor} bytes are not needed"] if below else []
            if false:
                print(f"seed {seed}: {'; '.join(false)}", flush=True)
    print(dict(found))
    return 1 if found["false"] else 0


if __name__ == "__main__":
    sys.exit(main())
