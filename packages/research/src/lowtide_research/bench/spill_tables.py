"""Tables of `lowtide research bench spill`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from lowtide_research.bench.off_chip import OffChip
from lowtide_research.bench.spill_cells import SpillCell
from lowtide_research.bench.suite import Results
from lowtide_research.bench.tables import (
    LEAST,
    Page,
    Table,
    machine_text,
    seconds_text,
)
from lowtide_research.spill.cosma.sizes import ProgramSize
from lowtide_research.zoo.published import Figure, printed

SAME = "="
OURS = "spill"
FOUR = ("belady own", "belady exact", "greedy own", "greedy exact")
FAMILIES = {"human": "human-designed networks", "nas": "NAS networks"}
SETTINGS = {"activations": "activations only", "parameters": "with parameters"}
NETWORKS = """Networks: the human-designed ones as exported by torch from public code, with the paper's inputs, except
that DenseNet is DenseNet-121 where the paper has FC-DenseNet; one op per graph node, nothing fused. NAS networks of
the zoo at 224x224. All data of 8 bits. Target strict: COSMA's memory rules. A parameter is read by one op only (section
V-B): a constant that several ops of an exported graph read counts once for each."""


def page(results: Results[SpillCell | ProgramSize | OffChip], limits: str) -> Page:
    """The tables of the parts that were run; `limits` is what was said of them."""
    cells = [row for row in results.rows if isinstance(row, SpillCell)]
    about = [
        machine_text(results.machine),
        limits,
        "Seconds are processor time of all threads, finding the order included. Every answer is replayed.",
        f"{LEAST}: proved optimal over all orders, by some scheme here. {SAME}: M_R is M_P; such rows are in no sum. "
        "time, memory: ended by that limit (a program above 100,000 variables is not built), the best found is given. "
        "In parentheses: as published, on the paper's machine.",
        NETWORKS.replace("\n", " "),
    ]
    if not results.complete:
        about.append("Interrupted: these are the cells that were done.")
    tables = [
        *_networks([c for c in cells if c.part == "networks"]),
        *_wide([c for c in cells if c.part == "wide"]),
        *_sizes([row for row in results.rows if isinstance(row, ProgramSize)]),
        *_off_chip([row for row in results.rows if isinstance(row, OffChip)]),
    ]
    return Page(f"lowtide research bench {results.suite.name}", "\n".join(about), tables, _remarks(cells))


def _remarks(cells: Sequence[SpillCell]) -> list[str]:
    """Reasons, and what a second search says of the bounds."""
    remarks = [f"{_name(c)}: {c.status}: {c.reason}" for c in cells if c.reason]
    again = [c for c in cells if c.proved_again is not None]
    if again:
        counts = Counter(str(c.proved_again) for c in again)
        results = ", ".join(f"{word} {count}" for word, count in sorted(counts.items()))
        remarks.append(f"Bounds above nothing: {len(again)}. What verify --prove says of them: {results}.")
    return [*remarks, *(f"{_name(c)}: not re-proved" for c in again if c.proved_again == "not re-proved")]


def _name(cell: SpillCell) -> str:
    return f"{cell.label}, {SETTINGS[cell.setting]}, {cell.budget}, {cell.scheme}"


def _networks(networks: Sequence[SpillCell]) -> list[Table]:
    """Traffic, seconds and reductions, by setting and family; then the paper's claims."""
    tables: list[Table] = []
    for setting, words in SETTINGS.items():
        for family, name in FAMILIES.items():
            cells = [c for c in networks if (c.setting, c.family) == (setting, family)]
            if cells:
                tables += _grids(f"{name}, {words}", cells)
            if any(c.scheme == OURS for c in cells):
                tables.append(_reductions(f"{name}, {words}: reduction by lowtide's spill", cells))
    return [*tables, claims(networks)] if networks else tables


def _wide(cells: Sequence[SpillCell]) -> list[Table]:
    return _grids("wide graphs, activations only", cells) if cells else []


def _grids(title: str, cells: Sequence[SpillCell]) -> list[Table]:
    return [
        _grid(f"{title}: non-compulsory traffic, KiB", cells, _traffic, bounds=True),
        _grid(f"{title}: CPU seconds", cells, _seconds, bounds=False),
    ]


def _rows(cells: Sequence[SpillCell]) -> Iterator[tuple[SpillCell, dict[str, SpillCell]]]:
    """Of each network and budget, one cell for the facts, and the cells by scheme."""
    by_row: dict[tuple[str, str, str], dict[str, SpillCell]] = {}
    for c in cells:
        by_row.setdefault(c.problem_key, {})[c.scheme] = c
    for row in by_row.values():
        yield next(iter(row.values())), row


def _grid(title: str, cells: Sequence[SpillCell], show: Callable[[SpillCell], str], *, bounds: bool) -> Table:
    schemes = list(dict.fromkeys(c.scheme for c in cells))
    head = ["network", "ops", "budget", "KiB", *schemes]
    rows = [[*head, "bound"] if bounds else head]
    for first, row in _rows(cells):
        budget = first.budget + (f" {SAME}" if first.same else "") + ("" if first.peak_proved else " ?")
        shown = [show(row[s]) if s in row else "" for s in schemes]
        line = [first.label, f"{first.ops:,}", budget, _kib(first.capacity_bytes), *shown]
        if bounds:
            line.append(_kib(max(c.lower_bound_bytes for c in row.values())))
        rows.append(line)
    return Table(title, rows, frozenset({0, 2}))


def _kib(size: int) -> str:
    return "0" if not size else f"{size / 1024:.1f}"


def _traffic(cell: SpillCell) -> str:
    if cell.traffic_bytes is None:
        return cell.status
    shown = _kib(cell.traffic_bytes) + LEAST * cell.optimal
    return shown if cell.status == "ok" else f"{shown} {cell.status}"


def _seconds(cell: SpillCell) -> str:
    if cell.traffic_bytes is None:
        return cell.status
    shown = seconds_text(cell.cpu_seconds) + ("" if cell.status == "ok" else f" {cell.status}")
    return f"{shown} ({cell.published[0].text})" if cell.published else shown


def reduction(cells: Sequence[SpillCell], scheme: str, *, same: bool = False) -> tuple[int, int, int, float | None]:
    """Rows, bytes of lowtide's spill and of a scheme over them, and 1 - ours / theirs; None if theirs is nothing.
    Rows where M_R is M_P are left out unless `same`."""
    pairs = [
        (row[OURS].traffic_bytes, row[scheme].traffic_bytes)
        for first, row in _rows(cells)
        if (same or not first.same) and OURS in row and scheme in row
    ]
    measured = [(a, b) for a, b in pairs if a is not None and b is not None]
    ours, theirs = sum(a for a, _ in measured), sum(b for _, b in measured)
    return len(measured), ours, theirs, 1 - ours / theirs if theirs else None


def _reductions(title: str, cells: Sequence[SpillCell]) -> Table:
    head = ("against", "rows", "spill, KiB", "scheme, KiB", "reduction", "all rows, KiB", "reduction", "published")
    rows: list[tuple[str, ...]] = [head]
    family = cells[0].family
    paper: tuple[Figure, ...] = printed(family, "strict", "cosma" if family == "human" else "cosma-dnc", "all", "spill")
    for scheme in (s for s in dict.fromkeys(c.scheme for c in cells) if s != OURS):
        count, ours, theirs, share = reduction(cells, scheme)
        _, _, everything, share_of_all = reduction(cells, scheme, same=True)
        published = f"{paper[0].text} % (COSMA's, mean)" if paper and scheme in FOUR else ""
        percent = tuple("" if s is None else f"{100 * s:.1f} %" for s in (share, share_of_all))
        rows.append((scheme, str(count), _kib(ours), _kib(theirs), percent[0], _kib(everything), percent[1], published))
    return Table(title, rows, frozenset({0, 7}))


def claims(cells: Sequence[SpillCell]) -> Table:
    """What the paper says beside its bars, and whether it is so here."""
    rows: list[tuple[str, str]] = [("the paper says", "here")]
    for least, own in (("belady exact", "belady own"), ("greedy exact", "greedy own"),
                       ("cosma-fs exact", "cosma-fs own")):  # fmt: skip
        verdicts = []
        for _, row in _rows([c for c in cells if c.label == "NASNet-A" and c.setting == "activations"]):
            if least in row and own in row:
                a, b = row[least].traffic_bytes, row[own].traffic_bytes
                if a is not None and b is not None:
                    verdicts.append(
                        f"{row[own].budget} {_kib(a)} against {_kib(b)}: {'worse' if a > b else 'not worse'}"
                    )
        if verdicts:
            rows.append((f"least-peak order worse than own on NASNet-A ({own.split()[0]})", "; ".join(verdicts)))
    spilling = [c for c in cells if c.budget == "M_P" and c.scheme in FOUR and c.traffic_bytes is not None]
    for setting, words in SETTINGS.items():
        here = [c for c in spilling if c.setting == setting]
        if here:
            none = sorted({f"{c.label} ({c.scheme})" for c in here if c.traffic_bytes == 0})
            rows.append((f"at M_P each of the four schemes spills, but on FCN ({words})",
                         f"no traffic on: {', '.join(none) or 'none'}"))  # fmt: skip
    ours = [c for c in cells if c.budget == "M_P" and c.scheme == OURS and c.traffic_bytes is not None]
    if ours:
        left = [f"{c.label} ({c.setting}) {c.traffic_bytes} B{LEAST * c.optimal}" for c in ours if c.traffic_bytes]
        rows.append(("at M_P COSMA never spills (lowtide's spill)", ", ".join(left) or f"none on all {len(ours)} rows"))
    worse = _above(cells)
    if any(c.scheme == OURS for c in cells):
        rows.append(("COSMA below every other scheme (lowtide's spill)", ", ".join(worse) or "never above any scheme"))
    return Table("what the paper claims", rows, frozenset({0, 1}))


def _above(cells: Sequence[SpillCell]) -> list[str]:
    """Rows where lowtide's spill has more traffic than some scheme."""
    result = []
    for first, row in _rows(cells):
        ours = row[OURS].traffic_bytes if OURS in row else None
        if ours is not None:
            result += [
                f"{first.label} {first.setting} {first.budget}: above {s}"
                for s, c in row.items()
                if c.traffic_bytes is not None and c.traffic_bytes < ours
            ]
    return result


def _sizes(sizes: Sequence[ProgramSize]) -> list[Table]:
    if not sizes:
        return []
    kinds = [("cosma", True), ("cosma", False), ("model", True), ("model", False)]
    words = [f"{'COSMA' if e == 'cosma' else 'MODeL'}{'' if o else ', no overlap analysis'}" for e, o in kinds]
    rows = [["network", "ops", *words]]
    for label in dict.fromkeys(s.network for s in sizes):
        of = {(s.encoding, s.overlap): s for s in sizes if s.network == label}
        shown = [
            f"{s.variables:,} / {s.constraints:,}" if s.constraints is not None else f"{s.variables:,} / not built"
            for s in (of[k] for k in kinds)
        ]
        rows.append([label, f"{of[kinds[0]].ops:,}", *shown])
    title = "sizes of the programs, variables / rows (paper, Transformer: 7,500 / 15,000; MODeL 2,000 / 5,000)"
    return [Table(title, rows)]


def _off_chip(rows: Sequence[OffChip]) -> list[Table]:
    if not rows:
        return []
    sizes = list(dict.fromkeys(r.on_chip_kb for r in rows))
    shown = [["own / least-peak order, KB", "least peak, KB", *(f"{s} KB" for s in sizes)]]
    for network in dict.fromkeys(r.network for r in rows):
        of = {r.on_chip_kb: r for r in rows if r.network == network}
        line = [network, f"{of[sizes[0]].peak_bytes / 1000:.1f}"]
        for s in sizes:
            r = of[s]
            ratio = f" ({r.own_bytes / r.least_peak_bytes:.2f})" if r.least_peak_bytes else ""
            line.append(f"{r.own_bytes / 1000:.1f} / {r.least_peak_bytes / 1000:.1f}{ratio}" if r.own_bytes else "-")
        shown.append(line)
    for name, mean in (("geometric mean of ratios", _geometric), ("ratio of sums", _of_sums)):
        shown.append([name, "", *(mean([r for r in rows if r.on_chip_kb == s]) for s in sizes)])
    return [Table("SERENITY, Figure 11: off-chip traffic under Belady (paper: 1.76x less at 256 KB)", shown)]


def _geometric(rows: Sequence[OffChip]) -> str:
    ratios = [r.own_bytes / r.least_peak_bytes for r in rows if r.own_bytes and r.least_peak_bytes]
    return f"{math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}" if ratios else ""


def _of_sums(rows: Sequence[OffChip]) -> str:
    least = sum(r.least_peak_bytes for r in rows)
    return f"{sum(r.own_bytes for r in rows) / least:.2f}" if least else ""
