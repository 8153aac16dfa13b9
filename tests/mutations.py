"""Every pruning, fusion and bound rule of the core, broken on purpose: does the stress test notice?

    python tests/mutations.py [NAME ...] [--graphs N]

For each mutation the core is copied, changed, compiled again where the change reaches, and put through
`stress_exact.py`, or `stress_place.py`, until the first flaw. A crash or a search that does not end counts as noticed,
too. The exit status is 1 if a mutation survives.

Left out, for nothing goes wrong without them: the repair of best-first (argued in docs/proofs.md, section 5), and
what is remembered of a state's exit (whoever was given it has followed it; met again, the state is nearly always dead).
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from support.mutation import Mutation, apply, options, survivors

ROOT = Path(__file__).resolve().parent.parent
CORE = ROOT / "core"
SECONDS = 240
"""A stress run that takes longer on a processor, whatever else runs there, has noticed that a search does not end."""


MUTATIONS = (
    # The one-op rule.
    Mutation("closure_ignores_hill", "order/walker.cc", "if (f + o.hill > budget) {", "if (false) {"),
    Mutation("closure_takes_rises", "order/walker.cc", "if (o.change > 0) continue;", "if (o.change > 2) continue;"),
    # Safe moves.
    Mutation(
        "safe_move_not_alone",
        "order/mover.cc",
        "if (length_ == 1) return began_alone();",
        "if (length_ == 1) return true;",
    ),
    Mutation(
        "safe_move_rises",
        "order/mover.cc",
        "if (!rules.safe_moves || after > f) return false;",
        "if (!rules.safe_moves || after > f + 2) return false;",
    ),
    Mutation("safe_move_of_several_not_lowest", "order/mover.cc", "return lowest >= after;", "return true;"),
    # Moves on demand.
    Mutation("demand_all_plain", "order/demand.cc", "plain_.push_back(is_plain(p, m));", "plain_.push_back(1);"),
    Mutation(
        "demand_nothing_ends",
        "order/demand.cc",
        "state_[m] = plain_[m] && !ends_any(walker, own, -1) ? kQuiet : kHead;",
        "state_[m] = plain_[m] ? kQuiet : kHead;",
    ),
    Mutation(
        "demand_no_storages",
        "order/demand.cc",
        "if (p_.users.length(s) - walker.count(s) > 1) list_storage(walker, s, moves);",
        "if (p_.users.length(s) - walker.count(s) > 2) list_storage(walker, s, moves);",
    ),
    Mutation(
        "demand_no_sets",
        "order/demand.cc",
        "if (early.empty()) return true;",
        "return true;",
    ),
    Mutation("demand_no_rest", "order/demand.cc", "if (quiet == p_.n - walker.done())", "if (false)"),
    Mutation(
        "demand_highest_last",
        "order/demand.cc",
        "move.outcome.hill < best.outcome.hill",
        "move.outcome.hill > best.outcome.hill",
    ),
    Mutation(
        "demand_early_finishes_not_wanted",
        "order/demand.cc",
        "if (item.kind == Item::kFinish && i < p.last_op[m]) early_",
        "if (false) early_",
    ),
    Mutation("demand_nothing_written_over", "order/demand.cc", "over.push_back(-1);", "over.assign(1, -1);"),
    Mutation(
        "demand_one_finished_early",
        "order/demand.cc",
        "if (s < 0 && (subset & (subset - 1)) == 0) continue;",
        "if (s < 0 || (subset & (subset - 1)) != 0) continue;",
    ),
    # Commits and their repair.
    Mutation(
        "commit_above_root",
        "order/best_first.cc",
        "if (move_.rules.commits && at != 0 && nodes_[at].f <= nodes_[0].f) {",
        "if (move_.rules.commits && at != 0) {",
    ),
    Mutation(
        "commit_above_state_nested",
        "order/nested.cc",
        "if (move_.rules.commits && stack_[mine].path_f <= stack_[mine].f) {",
        "if (move_.rules.commits) {",
    ),
    Mutation(
        "exit_without_repair",
        "order/nested.cc",
        "exit_f_ = repair(move_.walker, frame.f, frame.path_f, frame.path);",
        "exit_f_ = frame.path_f;",
    ),
    Mutation(
        "repair_never_needed", "order/mover.cc", "if (f + lowest.change >= f_end) return f_end;", "return f_end;"
    ),
    Mutation(
        "lowest_without_precedence",
        "order/lowest.cc",
        "if (const auto it = node.find(*u); it != node.end()) net.add_arc",
        "if (const auto it = node.find(*u); it != node.end() && false) net.add_arc",
    ),
    Mutation(
        "lowest_pays_twice",
        "order/lowest.cc",
        "if (p.begins[s] && walker.count(s) == 0) {",
        "if (p.begins[s]) {",
    ),
    Mutation(
        "lowest_refunds_early",
        "order/lowest.cc",
        "if (p.finishes[s] && walker.count(s) + static_cast<int>(here.size()) == p.users.length(s)) {",
        "if (p.finishes[s]) {",
    ),
    # What a search remembers.
    Mutation(
        "open_is_dead",
        "order/nested.cc",
        "if (fate_[state] == kDead) {",
        "if (fate_[state] == kDead || fate_[state] == kOpen) {",
    ),
    Mutation(
        "fates_outlive_the_root",
        "order/nested.cc",
        "        fate_.clear();\n",
        "",
    ),
    Mutation(
        "states_told_apart_by_nothing",
        "order/state_table.h",
        """      if (slots_[slot].tag != tag) continue;
      const uint64_t* record = &records_[slots_[slot].record];
      if (record[0] == extent(first_word, length) &&""",
        """      const uint64_t* record = &records_[slots_[slot].record];
      if (true ||""",
    ),
    Mutation(
        "all_is_decided_by_any_refutation",
        "order/incumbent.cc",
        "return budget >= peak() - unit_ ||",
        "return budget >= lower_bound() ||",
    ),
    # What a refuted budget says about larger ones.
    Mutation(
        "next_not_seen_best_first",
        "order/best_first.cc",
        "next_ = std::min(next_, move_.look_around(f));",
        "move_.look_around(f);",
    ),
    Mutation(
        "next_not_seen_nested",
        "order/nested.cc",
        "next_ = std::min(next_, move_.look_around(frame.f));",
        "move_.look_around(frame.f);",
    ),
    Mutation(
        "next_is_the_last_hill",
        "order/mover.cc",
        "next = std::min(next, f + o.hill);",
        "next = f + o.hill;",
    ),
    Mutation(
        "next_above_a_unit",
        "order/incumbent.cc",
        "budget / unit_ * unit_ + unit_",
        "budget + unit_",
    ),
    Mutation("unit_without_workspace", "base/model.cc", "unit = std::gcd(unit, w);", "unit = std::gcd(unit, w * 0);"),
    # Fusion.
    Mutation("fuse_a_any_preds", "order/fuse.cc", "if (rules.a && only_pred && v.", "if (rules.a && v."),
    Mutation("fuse_a_rises", "order/fuse.cc", "only_pred && v.change_most <= 0 && v.up_most", "only_pred && v.up_most"),
    Mutation("fuse_a_any_hill", "order/fuse.cc", "v.change_most <= 0 && v.up_most <= u.down_least)",
             "v.change_most <= 0)"),
    Mutation(
        "fuse_a_change_at_the_end", "order/fuse.cc", "only_pred && v.change_most <= 0 && v.up_most",
        "only_pred && v.change_least <= 0 && v.up_most",
    ),
    Mutation("fuse_a_hill_at_the_end", "order/fuse.cc", "v.up_most <= u.down_least", "v.up_least <= u.down_least"),
    Mutation("fuse_a_drop_at_the_end", "order/fuse.cc", "v.up_most <= u.down_least", "v.up_most <= u.down_most"),
    Mutation("fuse_b_any_succs", "order/fuse.cc", "if (rules.b && only_succ && u.", "if (rules.b && u."),
    Mutation("fuse_b_falls", "order/fuse.cc", "only_succ && u.change_least >= 0 && u.down", "only_succ && u.down"),
    Mutation("fuse_b_any_hill", "order/fuse.cc", "u.change_least >= 0 && u.down_most <= v.up_least)",
             "u.change_least >= 0)"),
    Mutation(
        "fuse_b_change_at_the_start", "order/fuse.cc", "only_succ && u.change_least >= 0 && u.down",
        "only_succ && u.change_most >= 0 && u.down",
    ),
    Mutation("fuse_b_drop_at_the_start", "order/fuse.cc", "u.down_most <= v.up_least", "u.down_least <= v.up_least"),
    Mutation("fuse_b_hill_at_the_start", "order/fuse.cc", "u.down_most <= v.up_least", "u.down_most <= v.up_most"),
    Mutation("fuse_c_any_preds", "order/fuse.cc", "rules.c && only_pred && only_succ &&", "rules.c && only_succ &&"),
    Mutation("fuse_c_any_succs", "order/fuse.cc", "rules.c && only_pred && only_succ &&", "rules.c && only_pred &&"),
    Mutation(
        "fuse_c_falls", "order/fuse.cc", "only_succ && u.change_least >= 0 && v.change_most <= 0 &&",
        "only_succ && v.change_most <= 0 &&",
    ),
    Mutation(
        "fuse_c_rises", "order/fuse.cc", "only_succ && u.change_least >= 0 && v.change_most <= 0 &&",
        "only_succ && u.change_least >= 0 &&",
    ),
    Mutation("fuse_c_first_not_static", "order/fuse.cc", "(u.change_static() || u.down_static())", "true"),
    Mutation("fuse_c_second_not_static", "order/fuse.cc", "(v.up_static() && (u.", "(true && (u."),
    Mutation("fuse_pairs_overlap", "order/fuse.cc", "used[u] = used[*v] = 1;", "used[u] = 1;"),
    Mutation(
        "fuse_context_too_late", "order/fuse.cc", "before += reach.before(*t, m);", "before += !reach.before(m, *t);"
    ),
    # Programs.
    Mutation(
        "begin_for_certain", "order/problem.cc",
        "certain = certain && (from_end ? reach.before(other, m) : reach.before(m, other));", "",
    ),
    Mutation(
        "inputs_begin_later", "order/problem.cc", "if (from_end ? storage.at_end : storage.at_start) return -1;",
        "if (from_end && storage.at_end) return -1;",
    ),
    Mutation(
        "outputs_die", "order/problem.cc", "if (from_end ? storage.at_end : storage.at_start) return -1;",
        "if (!from_end && storage.at_start) return -1;",
    ),
    Mutation("start_and_end_swapped", "order/problem.cc", "if (reversed ? storage.at_end : storage.at_start) p.start",
             "if (reversed ? storage.at_start : storage.at_end) p.start"),
    Mutation("change_loses_a_storage", "order/problem.cc", "if (sure > 0) fixed -= model.storages[s].size;",
             "if (sure > 0) fixed -= 0;"),
    Mutation("saves_over_the_living", "order/problem.cc", "sure > 0 ? -1 : shared[o.storage], o.saving",
             "-1, o.saving"),
    Mutation("saves_at_first_touch", "order/problem.cc", "reversed ? first[k] : last[k];", "first[k];"),
    Mutation("reversed_saves_at_last_touch", "order/problem.h", "(reversed ? 0 : users.length(item.storage) - 1)",
             "users.length(item.storage) - 1"),
    Mutation("drop_ignores_savings", "order/problem.cc", "hills.push_back({i, item.bytes - at_most,",
             "hills.push_back({i, item.bytes - surely,"),
    Mutation("drop_ignores_finishes", "order/problem.cc", "if (item.kind == Item::kFinish) finished += item.bytes;",
             ""),
    Mutation("drop_ignores_begins", "order/problem.cc", "if (item.kind == Item::kBegin) begun += item.bytes;", ""),
    # Cuts.
    Mutation("cut_capacity", "order/cut.cc", "net.add_arc(in, out, size);", "net.add_arc(in, out, size + 1);"),
    Mutation("cut_without_precedence", "order/cut.cc", "if (side_[u] == kFree) precedence.push_back",
             "if (false) precedence.push_back"),
    Mutation("cut_most_of_cases", "order/cut.cc", "std::min(cut.value, c.value)", "std::max(cut.value, c.value)"),
    Mutation("cut_never_in_place", "order/cut.cc", "if (may_die) cut.cases", "if (false) cut.cases"),
    Mutation("cut_always_in_place", "order/cut.cc", "may_die = !storage.at_end &&", "may_die = true ||"),
    Mutation("cut_forgets_the_end", "order/cut.cc", "if (storage.at_end) needed_by = -1;", ""),
    Mutation("cut_forgets_the_start", "order/cut.cc", "if (storage.at_start) begun_by = -1;", ""),
    Mutation("cut_shared_bytes_twice", "order/cut.cc", "const Bytes certain = shared ? size - saving : size;",
             "const Bytes certain = size;"),
    Mutation("cut_without_workspace", "order/cut.cc", "result.value = model_.workspace[v];", "result.value = 0;"),
    # What a budget implies.
    Mutation("propagate_the_wrong_way", "order/propagate.cc", "is_before ? std::pair{u, v} : std::pair{v, u}",
             "is_before ? std::pair{v, u} : std::pair{u, v}"),
    Mutation("propagate_within_the_slack", "order/propagate.cc", "slack + 1) <= slack", "slack + 1) < slack"),
    Mutation("propagate_never_in_place", "order/propagate.cc", "constant -= surely;", ""),
    Mutation("propagate_pays_at_once", "order/propagate.cc", "if (before || begins_here) {", "if (true) {"),
    Mutation("propagate_never_refunds", "order/propagate.cc", "if (p.finishes[s] && (!self || finishes_here))",
             "if (p.finishes[s] && false)"),
    # Footprints of orders.
    Mutation("footprint_saves_over_the_living", "base/model.cc", "if (result.last[overwrites[k].storage] == step &&",
             "if (true &&"),
    Mutation("footprint_outputs_die", "base/model.cc", "if (storage.at_end) end = n;", ""),
    # Searches and their paths.
    Mutation("children_over_budget", "order/best_first.cc", "if (f + move_.outcomes[k].hill > move_.budget) continue;",
             "if (f + move_.outcomes[k].hill > move_.budget + 1) continue;"),
    Mutation("children_over_budget_nested", "order/nested.cc",
             "if (frame.f + move_.outcomes[k].hill > move_.budget) continue;",
             "if (frame.f + move_.outcomes[k].hill > move_.budget + 1) continue;"),
    Mutation("last_child_forgotten", "order/nested.cc", "if (frame.next == frame.children.size()) {",
             "if (frame.next + 1 >= frame.children.size() && frame.next > 0) {"),
    Mutation("root_left_unclosed_in_prefix", "order/best_first.cc",
             "prefix_.insert(prefix_.end(), path.begin(), path.end());", ""),
    # Placing buffers.
    Mutation("bound_shares_too_little", "place/bound.cc", "all += saved[i].second;", "all = saved[i].second;"),
    Mutation("bound_counts_what_is_not_apart", "place/bound.cc", "if (!from_all) continue;", ""),
    Mutation("bound_overlap_from_the_start", "place/bound.cc",
             "const Bytes above = pair.distance + q.low - p.low;", "const Bytes above = p.high - p.low;"),
    Mutation("groups_are_plain", "place/items.cc",
             "first_block[i + 1] - first_block[i] == 1 && blocks[first_block[i]].low == 0", "true"),
    Mutation("interlocking_is_exact", "place/items.cc", "if (r.lo >= all.hi) exact = false;", ""),
    Mutation("no_shifts", "place/items.cc", "if (c.up + shift[c.other] < shift[i]) {", "if (false) {"),
    Mutation("paired_ones_are_twins", "place/items.cc", "if (fixed[i] >= 0 || tied[members[i]]) continue;",
             "if (fixed[i] >= 0) continue;"),
    Mutation("fixed_ones_are_twins", "place/items.cc", "if (fixed[i] >= 0 || tied[members[i]]) continue;",
             "if (tied[members[i]]) continue;"),
    Mutation("unit_above_an_alignment", "place/items.cc",
             "if (unit % problem.buffers[i].alignment != 0) unit", "if (false) unit"),
    Mutation("in_place_in_any_order", "place/items.cc",
             "if (c.up + shift[c.other] == shift[i]) before.emplace_back(i, c.other);", ";"),
    Mutation("floors_one_too_high", "place/exact.cc", "if (release + most > height_) {",
             "if (release + most >= height_) {"),
    Mutation("floors_share_nothing", "place/exact.cc", "load_[s] = -shared_[s];", "load_[s] = 0;"),
    Mutation("shared_is_never_given_back", "place/exact.cc",
             "if (!placed_[s.other])\n          for (int k = s.from; k < s.to; ++k) shared_[k] += s.saving;", ";"),
    Mutation("support_from_below_itself", "place/exact.cc", "least = std::min(least, lifter + c.down);",
             "least = std::min(least, lifter + c.up + c.down);"),
    Mutation("dominance_covers_less", "place/exact.cc", "most = std::max(most, c.up + items.shift[c.other]);", ";"),
    Mutation("dominance_moves_what_is_fixed", "place/exact.cc", "} else if (on_.dominance) {",
             "}\n      if (on_.dominance) {"),
    Mutation("twins_in_the_other_order", "place/exact.cc", "in_.twin[i] >= 0 && !placed_[in_.twin[i]]",
             "in_.twin[i] >= 0 && placed_[in_.twin[i]]"),
    Mutation("stacks_of_any_life", "place/exact.cc", "in_.life[i] >= 0 && in_.life[i] == in_.life[c.other] &&",
             "in_.life[i] >= 0 && in_.life[c.other] >= 0 &&"),
    Mutation("stacks_both_ways", "place/exact.cc", "in_.life[c.other] && rank_[c.other] < rank_[i];",
             "in_.life[c.other];"),
    Mutation("memo_forgets_the_offsets", "place/exact.cc", "hash.add(i, 2 * low_[i] + barred_[i]);", "hash.add(i, 0);"),
    Mutation("memo_forgets_the_floor", "place/exact.cc", "if (any_stuck) hash.add", "if (false) hash.add"),
    Mutation("nothing_is_raised", "place/exact.cc", "if (above <= low_[c.other]) continue;", "continue;"),
    Mutation("undo_forgets_the_bar", "place/exact.cc", "barred_[c.item] = c.barred;", ""),
    Mutation("split_within_a_life", "place/exact.cc", "until = std::max(until, in_.to[members[end]]);", ";"),
    Mutation("leaps_are_proofs", "place/exact.cc",
             "return verdict == Verdict::kFails && leapt_ ? Verdict::kOut : verdict;",
             "return verdict;"),
)  # fmt: skip


def script_of(mutation: Mutation) -> str:
    """The stress test that has to notice it."""
    return "stress_place.py" if mutation.file.startswith("place/") else "stress_exact.py"


class Builder:
    """Compiles copies of the core, with the objects of the unchanged core for what a change does not reach."""

    def __init__(self, folder: Path) -> None:
        import nanobind

        base = Path(nanobind.__file__).parent
        self.folder = folder
        include = [nanobind.include_dir(), base / "ext" / "robin_map" / "include", sysconfig.get_path("include")]
        self.flags = ["-std=c++20", "-O1", "-fPIC", "-fvisibility=hidden", "-DNDEBUG", "-w"]
        self.flags += [f"-I{path}" for path in include]
        self.objects = folder / "objects"
        self.objects.mkdir()
        core = folder / "core"
        sources = sorted(core.rglob("*.cc"))
        ready = sorted(set(ROOT.glob("build/*/libnanobind-static.a")) - set(ROOT.glob("build/asan/*")))
        self.runtime = ready[0] if ready else self.objects / "nanobind.o"
        with ThreadPoolExecutor(2) as pool:
            objects = [self.objects / _object(path.relative_to(core)) for path in sources]
            jobs = [pool.submit(self._compile, path, to, core) for path, to in zip(sources, objects, strict=True)]
            if not ready:
                jobs.append(pool.submit(self._compile, base / "src" / "nb_combined.cpp", self.runtime, core))
            for job in jobs:
                job.result()
        self.reads = {path.relative_to(core): self._headers(path, core) for path in sources}

    def build(self, mutation: Mutation | None) -> Path:
        """The core as a Python module, with the mutation or as it is."""
        name = mutation.name if mutation else "unchanged"
        core = self.folder / f"core_{name}"
        shutil.copytree(self.folder / "core", core)
        objects = {path.name: path for path in self.objects.glob("*.o")}
        if mutation:
            apply(mutation, core)
            for source, read in self.reads.items():
                if mutation.file in read:
                    to = core / _object(source)
                    self._compile(core / source, to, core)
                    objects[to.name] = to
        module = core / f"_core{sysconfig.get_config_var('EXT_SUFFIX')}"
        parts = [*objects.values()] + ([self.runtime] if self.runtime.suffix == ".a" else [])
        subprocess.run(["g++", "-shared", "-o", module, *parts], check=True)
        return module

    def _compile(self, source: Path, to: Path, core: Path) -> None:
        subprocess.run(["g++", *self.flags, f"-I{core}", "-c", source, "-o", to], check=True)

    def _headers(self, source: Path, core: Path) -> set[str]:
        """Files of the core that a source reads, itself among them, as paths below the core."""
        command = ["g++", *self.flags, f"-I{core}", "-MM", source]
        words = subprocess.run(command, check=True, capture_output=True, text=True).stdout.replace("\\\n", " ").split()
        return {Path(word).relative_to(core).as_posix() for word in words[1:] if Path(word).is_relative_to(core)}


def _object(source: Path) -> str:
    """Name of an object file: two folders may have sources of one name."""
    return "_".join(source.with_suffix(".o").parts)


def _limited() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 1))


def stress(folder: Path, module: Path, graphs: int, script: str) -> tuple[bool, str]:
    """Whether a stress test in `folder` passes with this core, and its last word."""
    path = {**os.environ, "PYTHONPATH": str(folder / "src")}
    command = [sys.executable, folder / "tests" / script, str(graphs), "--seed", "11", "--stop", "--core", module]
    run = subprocess.run(command, capture_output=True, text=True, check=False, env=path, preexec_fn=_limited)
    lines = run.stdout.strip().splitlines()
    flaw = next((line for line in lines if line.startswith("seed ")), "")
    if run.returncode == -signal.SIGXCPU:
        return False, "does not end"
    if run.returncode < 0:
        return False, f"crash (signal {-run.returncode})"
    if run.returncode and not flaw:
        return False, (run.stderr.strip().splitlines() or ["no message"])[-1]
    return run.returncode == 0, flaw or lines[-1]


def main() -> int:
    """Run all mutations, or those named; the exit status is 1 if one survives."""
    chosen, graphs = options(__doc__, MUTATIONS, "graphs", 12_000)
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        for part in ("src", "tests", "core"):  # as they are now, whatever is edited meanwhile
            shutil.copytree(ROOT / part, here / part)
        builder = Builder(here)
        unchanged = builder.build(None)
        for script in sorted({script_of(m) for m in chosen}):
            passed, word = stress(here, unchanged, graphs, script)
            if not passed:
                print(f"the core fails {script} as it is: {word}")
                return 1
        return 1 if survivors(chosen, lambda m: stress(here, builder.build(m), graphs, script_of(m))) else 0


if __name__ == "__main__":
    sys.exit(main())
