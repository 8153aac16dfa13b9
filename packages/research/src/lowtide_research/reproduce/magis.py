"""MAGIS (Chen et al., ASPLOS 2024), row by row: its search by name, lowtide's own, and its baselines.

Figures 9 and 10 are bars without numbers: what is printed are the limits of section 7.2's text. Times are a roofline of
its GPU (`rtx3090.json`), not measured; shares are of the peak of the step in file order. Each search has `--time`
seconds, where the paper's has three minutes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache, partial
from statistics import mean
from typing import Any

import lowtide
from lowtide.api.problem import Problem
from lowtide.optimize.step_search import StepProblem
from lowtide.schedule.exact import Exact
from lowtide.stop import Limits
from lowtide.target import BUILT_IN
from lowtide_research.bench.magis_steps import Workload
from lowtide_research.recompute.magis.method import Magis
from lowtide_research.reproduce.magis_incremental import rounds
from lowtide_research.reproduce.row import Measured, Row, Why
from lowtide_research.zoo import network

RESNET, BERT, VIT, UNET, UNETPP, GPT, BTLM = NETS = (
    "resnet50", "bert_base", "vit_base", "unet", "unetpp", "gpt_neo", "btlm"
)  # fmt: skip
ROOFLINE = Why("an RTX 3090; times here are a roofline's")
BASELINE = Why("an RTX 3090 and the paper's own baselines; times here are a roofline's, POFO and DTR are lowtide's")
DTR_RESNET = Why("DTR thrashes here: it adds little within 60 % of the peak, and several times the step within 40 %",
                 "thrashing")  # fmt: skip
PICTURE = Why("numbers: the paper has a curve")
OTHERS = {
    "xla": "XLA's rematerialisation in TensorFlow 2.15 on a GPU; for the orders of XLA on a CPU: "
    "`python packages/research/bench/xla.py FOLDER --lower`",
    "tvm": "TVM 0.14 with CUDA, of which no package installs here; its planner trades no time for memory",
    "inductor": "TorchInductor 2.1 with Triton on a GPU; for its orders on a CPU: "
    "`python packages/research/bench/inductor.py FOLDER --lower`",
}
STEP = 5  # % of the peak: budgets of baselines are multiples of it


@cache
def _workload(net: str, seconds: float) -> Workload:
    return Workload(f"magis_{net}", None, seconds)


@cache
def _cell(net: str, kind: str, bound: str, seconds: float) -> dict[str, Any]:
    began = time.monotonic()
    return _workload(net, seconds).cell(kind, bound) | {"seconds": time.monotonic() - began}


MET = ("ok", "unproved")


def _ended(cell: dict[str, Any], limits: Limits) -> bool:
    """Whether the limit may have ended the search: it took no less."""
    return cell["seconds"] >= limits.seconds


def share(net: str, kind: str, overhead: int, limits: Limits) -> Measured:
    """The least share of the peak within so much more time, in %."""
    cell = _cell(net, kind, f"t{overhead}", limits.seconds)
    parts = f"{cell['parts']} parts" if "parts" in cell else ""
    if cell["status"] not in MET:
        return Measured(None, f"no plan within {overhead} % more time")
    return Measured(100 * cell["share"], parts, finished=not _ended(cell, limits))


def added(net: str, kind: str, percent: int, limits: Limits) -> Measured:
    """The least added time within a share of the peak, in %."""
    cell = _cell(net, kind, f"p{percent}", limits.seconds)
    if cell["status"] not in MET:
        return Measured(
            None, f"no plan found within {percent} % of the peak; the least peak is {100 * cell['share']:.1f} %"
        )
    return Measured(100 * max(0.0, cell["overhead"]), finished=not _ended(cell, limits))


def reached(net: str, kind: str, percent: int, limits: Limits) -> Measured:
    """The share of the peak of the best plan within a share of it that the paper's baseline did not reach, in %."""
    cell = _cell(net, kind, f"p{percent}", limits.seconds)
    met = cell["status"] in MET
    return Measured(100 * cell["share"], f"{100 * cell['overhead']:.1f} % more time" if met else "no plan here either")


def against(net: str, baseline: str, overhead: int, limits: Limits) -> Measured:
    """Bytes of MAGIS's search within so much more time, in % of a baseline's: of that the least budget in steps of
    `STEP` % is found by halves."""
    ours = share(net, "magis", overhead, limits)
    if ours.amount is None:
        return ours
    low, high, best = 1, 100 // STEP, 100.0
    while low < high:
        budget = (low + high) // 2
        cell = _cell(net, baseline, f"p{budget * STEP}", limits.seconds)
        if cell["status"] in MET and 100 * cell["overhead"] <= overhead:
            high, best = budget, 100 * cell["share"]
        else:
            low = budget + 1
    note = f"{ours.amount:.1f} % of the peak against {best:.1f} %"
    return Measured(100 * ours.amount / best, note, finished=ours.finished)


def speedup(net: str, baseline: str, percent: int, limits: Limits) -> Measured:
    """Time of a baseline over that of MAGIS's search within a share of the peak."""
    theirs, ours = (added(net, kind, percent, limits) for kind in (baseline, "magis"))
    if theirs.amount is None or ours.amount is None:
        return theirs if theirs.amount is None else ours
    return Measured((100 + theirs.amount) / (100 + ours.amount), finished=ours.finished)


def merged_peak(limits: Limits) -> Measured:
    """By how much merged products raise the peak in file order, in % on average of the steps that have some."""
    raised = []
    for net in NETS:
        step = _workload(net, limits.seconds)
        before, after = (Problem.of(g, BUILT_IN["generic"]).own_order_peak_bytes for g in (step.priced, step.merged))
        raised += [100 * (after / before - 1)] if len(step.merged.ops) < len(step.priced.ops) else []
    return Measured(sum(raised) / len(raised), f"{len(raised)} workloads")


@cache
def _tried(seconds: float) -> dict[str, int]:
    step = _workload(VIT, seconds)
    problem = Problem.of(step.priced, BUILT_IN["generic"])
    order = tuple(Exact().schedule(problem.memory, Limits(5)).order)
    most = 1.1 * sum(op.cost or 0.0 for op in step.priced.ops)
    _, counts = Magis().states(
        StepProblem(step.priced, problem.target, order, step.file.families, None, None, most), Limits(seconds)
    )
    rules = sum(n for name, n in counts.items() if name not in ("evaluated", "duplicate", "worse"))
    return {"made": rules, "scheduled": counts["evaluated"], "filtered": counts["duplicate"]}


def tried(what: str, limits: Limits) -> Measured:
    """How many graphs the search makes, schedules and filters in a minute on ViT."""
    return Measured(_tried(60.0)[what])


SETTINGS = {
    "naive-fission": {"naive_fission": "true"}, "naive-sch-rules": {"naive_rules": "true"},
    **{f"max-level-{count}": {"levels": str(count)} for count in (2, 4, 8)},
}  # fmt: skip
"""Figure 13's, as options of `magis`."""


@cache
def _setting(name: str, overhead: int, seconds: float) -> float:
    plan = lowtide.research.plan(
        _workload(BERT, seconds).graph, allow="recompute,tile,offload", method="magis", options=SETTINGS[name],
        max_overhead=f"{overhead}%", time=seconds,
    )  # fmt: skip
    return 100 * plan.required_bytes / plan.own_order_peak_bytes


def ablation(name: str, overhead: int, limits: Limits) -> Measured:
    """The peak of BERT under a setting within so much more time, in % of the peak in file order, when the limit ends
    the search."""
    return Measured(_setting(name, overhead, limits.seconds), finished=False)


def naive(overhead: int, limits: Limits) -> Measured:
    """How much higher the peak is with naive fission than under the best setting, in %."""
    peaks = {name: _setting(name, overhead, limits.seconds) for name in SETTINGS}
    return Measured(100 * (peaks["naive-fission"] / min(peaks.values()) - 1), finished=False)


def incremental(what: str, limits: Limits) -> Measured:
    """Figure 14: speed-ups by incremental scheduling, and how often its peak is no higher."""
    every = rounds(limits.seconds)
    if what == "as-good":
        return Measured(sum(r.new[0] <= r.full[0] for r in every), f"of {len(every)}")
    if what == "states":
        full, new = sum(r.full[2] for r in every), sum(r.new[2] for r in every)
        return Measured(full / max(1, new), f"{full:,} states of full searches, {new:,} of incremental ones")
    ratios = [r.full[1] / r.new[1] for r in every]
    return Measured({"least": min, "mean": mean, "greatest": max}[what](ratios), f"{len(ratios)} changes")


def parameter(net: str, name: str, limits: Limits) -> Measured:
    """A size of the rebuilt network."""
    return Measured(network(f"magis_{net}").parameters[name].default)


def _table_2() -> list[Row]:
    sizes = {
        RESNET: ("64", "image", "224"), BERT: ("32", "seq", "512"), VIT: ("64", "image", "224"),
        UNET: ("32", "image", "256"), UNETPP: ("16", "image", "256"), GPT: ("32", "seq", "512"),
        BTLM: ("32", "seq", "512"),
    }  # fmt: skip
    rows = []
    for net, (batch, name, size) in sizes.items():
        for what, printed in (("batch", batch), (name, size)):
            measure = partial(parameter, net, what)
            rows.append(
                Row(f"table-2/{net}/{what}", "Table 2", f"{what} of the rebuilt step", printed, "", measure, "neither")
            )
    return rows


def _figure_9() -> list[Row]:
    rows: list[Row] = []
    wide = {GPT: (40, 60), BTLM: (40, 60)}
    narrow = {RESNET: (85, 80), BERT: (70, 75), VIT: (70, 75), UNET: (35, 70), UNETPP: (35, 70)}
    for net in NETS:
        for overhead, most in zip((10, 5), wide.get(net, (60, 70)), strict=True):
            begin, place = f"figure-9/{net}/{overhead}", "Figure 9"
            for name, kind in (("magis", "magis"), ("lowtide", "moved")):
                what = f"peak within {overhead} % more time, of the file order's"
                measure = partial(share, net, kind, overhead)
                rows.append(Row(f"{begin}/{name}", place, what, f"<={most}", "%", measure, why=ROOFLINE))
        for overhead, most in zip((10, 5), narrow.get(net, ()), strict=False):
            for other in ("pofo", "dtr"):
                what = f"MAGIS's peak within {overhead} % more time, of {other}'s"
                rows.append(Row(f"figure-9/{net}/{overhead}/of-{other}", "Figure 9", what, f"<={most}", "%",
                                partial(against, net, other, overhead), why=BASELINE,
                                takes="up to six searches"))  # fmt: skip
    return rows


def _figure_10() -> list[Row]:
    limits: dict[str, dict[int, Callable[[str], int | None]]] = {
        "magis": {80: lambda net: 5, 40: lambda net: 15},
        "moved": {80: lambda net: 5, 40: lambda net: 15},
        "pofo": {80: lambda net: 40 if net == BTLM else 20, 40: lambda net: None if net in (UNET, UNETPP) else 40},
        "dtr": {80: lambda net: 15, 40: lambda net: {RESNET: 45, BERT: 45, VIT: 45, UNET: 70}.get(net)},
    }
    rows: list[Row] = []
    for kind, by_share in limits.items():
        name, own = ("lowtide" if kind == "moved" else kind), kind in ("magis", "moved")
        for net in NETS:
            for percent, most in by_share.items():
                printed, begin = most(net), f"figure-10/{net}/{percent}/{name}"
                if printed is None:
                    what, why = f"share reached of {percent} % of the peak", Why("FAILURE in print: no plan in time")
                    rows.append(Row(begin, "Figure 10", what, "", "%", partial(reached, net, kind, percent), why=why))
                    continue
                what, better = f"added time within {percent} % of the peak", "less" if own else "neither"
                why = DTR_RESNET if (net, kind, percent) == (RESNET, "dtr", 40) else ROOFLINE if own else BASELINE
                measure = partial(added, net, kind, percent)
                rows.append(Row(begin, "Figure 10", what, f"<={printed}", "%", measure, better, why))
    rows.append(Row("figure-10/unet/40/speedup-over-dtr", "Figure 10", "DTR's time over MAGIS's", "1.25", "times",
                    partial(speedup, UNET, "dtr", 40), "more", ROOFLINE))  # fmt: skip
    return rows


def _pictures() -> list[Row]:
    rows = [
        Row(f"figure-11/{net}/{percent}", "Figure 11", f"added time within {percent} % of the peak", "", "%",
            partial(added, net, "magis", percent), why=PICTURE)
        for net in NETS for percent in (60, 20)
    ]  # fmt: skip
    rows += [
        Row(f"figure-12/{kind}/{percent}", "Figure 12", f"ViT: added time within {percent} % of the peak", "", "%",
            partial(added, VIT, kind, percent), "neither" if kind != "magis" else "less", PICTURE)
        for kind in ("magis", "pofo", "pofo8", "pofo16", "pofo32") for percent in (40, 20)
    ]  # fmt: skip
    for overhead, above in ((10, "70"), (5, "45")):
        rows += [
            Row(f"figure-13/{overhead}/{name}", "Figure 13", f"BERT: peak within {overhead} % more time", "", "%",
                partial(ablation, name, overhead), why=PICTURE)
            for name in SETTINGS
        ]  # fmt: skip
        what = "BERT: naive fission's peak above the best setting's, up to"
        rows.append(Row(f"figure-13/{overhead}/above-best", "Figure 13", what, above, "%", partial(naive, overhead),
                        "neither", Why("an RTX 3090 and three minutes of search")))  # fmt: skip
    rows += [
        Row(f"figure-16/unet/{percent}", "Figure 16", f"added time within {percent} % of the peak", "", "%",
            partial(added, UNET, "magis", percent), why=Why("numbers: the paper has a trace"))
        for percent in (80, 60)
    ]  # fmt: skip
    return rows


def _elsewhere() -> list[Row]:
    rows = [
        Row(f"figure-9/{name}", "Figures 9 to 11", "baseline on the seven workloads", "", "%", None, why=Why(why))
        for name, why in OTHERS.items()
    ]
    slow = Why("the released program's machine; here the search is Python on lowtide's part graphs, on shared cores")
    rows += [
        Row(f"figure-15/{what}", "Figure 15", f"ViT, graphs {what} in a minute", printed, "", partial(tried, what),
            "neither", slow, takes="a minute")
        for what, printed in (("made", "7148"), ("scheduled", "924"), ("filtered", "6224"))
    ]  # fmt: skip
    quick = Why(
        "full search takes milliseconds here, less than finding what is new; of states it expands 20 times more",
        "states/figure-14",
    )
    rows += [
        Row(f"figure-14/speed-up/{what}", "Figure 14", f"full search's seconds over incremental search's, {what}",
            printed, "x", partial(incremental, what), "more", quick)
        for what, printed in (("least", "4"), ("mean", "10"), ("greatest", "30"))
    ]  # fmt: skip
    rows.append(Row("figure-14/as-good", "Figure 14", "changes of 100 with a peak no higher", "94", "",
                    partial(incremental, "as-good"), "more", quick))  # fmt: skip
    rows.append(Row("states/figure-14", "experiment", "full search's states over incremental search's", "", "x",
                    partial(incremental, "states"), "more", explains=True))  # fmt: skip
    rows.append(Row("thrashing/resnet50/dtr", "experiment", "DTR's added time within 60 % of the peak", "", "%",
                    partial(added, RESNET, "dtr", 60), "neither", explains=True))  # fmt: skip
    mean_of = Why("which rules the 5 % are of: TASO's, on average; here the rule of merged products")
    rows.append(Row("section-7.2.2/merged", "Section 7.2.2", "peak added by merged products", "5", "%", merged_peak,
                    why=mean_of))  # fmt: skip
    return rows


ROWS: tuple[Row, ...] = (*_table_2(), *_figure_9(), *_figure_10(), *_pictures(), *_elsewhere())
