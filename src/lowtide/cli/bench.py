"""`lowtide bench SUITE`: its words, its progress on stderr, its results on stdout and in files."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from lowtide.cli.terminal import ProgressLine, say, show, show_json

if TYPE_CHECKING:
    from lowtide.bench.measure import Cell
    from lowtide.bench.output import Tables
    from lowtide.bench.spilling import SpillCell
    from lowtide.stop import Progress

SAID_SECONDS = 5.0


def run(options: argparse.Namespace) -> int:
    """Run a suite; where its results go is made sure of first, as it may take hours."""
    if options.out is not None:
        from lowtide.bench.output import make_directory

        make_directory(options.out)
    return options.run_suite(options)


def add_arguments(
    p: Any,
    seed: Callable[[str], int],
    printing: Callable[[Any], None],
    dim: Callable[[str], tuple[str, int]],
) -> None:
    """Give the command its suites and their options."""
    suites = p.add_subparsers(metavar="SUITE", required=True, dest="suite")
    s = suites.add_parser(
        "schedule",
        help="every method on the papers' networks, beside the published figures",
        description="Every method on the papers' networks, each under its paper's own memory rules.",
        epilog="examples:\n  lowtide bench schedule --networks nasnet_a_cifar --methods hmcos,exact\n"
        "  lowtide bench schedule --part hmcos-3 -o results\n"
        "  lowtide bench schedule --graphs graphs -o results --label mine",
    )
    s.set_defaults(command=run, run_suite=schedule)
    s.add_argument("--networks", metavar="A,B,...", default="", help="of the zoo (default: the papers')")
    s.add_argument("--graphs", metavar="DIR", help="plan every *.graph.json there; parts take from it what they lack")
    s.add_argument("--methods", metavar="A,B,...", default="", help="(default: the papers'; for --graphs own,exact)")
    s.add_argument(
        "--part", metavar="A,B,...", default="",
        help="main, hmcos-3, serenity-2, zhong-4, zhong-5, zhong-6, zhong-9, zhong-solvers, ablation, or all",
    )  # fmt: skip
    s.add_argument("--target", default="strict", metavar="NAME", help="for networks without a paper (default: strict)")
    s.add_argument("--label", default="", metavar="TEXT", help="files of -o are called schedule-TEXT")
    _common(s, seed, printing)

    s = suites.add_parser(
        "space",
        help="the peaks of random orders of one network, with the optimum and each method marked",
        description="The peaks of random orders of one network, with the optimum and each method marked. Each step\n"
        "of an order runs one of the ready ops, all equally likely: not uniform over orders.",
        epilog="examples:\n  lowtide bench space\n  lowtide bench space --network swiftnet_cell_a --orders 100000",
    )
    s.set_defaults(command=run, run_suite=space)
    s.add_argument("--network", metavar="NAME", help="of the zoo, or a file (default: nasnet_a_imagenet)")
    s.add_argument("--orders", type=int, default=1_000_000, metavar="N", help="(default: 1000000)")
    s.add_argument("--methods", metavar="A,B,...", default="", help="which to mark (default: the papers')")
    s.add_argument("--target", metavar="NAME", help="memory rules (default: those of the network's paper, or strict)")
    _common(s, seed, printing)

    s = suites.add_parser(
        "onnxruntime",
        help="what onnxruntime takes: by its defaults, and in the plan's order beside the plan's own figures",
        description="What onnxruntime takes for models: by its defaults, and in the plan's order beside the plan's\n"
        "own figures. Models without weights get random ones.",
        epilog="examples:\n  lowtide bench onnxruntime -o results\n"
        "  lowtide bench onnxruntime model.onnx zoo:nasnet_a_cifar",
    )
    s.set_defaults(command=run, run_suite=onnxruntime)
    s.add_argument("models", nargs="*", metavar="MODEL", help="(default: networks of the zoo, and onnx's light models)")
    s.add_argument(
        "--dim", dest="dims", action="append", default=[], type=dim, metavar="NAME=SIZE", help="of free ones"
    )
    s.add_argument("--level", default="extended", metavar="LEVEL", help="of its optimiser: extended (default) or all")
    s.add_argument("--label", default="", metavar="TEXT", help="files of -o are called onnxruntime-TEXT")
    _common(s, seed, printing)

    s = suites.add_parser(
        "tflite",
        help="TFLite models under TFLM: the arena before and after, predicted and measured, outputs compared",
        description="TFLite models under TFLM: the arena before and after, predicted and measured, outputs compared.\n"
        "With --overlap: single operators of random shape at the rule's distance, and a row and an element nearer.",
        epilog="examples:\n  lowtide bench tflite --models DIR -o results\n  lowtide bench tflite --overlap 100",
    )
    s.set_defaults(command=run, run_suite=tflite)
    s.add_argument("--models", metavar="DIR", help="every .tflite file there")
    s.add_argument("--overlap", type=int, default=0, metavar="N", help="try each kind of operator on N random shapes")
    s.add_argument("--label", default="", metavar="TEXT", help="files of -o are called tflite-TEXT")
    _common(s, seed, printing)

    s = suites.add_parser(
        "executorch",
        help="torch.export programs under ExecuTorch: its arenas before and after, outputs compared",
        description="torch.export programs under ExecuTorch: its arenas before and after, by its own memory planning\n"
        "and by lowtide's, outputs compared. Needs torch and executorch.",
        epilog="examples:\n  lowtide bench executorch -o results\n  lowtide bench executorch model.pt2",
    )
    s.set_defaults(command=run, run_suite=executorch)
    s.add_argument("models", nargs="*", metavar="MODEL", help=".pt2 files (default: three small networks)")
    s.add_argument("--label", default="", metavar="TEXT", help="files of -o are called executorch-TEXT")
    _common(s, seed, printing)
    _allocate(suites, printing)
    _spill(suites, seed, printing)


def _allocate(suites: Any, printing: Callable[[Any], None]) -> None:
    s = suites.add_parser(
        "allocate",
        help="what arenas need, by every allocator and by every method's order",
        description="Buffers placed by the known greedy rules and by every engine of lowtide, beside the bytes that\n"
        "are live at once; the arenas of every method's orders; order and arena chosen together.",
        epilog="examples:\n  lowtide bench allocate --part instances --instances DIR\n"
        "  lowtide bench allocate --part layout --graphs DIR -o results --label layout",
    )
    s.set_defaults(command=run, run_suite=allocate)
    s.add_argument(
        "--part", metavar="A,B,...", default="",
        help="instances, training, hmcos-1, orders, layout (default: all there is input for)",
    )  # fmt: skip
    s.add_argument("--networks", metavar="A,B,...", default="", help="of the zoo, for orders and layout (default: all)")
    s.add_argument("--instances", metavar="DIR", help="place the buffers of every *.csv there (minimalloc's format)")
    s.add_argument("--graphs", metavar="DIR", help="layout: every *.graph.json and *.onnx there too")
    s.add_argument("--methods", metavar="A,B,...", default="", help="whose orders (default: the papers')")
    s.add_argument(
        "--allocators",
        metavar="A,B,...",
        default="",
        help="greedy rules, engines, peers that are installed (default: all)",
    )
    s.add_argument("--label", default="", metavar="TEXT", help="files of -o are called allocate-TEXT")
    s.add_argument("-o", dest="out", metavar="DIR", help="write the results as files there")
    s.add_argument("--time", type=float, default=20.0, metavar="SECONDS", help="limit of each search (default: 20)")
    printing(s)


def _spill(suites: Any, seed: Callable[[str], int], printing: Callable[[Any], None]) -> None:
    s = suites.add_parser(
        "spill",
        help="COSMA's networks in a small fast memory: traffic and times of every scheme, and SERENITY's study",
        description="COSMA's networks at its three budgets: non-compulsory traffic and times of every scheme, beside\n"
        "the published figures; how time grows; sizes of the integer programs; SERENITY's off-chip study.",
        epilog="examples:\n  lowtide bench spill --graphs graphs --time 60 -o results\n"
        "  lowtide bench spill --networks NASNet-A,DARTS --schemes 'belady own,spill'\n"
        "  lowtide bench spill --part growth,off-chip -o results --label more",
    )
    s.set_defaults(command=run, run_suite=spill)
    s.add_argument("--networks", metavar="A,B,...", default="", help="COSMA's, by name (default: all)")
    s.add_argument("--graphs", metavar="DIR", help="graph files of the ten human-designed networks")
    s.add_argument("--schemes", metavar="A,B,...", default="", help="such as 'belady own', cosma, spill (default: all)")
    s.add_argument(
        "--settings", dest="counted", metavar="A,B", default="", help="activations, parameters (default: both)"
    )
    s.add_argument("--part", metavar="A,B,...", default="", help="networks, growth, wide, sizes, off-chip, or all")
    s.add_argument("--label", default="", metavar="TEXT", help="files of -o are called spill-TEXT")
    _common(s, seed, printing)


def _common(s: Any, seed: Callable[[str], int], printing: Callable[[Any], None]) -> None:
    s.add_argument("-o", dest="out", metavar="DIR", help="write the results as files there")
    s.add_argument(
        "--time", type=float, default=30.0, metavar="SECONDS", help="limit of each method on each network (default: 30)"
    )
    s.add_argument("--search-memory", default="2GiB", metavar="SIZE", help="the same for memory (default: 2GiB)")
    s.add_argument("--seed", type=seed, default=0, metavar="N", help="for what is drawn at random (default: 0)")
    printing(s)


def schedule(options: argparse.Namespace) -> int:
    """Run the suite, print its tables, write its files."""
    from lowtide import bench

    line: ProgressLine = options.line

    def done(cell: Cell) -> None:
        peak = cell.status if cell.peak_bytes is None else f"{cell.peak_bytes:,} B"
        limit = f", ended by {cell.status}" if cell.status in ("time", "memory") else ""
        words = (cell.network, cell.method, cell.setting)
        options.line.message(f"{' '.join(w for w in words if w)}: {peak}, {cell.cpu_seconds:.3f} CPU s{limit}")

    results = bench.schedule(
        networks=_names(options.networks),
        graphs=options.graphs,
        methods=_names(options.methods),
        parts=_names(options.part),
        target=options.target,
        time=options.time,
        search_memory=options.search_memory,
        seed=options.seed,
        report=_tell(line),
        done=done,
    )
    return _tables("schedule", results, options)


def allocate(options: argparse.Namespace) -> int:
    """Place, print the tables, write the files."""
    from lowtide import bench
    from lowtide.bench.placing import Row

    def done(row: Row) -> None:
        rules = f"{row.target}/{row.alignment}" if row.target else ""
        words = " ".join(w for w in (row.instance, rules, row.order, row.allocator) if w)
        height = row.reason or row.status if row.height_bytes is None else f"{row.height_bytes:,} B"
        ratio = "" if row.ratio is None else f", {row.ratio:.4f} of the load, {row.cpu_seconds:.3f} CPU s"
        options.line.message(f"{words}: {height}{ratio}")

    found = bench.allocate(
        parts=_names(options.part),
        networks=_names(options.networks),
        instances=options.instances,
        graphs=options.graphs,
        methods=_names(options.methods),
        allocators_named=_names(options.allocators),
        time=options.time,
        done=done,
    )
    return _tables("allocate", found, options)


def space(options: argparse.Namespace) -> int:
    """Draw, print the histogram, write the files."""
    from lowtide import bench
    from lowtide.bench.drawing import histogram
    from lowtide.bench.output import write_distribution
    from lowtide.bench.parts import METHODS

    line: ProgressLine = options.line
    said = time.monotonic()

    def drawn(count: int) -> None:
        nonlocal said
        if time.monotonic() - said > SAID_SECONDS:
            said = time.monotonic()
            options.line.message(f"{count:,} of {options.orders:,} orders")

    named = {} if options.network is None else {"network": options.network}
    found = bench.space(
        **named,
        orders=options.orders,
        seed=options.seed,
        methods=_names(options.methods) or METHODS,
        target=options.target,
        time=options.time,
        search_memory=options.search_memory,
        report=_tell(line),
        drawn=drawn,
    )
    line.end()
    if options.json:
        show_json(found)
    else:
        show(histogram(found))
    if options.out is not None:
        _wrote(write_distribution(found, options.out), options)
    return _status(found.complete, options)


def spill(options: argparse.Namespace) -> int:
    """Run the suite, print its tables, write its files."""
    from lowtide import bench

    line: ProgressLine = options.line

    def done(cell: SpillCell) -> None:
        traffic = cell.reason or cell.status if cell.traffic_bytes is None else f"{cell.traffic_bytes:,} B"
        limit = f", ended by {cell.status}" if cell.status in ("time", "memory") else ""
        words = f"{cell.label} {cell.setting} {cell.budget} {cell.scheme}"
        options.line.message(f"{words}: {traffic}, {cell.cpu_seconds:.3f} CPU s{limit}")

    found = bench.spill(
        networks=_names(options.networks),
        graphs=options.graphs,
        schemes=_names(options.schemes),
        settings=_names(options.counted),
        parts=_names(options.part),
        time=options.time,
        search_memory=options.search_memory,
        seed=options.seed,
        report=_tell(line),
        done=done,
    )
    return _tables("spill", found, options)


def onnxruntime(options: argparse.Namespace) -> int:
    """Measure, print the table, write the files."""
    from lowtide import bench
    from lowtide.bench.ort import Row

    def done(row: Row) -> None:
        found = f"planned {row.planned_peak_bytes:,} B, measured {row.measured_peak_bytes:,} B"
        options.line.message(f"{row.model}: {row.error or found}")

    found = bench.onnxruntime(
        options.models, level=options.level, dims=dict(options.dims), time=options.time, seed=options.seed, done=done
    )
    return _tables("onnxruntime", found, options)


def tflite(options: argparse.Namespace) -> int:
    """Measure, print the table, write the files."""
    from lowtide import bench
    from lowtide.bench.output import write_overlap
    from lowtide.bench.tflm import Row, overlap
    from lowtide.errors import InputError

    if not options.models and options.overlap < 1:
        raise InputError("say what to measure: --models DIR, or --overlap N with N of 1 or more")
    if options.overlap > 0:
        rows = overlap(options.overlap, options.seed, options.line.message)
        options.line.clear()
        if options.json:
            show_json(rows)
        else:
            from lowtide.bench.tflite_overlap import table

            show(table(rows))
            if options.out is not None:
                _wrote(write_overlap(table(rows), options.out), options)
    if not options.models:
        return 0

    def done(row: Row) -> None:
        options.line.message(f"{row.model}: {row.error or f'{row.own_head_bytes:,} B to {row.head_bytes:,} B'}")

    found = bench.tflite(options.models, time=options.time, seed=options.seed, done=done)
    return _tables("tflite", found, options)


def executorch(options: argparse.Namespace) -> int:
    """Measure, print the table, write the files."""
    from lowtide import bench
    from lowtide.bench.pte import Row

    def done(row: Row) -> None:
        options.line.message(f"{row.model}: {row.error or f'{row.before_bytes:,} B to {row.after_bytes:,} B'}")

    found = bench.executorch(options.models, time=options.time, seed=options.seed, done=done)
    return _tables("executorch", found, options)


def _tell(line: ProgressLine) -> Callable[[str, Progress], None]:
    return lambda name, progress: line(progress, f"{name}: ")


def _names(text: str) -> list[str]:
    """The parts of a list; a comma inside a network's parameters (``a:n=4,filters=16``) does not end it."""
    names: list[str] = []
    for part in (p.strip() for p in text.split(",")):
        if names and "=" in part and ":" not in part:
            names[-1] += f",{part}"
        elif part:
            names.append(part)
    return names


def _wrote(paths: list[Any], options: argparse.Namespace) -> None:
    if not options.quiet:
        for path in paths:
            say(f"wrote {path}")


def _tables(suite: str, found: Tables, options: argparse.Namespace) -> int:
    """Print a suite's tables and write its files; the exit status."""
    from lowtide.bench.output import to_text, write_tables

    options.line.end()
    if options.json:
        show_json(found)
    else:
        show(to_text(suite, found))
    if options.out is not None:
        _wrote(write_tables(suite, found, options.out, options.label), options)
    return _status(found.complete, options)


def _status(complete: bool, options: argparse.Namespace) -> int:
    if complete:
        return 0
    if not options.quiet:
        say("interrupted: these are the results so far")
    return 130
