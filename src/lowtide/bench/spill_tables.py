"""Tables of `lowtide bench spill`, for people, and its CSV."""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, fields

from lowtide.bench.spilling import BUDGETS, OffChip, SpillCell, SpillResults
from lowtide.bench.tables import LEAST, Table, machine_text
from lowtide.spill.cosma.sizes import ProgramSize
from lowtide.zoo.published import Figure, printed

SAME = "="
OURS = "spill"
FOUR = ("belady own", "belady exact", "greedy own", "greedy exact")
FAMILIES = {"human": "human-designed networks", "nas": "NAS networks"}
SETTINGS = {"activations": "activations only", "parameters": "with parameters"}
NETWORKS = """Networks: the human-designed ones as exported by torch from public code, with the paper's inputs, except
that DenseNet is DenseNet-121 where the paper has FC-DenseNet; one op per graph node, nothing fused. NAS networks of
the zoo at 224x224. All data of 8 bits. Target strict: COSMA's memory rules. A parameter is read by one op only (section
V-B): a constant that several ops of an exported graph read counts once for each."""


def text(results: SpillResults) -> str:
    """Every table, for a terminal."""
    return "\n\n".join([_about(results), *(t.text() for t in tables(results)), *_remarks(results)])


def markdown(results: SpillResults) -> str:
    """Every table, as a page."""
    blocks = ["# lowtide bench spill", _about(results), *(t.markdown() for t in tables(results))]
    return "\n\n".join([*blocks, *_remarks(results)]) + "\n"


def _about(results: SpillResults) -> str:
    o = results.options
    lines = [
        machine_text(results.machine),
        f"Limits per cell: {o['time']:g} s of wall time, {o['search_memory_bytes']:,} B for states; seed {o['seed']}.",
        "Seconds are processor time of all threads, finding the order included. Every answer is replayed.",
        f"{LEAST}: proved least over all orders, by some scheme here. {SAME}: M_R is M_P; such rows are in no sum. "
        "time, memory: ended by that limit (a program above 100,000 variables is not built), the best found is given. "
        "In parentheses: as published, on the paper's machine.",
        NETWORKS.replace("\n", " "),
    ]
    if not results.complete:
        lines.append("Interrupted: these are the cells that were done.")
    return "\n".join(lines)


def _remarks(results: SpillResults) -> list[str]:
    said = [
        f"{c.label}, {SETTINGS[c.setting]}, {c.budget}, {c.scheme}: {c.status}: {c.reason}"
        for c in results.cells
        if c.reason
    ]
    again = [c for c in results.cells if c.proved_again is not None]
    if again:
        counts = Counter(str(c.proved_again) for c in again)
        told = ", ".join(f"{word} {count}" for word, count in sorted(counts.items()))
        said.append(f"Bounds above nothing: {len(again)}. What verify --prove says of them: {told}.")
        said += [
            f"{c.label}, {SETTINGS[c.setting]}, {c.budget}, {c.scheme}: not re-proved"
            for c in again
            if c.proved_again == "not re-proved"
        ]
    return ["\n".join(said)] if said else []


def tables(results: SpillResults) -> list[Table]:
    """Those of the parts that were run."""
    found: list[Table] = []
    networks = [c for c in results.cells if c.part == "networks"]
    for setting, words in SETTINGS.items():
        for family, name in FAMILIES.items():
            cells = [c for c in networks if (c.setting, c.family) == (setting, family)]
            if cells:
                found.append(_grid(f"{name}, {words}: non-compulsory traffic, KiB", cells, _traffic, bounds=True))
                found.append(_grid(f"{name}, {words}: CPU seconds", cells, _seconds, bounds=False))
                if any(c.scheme == OURS for c in cells):
                    found.append(_reductions(f"{name}, {words}: reduction by lowtide's spill", cells))
    if networks:
        found.append(claims(networks))
    growth = [c for c in results.cells if c.part == "growth"]
    if growth:
        found.append(_growth(growth))
    wide = [c for c in results.cells if c.part == "wide"]
    if wide:
        found.append(_grid("wide graphs, activations only: non-compulsory traffic, KiB", wide, _traffic, bounds=True))
        found.append(_grid("wide graphs, activations only: CPU seconds", wide, _seconds, bounds=False))
    if results.sizes:
        found.append(_sizes(results.sizes))
    if results.off_chip:
        found.append(_off_chip(results.off_chip))
    return found


def _rows(cells: Sequence[SpillCell]) -> Iterator[tuple[SpillCell, dict[str, SpillCell]]]:
    """Of each network and budget, one cell for the facts, and the cells by scheme."""
    by_row: dict[tuple[str, str, str], dict[str, SpillCell]] = {}
    for c in cells:
        by_row.setdefault((c.label, c.setting, c.budget), {})[c.scheme] = c
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
    shown = f"{cell.cpu_seconds:.2g}" if cell.cpu_seconds < 1 else f"{cell.cpu_seconds:.1f}"
    shown += "" if cell.status == "ok" else f" {cell.status}"
    return f"{shown} ({cell.published[0].text})" if cell.published else shown


def reduction(cells: Sequence[SpillCell], scheme: str, *, same: bool = False) -> tuple[int, int, int, float | None]:
    """Rows, bytes of lowtide's spill and of a scheme over them, and 1 - ours / theirs; None if theirs is nothing.

    Rows where M_R is M_P are left out unless `same`.
    """
    pairs = [
        (row[OURS].traffic_bytes, row[scheme].traffic_bytes)
        for first, row in _rows(cells)
        if (same or not first.same) and OURS in row and scheme in row
    ]
    known = [(a, b) for a, b in pairs if a is not None and b is not None]
    ours, theirs = sum(a for a, _ in known), sum(b for _, b in known)
    return len(known), ours, theirs, 1 - ours / theirs if theirs else None


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
        said = []
        for _, row in _rows([c for c in cells if c.label == "NASNet-A" and c.setting == "activations"]):
            if least in row and own in row:
                a, b = row[least].traffic_bytes, row[own].traffic_bytes
                if a is not None and b is not None:
                    said.append(f"{row[own].budget} {_kib(a)} against {_kib(b)}: {'worse' if a > b else 'not worse'}")
        if said:
            rows.append((f"least-peak order worse than own on NASNet-A ({own.split()[0]})", "; ".join(said)))
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
    found = []
    for first, row in _rows(cells):
        ours = row[OURS].traffic_bytes if OURS in row else None
        if ours is not None:
            found += [
                f"{first.label} {first.setting} {first.budget}: above {s}"
                for s, c in row.items()
                if c.traffic_bytes is not None and c.traffic_bytes < ours
            ]
    return found


def _growth(cells: Sequence[SpillCell]) -> Table:
    schemes = list(dict.fromkeys(c.scheme for c in cells))
    rows = [["network", "ops", *(f"{s}, {what}" for s in schemes for what in ("KiB", "CPU s"))]]
    for first, row in sorted(_rows(cells), key=lambda r: r[0].ops):
        rows.append([first.label, f"{first.ops:,}", *(f(row[s]) for s in schemes for f in (_traffic, _seconds))])
    return Table(f"how time grows with ops, at {BUDGETS[1]}", rows)


def _sizes(sizes: Sequence[ProgramSize]) -> Table:
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
    return Table(
        "sizes of the programs, variables / rows (paper, Transformer: 7,500 / 15,000; MODeL 2,000 / 5,000)", rows
    )


def _off_chip(rows: Sequence[OffChip]) -> Table:
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
    return Table("SERENITY, Figure 11: off-chip traffic under Belady (paper: 1.76x less at 256 KB)", shown)


def _geometric(rows: Sequence[OffChip]) -> str:
    ratios = [r.own_bytes / r.least_peak_bytes for r in rows if r.own_bytes and r.least_peak_bytes]
    return f"{math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}" if ratios else ""


def _of_sums(rows: Sequence[OffChip]) -> str:
    least = sum(r.least_peak_bytes for r in rows)
    return f"{sum(r.own_bytes for r in rows) / least:.2f}" if least else ""


def csv_text(results: SpillResults) -> str:
    """One line per cell, with the published time; without cells, one per figure of SERENITY's study or program."""
    made = io.StringIO()
    writer = csv.writer(made, lineterminator="\n")
    if not results.cells:
        for rows, kind in ((results.off_chip, OffChip), (results.sizes, ProgramSize)):
            if rows:
                writer.writerow([f.name for f in fields(kind)])
                writer.writerows(["" if v is None else v for v in astuple(row)] for row in rows)
        return made.getvalue()
    own = [f.name for f in fields(SpillCell) if f.name not in ("published", "counters")]
    writer.writerow([*own, "published_seconds", "published_in"])
    for cell in results.cells:
        figure = cell.published[0] if cell.published else None
        about = [f"{figure.amount:g}", f"{figure.paper}, {figure.table}"] if figure else ["", ""]
        writer.writerow([*("" if (v := getattr(cell, n)) is None else v for n in own), *about])
    return made.getvalue()
