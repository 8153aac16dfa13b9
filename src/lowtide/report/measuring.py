"""Cost files and probed operators as text: what was timed or proved, and what follows for the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lowtide.report.columns import columns
from lowtide.run.probing import NodeProbe, Probing

if TYPE_CHECKING:
    from lowtide.cost.file import CostFamily, CostFile


def cost_text(file: CostFile) -> str:
    """Where it was measured, and a row for each family."""
    head = [
        ("device", f"{file.device}, {file.threads} {'thread' if file.threads == 1 else 'threads'}"),
        ("runtime", f"{file.runtime} {file.runtime_version}, level {file.level}"),
        ("entries", f"{len(file.entries):,} shapes of ops and of their tiles"),
    ]
    if file.trials:
        tried = (f"{each.measured:+.1%} ({each.predicted:+.1%} predicted)" for each in file.trials)
        head.append(("plans that were run", ", ".join(tried)))
    rows = [("family", "fitted to", "launch", "rate", "bandwidth")]
    rows += [(name, *_rates(family)) for name, family in file.families.items()]
    return "\n".join([columns(head), "", columns(rows, right=[1, 2, 3, 4])])


def _rates(family: CostFamily) -> tuple[str, str, str, str]:
    """Those of a family; where time does not go with something, nothing."""
    flop, byte = family.seconds_per_flop, family.seconds_per_byte
    return (
        f"{family.fitted:,}",
        f"{1e6 * family.launch_seconds:.1f} us",
        f"{1e-9 / flop:,.1f} GFLOP/s" if flop else "",
        f"{1e-9 / byte:,.1f} GB/s" if byte else "",
    )


_SHOWN = 20


def probing_text(probing: Probing) -> str:
    """A table of op types, then what is wrong, not run and opaque, then one line for all."""
    head = ("op", "family", "nodes", "distinct", "tiles", "sums", "wrong", "tight", "exact")
    rows: list[tuple[str, ...]] = [head]
    for kind in probing.kinds:
        tight = f"{kind.moved / kind.tested:.1%}" if kind.tested else ""
        counts = (kind.nodes, kind.distinct, kind.parts, kind.sums, kind.wrong)
        rows.append((kind.type, kind.family, *(f"{count:,}" for count in counts), tight, kind.exact))
    blocks = [columns(rows, right=range(2, 8))]
    blocks += _listed("wrong", [f"{_label(p)}: {line}" for p in probing.probes for line in p.wrong])
    blocks += _listed("not run", [f"{_label(p)}{_and_others(p)}: {p.skipped}" for p in probing.probes if p.skipped])
    blocks += _listed("opaque", [f"op {o.op} {o.name!r} ({o.type}): {o.reason}" for o in probing.opaque])
    return "\n\n".join([*blocks, _verdict(probing)])


def _verdict(probing: Probing) -> str:
    run = [p for p in probing.probes if not p.skipped]
    smaller = sum(p.smaller for p in run)
    known = probing.nodes - len(probing.opaque)
    share = f" ({known / probing.nodes:.1%})" if probing.nodes else ""
    return (
        f"{known:,} of {probing.nodes:,} nodes{share} have a map; {len(run):,} distinct ones run, {smaller:,} of them "
        f"on smaller operands: {probing.parts:,} tiles, {probing.sums:,} sums, {probing.wrong:,} wrong"
    )


def _label(probe: NodeProbe) -> str:
    return f"op {probe.op} {probe.name!r} ({probe.type})"


def _and_others(probe: NodeProbe) -> str:
    return f" and {probe.nodes - 1} like it" if probe.nodes > 1 else ""


def _listed(title: str, lines: list[str]) -> list[str]:
    if not lines:
        return []
    more = [f"  and {len(lines) - _SHOWN:,} more"] if len(lines) > _SHOWN else []
    return ["\n".join([f"{title}:", *(f"  {line}" for line in lines[:_SHOWN]), *more])]
