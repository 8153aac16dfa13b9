"""Rules of ops, cuts and links of training steps, broken on purpose: do random decisions, executed, notice?

    python tests/fission_mutations.py [NAME ...] [--steps N]

For each mutation the package is copied, changed, and put through `stress_fission.py` until the first flaw: a plan that
verify refuses, results that are others, or a crash. The exit status is 1 if a mutation survives.

Left out, for nothing goes wrong without them: what only proposes regions (classes of dimensions, the fission tree), as
`region_of` looks at each region itself; what labels cannot say (windows, maxima, other numbers of rows), and what the
zoo's do not (rows twice in an operand). What is read in two ways is hardly drawn: `tests/transform/test_fission.py` has
a case of each.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from support.mutation import Mutation, apply, options, survivors

ROOT = Path(__file__).resolve().parent.parent
SECONDS = 900


_RESEARCH = "packages/research/src"
_REGION, _LABELS, _STEPS = "transform/fission.py", "ops/labels.py", "../../tests/support/step_runs.py"
_NET = f"../../{_RESEARCH}/lowtide_research/zoo/step_net.py"
_SWAPS, _SIBLINGS, _WIDER = "optimize/recompute/swaps.py", "transform/siblings.py", "transform/sibling_ops.py"

FISSION_MUTATIONS = (
    # What an op says of its rows.
    Mutation("softmax_by_elements", _NET, 'y = self.rows("softmax", [x], whole=last)',
                    'y = self.rows("softmax", [x])'),
    Mutation("softmax_backward_by_elements", _NET, '[self.rows("softmax_backward", [g, y], whole=last)]',
                    '[self.rows("softmax_backward", [g, y])]'),
    Mutation("reshape_keeps_the_next_row", _NET,
                    'labels = f"n{\' .\' * (len(x.shape) - 1)} -> n{\' .\' * (len(shape) - 1)}"',
                    'labels = f"n s{\' .\' * (len(x.shape) - 2)} -> n s{\' .\' * (len(shape) - 2)}"'),
    Mutation("convolution_without_halo", _NET, '"n c . ., o c . . -> n o . .", flops, **how)',
                    '"n c y ., o c . . -> n o y .", flops, **how)'),
    Mutation("convolution_backward_without_halo", _NET, 'labels = "n o . ., o c . . -> n c . ."',
                    'labels = "n o y ., o c . . -> n c y ."'),
    Mutation("weights_gradient_sums_rows", _NET, 'labels = "n c . ., n o . . -> o c . ."',
                    'labels = "n c y ., n o y . -> o c . ."'),
    Mutation("pool_without_windows", _NET, 'labels = ", ".join(["n c . ."] * len(inputs)) + " -> n c . ."',
                    'labels = ", ".join(["n c y ."] * len(inputs)) + " -> n c y ."'),
    # What words mean.
    Mutation("whole_is_a_word", _LABELS, 'UNTILED = "."', 'UNTILED = ","'),
    Mutation("operands_in_the_other_order", _LABELS, "for side in (reads, writes))",
                    "for side in (reads[::-1] if len(set(read_shapes)) == 1 else reads, writes))"),
    Mutation("one_row_is_sliced", "ops/access.py", "(broadcast and size == 1 != lengths[number[label]])",
                    "False"),
    # What may be cut.
    Mutation("sums_read_in_parts", _REGION, "if dims[t] is None:\n", "if False:\n"),
    Mutation("other_rows_read", _REGION, "if dim != dims[t]:\n", "if False:\n"),
    Mutation("not_convex", _REGION, "    _check_convex(graph, axes)\n    return region", "    return region"),
    # What a part is.
    Mutation("smallest_part", _REGION, "largest, inside = parts.largest, dict(region.axes)",
                    "largest, inside = parts.rows[0][0], dict(region.axes)"),
    Mutation("scattered_rows_not_copied", _REGION,
                    "prod((graph.tensor_by_id[t].shape or ())[: dims[t]]) > 1:", "False:"),
    Mutation("results_kept_inside", _REGION, "return kept or any(reader not in inside",
                    "return any(reader not in inside"),
    Mutation("results_read_outside_forgotten", _REGION, "return kept or any(reader not in inside",
                    "return kept or all(reader not in inside"),
    Mutation("joins_for_nothing", _REGION, 'total += _glue(estimate, "join", 2 * size, region, parts) or 0.0',
                    "total += 0.0"),
    Mutation("sums_for_nothing", _REGION, 'total += parts.added * estimate("merge", 0, 3 * size)',
                    "total += 0.0"),
    Mutation("parts_need_no_weights", _REGION,
                    "inputs = (*(t for t, _ in loop.region.sliced), *loop.region.untiled)",
                    "inputs = tuple([t for t, _ in loop.region.sliced])"),
    Mutation("first_part_adds", _REGION, "Parts(((first, 1),), 0): 1}", "Parts(((first, 1),), 1): 1}"),
    Mutation("loads_take_no_time", _SWAPS, "max(loading, now) + row.load", "now"),
    Mutation("regions_read_all_that_one_reads", _REGION, "replacement.update(dict.fromkeys(inside, fresh + k))",
                    "replacement.update(dict.fromkeys(inside, fresh))"),
    # Products that become one.
    Mutation("gradients_read_by_others", _SIBLINGS,
                    "if set(graph.consumers[gradient.inputs[1]]) != expected:", "if False:"),
    Mutation("results_of_several_readers_turned", _SIBLINGS,
                    "if len(readers := graph.consumers.get(t, ())) == 1]",
                    "if (readers := graph.consumers.get(t, ()))]"),
    Mutation("other_terms_forgotten", _SIBLINGS, "return tuple(ordered), others", "return tuple(ordered), ()"),
    Mutation("siblings_in_the_other_order", _WIDER, "[op.outputs[0] for op in site.turns] or results)",
                    "([op.outputs[0] for op in site.turns] or results)[::-1])"),
    Mutation("gradients_not_turned", _WIDER, "if turned else tuple(range(rank))",
                    "if turned and kind == SPLIT else tuple(range(rank))"),
    Mutation("gradients_of_weights_added_up", _WIDER,
                    "self._product(site.gradients, (x, dy), dw, (None, at, 0))",
                    "self._product(site.gradients, (x, dy), dw, (None, at, None))"),
    Mutation("side_by_side_is_cut", _WIDER, "wide.insert(self.at, UNTILED)", 'wide.insert(self.at, "z")'),
    Mutation("updated_weights_swapped", _STEPS, "results |= zip(of, results.pop(wide), strict=True)",
                    "results |= zip(of[::-1], results.pop(wide), strict=True)"),
    # How parts run.
    Mutation("clones_of_regions_swapped", _STEPS, "[results[t] for t in sorted(self.region.results)]",
                    "[results[t] for t in self.region.results]"),
    Mutation("loads_what_was_there_first", _STEPS, "stored[op.after[0]].copy()",
                    "next(iter(stored.values())).copy()"),
    Mutation("sums_of_the_last_part", _STEPS,
                    "results[t] + rows if t in results else rows.copy()", "rows.copy()"),
    Mutation("results_a_row_further", _STEPS, "(slice(None),) * joined[t], slice(first, end))] = rows",
                    "(slice(None),) * joined[t], slice(first + 1, end + 1))] = rows[..., :1] * 0"),
    Mutation("parts_overlap", _STEPS, "            first = end\n", "            first = max(0, end - 1)\n"),
    Mutation("parts_from_the_first_row", _STEPS, "            first = end\n", ""),
    Mutation("kept_too_short", _STEPS, "if last.get(t, step) == step and t not in keep:", "if t not in keep:"),
)  # fmt: skip


def stress(folder: Path, steps: int) -> tuple[bool, str]:
    """Whether the random decisions hold with the package in `folder`, and the last word on them."""
    command = [sys.executable, folder / "tests" / "stress_fission.py", str(steps), "--stop"]
    sources = os.pathsep.join([str(folder / "src"), str(folder / _RESEARCH)])
    path = {**os.environ, "PYTHONPATH": sources, "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False, env=path)
    except subprocess.TimeoutExpired:
        return True, "not within the time"
    lines = run.stdout.strip().splitlines() or run.stderr.strip().splitlines()[-1:] or ["no message"]
    return run.returncode == 0, next((line for line in lines if line.startswith("seed ")), lines[-1])


def changed(mutation: Mutation, folder: Path, steps: int) -> tuple[bool, str]:
    """The same with the mutation in the package, which is then as it was."""
    package = folder / "src" / "lowtide"
    whole = (package / mutation.file).read_text(encoding="utf-8")
    apply(mutation, package)
    result = stress(folder, steps)
    (package / mutation.file).write_text(whole, encoding="utf-8")
    return result


def main() -> int:
    """Run all mutations, or those named; the exit status is 1 if one survives."""
    chosen, steps = options(__doc__, FISSION_MUTATIONS, "steps", 400)
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        for part in ("src", "tests", _RESEARCH):  # as they are now, whatever is edited meanwhile
            shutil.copytree(ROOT / part, here / part, ignore=shutil.ignore_patterns("__pycache__"))
        passed, word = stress(here, 60)
        if not passed:
            print(f"decisions do not hold as it is: {word}")
            return 1
        return 1 if survivors(chosen, lambda mutation: changed(mutation, here, steps)) else 0


if __name__ == "__main__":
    sys.exit(main())
