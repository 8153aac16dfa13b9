"""The words of the command line. Values are checked by the functions that the commands call, not here."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from lowtide.cli import check, commands, curve, emit, measure, probe, report, small_parsers, values
from lowtide.cli import front as front_door
from lowtide.cli.methods import listed, methods_text
from lowtide.cli.tree import BENCH, GROUP, REPRODUCE
from lowtide.cli.values import model_options as _model_options
from lowtide.cli.values import model_sizes as _model_sizes
from lowtide.cli.values import printing, setting
from lowtide.cli.values import seconds as _seconds
from lowtide.cli.values import seed as _seed
from lowtide.emit.layouts.layout import LAYOUTS
from lowtide.errors import InputError
from lowtide.extensions import COMMANDS, MissingResearchError, extension
from lowtide.names import did_you_mean
from lowtide.sizes import UNITS_TEXT

_MODEL = (
    "a .onnx, .tflite, .pt2, .graph.json or .hlo.txt (scheduled HLO) file, - (a graph JSON on stdin), zoo:NAME, or "
    "FILE.py:FUNCTION (runs the user's own code)"
)

_RESEARCH = (
    "--allow", "--target", "--plan", "--header", "--snippet", "--memory", "--bank", "--board", "--method", "--set",
    "--max-overhead", "--reserve", "--cost", "--exact-bits", "--report",
)  # fmt: skip
"""Options of `research plan` that people know from earlier versions of `plan`."""

_SYNONYMS = {"--output": "-o", "--target": "--for", "--batch": "--dim"}
"""Options that other programs have, and what they are here, where a command has that and not the other."""

_STATUS = (
    "exit status: 0 done; 2 wrong input or call; 3 over budget; 4 proved impossible;\n"
    "5 verification failed; 6 --require-optimal and no proof; 130 interrupted, best\nplan written."
)
_WRITTEN = "files to write, together or not at all"


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, as all of lowtide's."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False, **settings)
        self.elsewhere: dict[str, str] = {}
        """Commands that are not this parser's, and how each is called."""
        self.given: Sequence[str] = ()
        """The words of the command line."""

    def error(self, message: str) -> NoReturn:
        chosen = re.match(r"argument COMMAND: invalid choice: '(.*?)' \(choose from (.*)\)", message)
        if chosen is not None:
            name, known = chosen[1], re.findall(r"[\w-]+", chosen[2])
            if name in self.elsewhere:
                raise InputError(f'{name} is now "{self.elsewhere[name]}"')
            hint = did_you_mean(name, known) or did_you_mean(f"lowtide research {name}", self.elsewhere.values(), 0.9)
            message = f"there is no command {name!r}; use one of {', '.join(known)}{hint}"
        if message.startswith("the following arguments are required"):
            strange = [word for word in self.given if word.startswith("--") and self._meant(word)]
            message += "".join(f"; {word} is none{self._meant(word)}" for word in strange[:1])
        raise InputError(f"{message}; see {self.prog} --help")

    def _meant(self, word: str) -> str:
        """The option that one is most like which there is none of; empty where there is that option, or none like it.

        ``; did you mean --budget?``
        """
        known = [name for action in self._actions for name in action.option_strings]
        option = word.partition("=")[0]
        if option in known:
            return ""
        synonyms = {name: own for name, own in _SYNONYMS.items() if own in known and name not in known}
        hint = did_you_mean(option, [*known, *synonyms])
        for name, own in synonyms.items():
            hint = re.sub(rf"{name}(?![\w-])", own, hint)
        return hint

    def unknown(self, words: Sequence[str]) -> NoReturn:
        """Say what is not known, with the option that is most like it."""
        from lowtide.rewrites import ALL, ALLOWED  # only for this message

        option = next((word.partition("=")[0] for word in words if word.startswith("-")), "")
        hint = self._meant(option) if option else ""
        researched = self.prog == "lowtide plan" and option in _RESEARCH and option not in _SYNONYMS
        hint = "; that is an option of `lowtide research plan`" if researched else hint
        if option == "--emit":
            hint = "; C is written by `lowtide emit MODEL -o DIR`"
        if set(words) <= {ALL, *ALLOWED}:
            hint = "; several words of --allow stand with commas between, as in --allow fission,seams"
        self.error(f"unrecognized arguments: {' '.join(words)}{hint}")


_Add = Callable[..., _Parser]  # adds a command: its name, what it does, the function that runs it, and examples


def parse(arguments: Sequence[str]) -> argparse.Namespace | int:
    """Parse a command line; an exit status if there is nothing left to do, as after --help. Raises `InputError`: an
    unknown command or option, or a value that is missing or malformed."""
    try:
        parser = _parser(arguments, suites=arguments[1:2] in ([BENCH], [REPRODUCE]), methods=listed(arguments))
        if list(arguments) in ([], [GROUP]):
            arguments = [*arguments, "--help"]
        options, unknown = parser.parse_known_args(arguments)
        if hasattr(options, "models") and not any(word.startswith("-") and word != "-" for word in unknown):
            options.models += unknown  # argparse takes models only up to the first option behind one
        elif unknown:
            options.parser.unknown(unknown)
        return _with_target_options(options)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0


def _with_target_options(options: argparse.Namespace) -> argparse.Namespace:
    """Options of the target as part of its name, as `lowtide.target.resolve` takes them."""
    settings = getattr(options, "settings", None)
    if settings:
        options.target += "".join(f",{option}={value}" for method, option, value in settings if method == "target")
        options.settings = [setting for setting in settings if setting[0] != "target"]
    return options


def _parser(given: Sequence[str] = (), *, suites: bool = False, methods: bool = False) -> _Parser:
    """All commands, for a command line; `suites`, `methods`: with what `bench`, `compare --help` list, slow to load."""
    parser = _Parser(
        prog="lowtide",
        description="Lower the peak memory of a neural network, and prove how low it can go.",
        epilog=f"{_STATUS} `lowtide COMMAND --help` has examples.",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    front, add = _commands_of(parser)
    front_door.plan_parser(add, _MODEL)
    front_door.fit_parser(add, _MODEL)
    _check(add)
    _inspect(add)
    _verify(add)
    small_parsers.report_parser(add)
    _emit(add)
    does = "everything else: methods of the papers, targets, sweeps, ..."
    group = front.add_parser(
        GROUP, help=does, description="Rules and methods of your choice, those of the papers, tables and benchmarks.",
        epilog="`lowtide research COMMAND --help` has examples.",
    )  # fmt: skip
    research, add = _commands_of(group)
    _plan(add)
    _curve(add)
    _compare(add, methods=methods)
    _probe(add)
    _measure(add)
    _allocate(add)
    _share(add)
    _bench(add, suites=suites)
    small_parsers.target_parser(add)
    small_parsers.board_parser(add)
    small_parsers.zoo_parser(add)
    small_parsers.schema_parser(add)
    small_parsers.sweep_parser(add)
    small_parsers.completion_parser(add, parser_of_all)
    for name, command in [*front.choices.items(), *research.choices.items()]:
        command.given = given
        if name not in (GROUP, BENCH, REPRODUCE):  # whose commands have it
            printing(command)
    parser.elsewhere = {name: f"lowtide research {name}" for name in research.choices}
    group.elsewhere = {name: f"lowtide {name}" for name in front.choices}
    return parser


def _commands_of(parser: _Parser) -> tuple[Any, _Add]:
    """The commands of a parser, none yet, and what adds one."""
    commands_of = parser.add_subparsers(metavar="COMMAND", required=True, dest="name")

    def add(name: str, does: str, run: Any, *examples: str) -> _Parser:
        lines = "\n".join(f"  {example}" for example in examples)
        sub = commands_of.add_parser(name, help=does, description=f"{does}.", epilog=f"{_STATUS}\n\nexamples:\n{lines}")
        sub.set_defaults(command=run, parser=sub)
        return sub

    return commands_of, add


def parser_of_all() -> argparse.ArgumentParser:
    """The parser of every command, those of lowtide-research among them if they are installed."""
    return _parser(suites=extension(COMMANDS, BENCH) is not None)


def _plan(add: _Add) -> None:
    """Order, arena and what is written of them."""
    p = add(
        "plan", "plan under rules and methods of your choice, prove, write back", commands.plan,
        "lowtide research plan model.onnx -o model.planned.onnx --plan model.plan.json",
        "lowtide research plan model.onnx --board esp32s3 --bank sram=200KiB --dim batch=1 --header arena.h",
        "lowtide research plan model.onnx --memory fast=256KiB --allow fission -o model.cut.onnx --commands driver.txt",
        "lowtide research plan step.graph.json --allow recompute --max-overhead 10% --plan plan.json",
    )  # fmt: skip
    p.add_argument("model", metavar="MODEL", help=_MODEL)
    written = p.add_argument_group(_WRITTEN)
    written.add_argument("-o", dest="out", metavar="OUT", help="the model in the plan's order, in its own format")
    written.add_argument("--plan", dest="plan_file", metavar="P.json", help="the plan")
    _exports(written)
    written.add_argument("--buffer-plan", metavar="B.h", help="the layout as TFLM's BufferPlan, with the arena's size")
    written.add_argument("--commands", metavar="C.txt", help="what a driver runs when it spills; .json as JSON")
    written.add_argument("--snippet", metavar="S.py", help="the onnxruntime session that keeps order and arena")
    written.add_argument("--log", dest="log_file", metavar="L.csv", help="when the best and the bound got better")
    report.options_of_plan(written)
    p.add_argument("--copy-external", action="store_true", help="copy external data to where OUT is, if elsewhere")
    _planning(p, budget=True, method=True, spilling=True)


def _inspect(add: _Add) -> None:
    """Why the peak is what it is."""
    p = add(
        "inspect", "say why the peak is what it is, and what keeps tensors live", commands.inspect,
        "lowtide inspect model.onnx",
        "lowtide inspect model.onnx --target strict --time 30 --json",
        "lowtide inspect model.tflite --ladder 20",
    )  # fmt: skip
    p.add_argument("model", metavar="MODEL", help=_MODEL)
    p.add_argument(
        "--ladder", type=float, default=2.0, metavar="SECONDS", help="look so long for smaller memories that do, by "
        "cuts and by a slow memory (default 2; 0: not at all)",
    )  # fmt: skip
    _planning(p, method=True, time=10)


def _curve(add: _Add) -> None:
    """Peaks that cuts or repeated ops reach, and what they take."""
    p = add(
        "curve", "print the peaks that cuts, or ops that run again, reach, and what each takes", curve.run,
        "lowtide research curve model.onnx --target onnxruntime",
        "lowtide research curve step.graph.json --allow recompute",
        "lowtide research curve model.onnx --target onnxruntime --cost cost.json",
    )  # fmt: skip
    curve.arguments(p)


def _measure(add: _Add) -> None:
    """A cost file."""
    p = add(
        "measure", "time a model's ops, and parts of them, in onnxruntime: a cost file for plans", measure.run,
        "lowtide research measure model.onnx -o cost.json --max-overhead 10%",
        "lowtide research plan model.onnx --allow fission --cost cost.json --max-overhead 10% --plan plan.json",
        "lowtide research measure opt.onnx -o cost.json --level all --threads 4 --time 300",
    )  # fmt: skip
    measure.arguments(p)


def _check(add: _Add) -> None:
    """Whether a model fits."""
    p = add(
        "check", "say in one line whether a model fits a budget; writes nothing", check.run,
        "lowtide check model.onnx --budget 256KiB",
        "lowtide check models/*.tflite --budget 64K --format github",
        "lowtide check compiled.graph.json --bank sram=256KiB --bank psram=8MiB --json",
        "lowtide check --summary summary.md --before ../main",
    )  # fmt: skip
    p.add_argument(
        "models", metavar="MODEL", nargs="*", help=f"{_MODEL}; several in one table; none: those of lowtide.toml"
    )
    check.arguments(p)
    _planning(p, budget=True, method=True)


def _compare(add: _Add, *, methods: bool) -> None:
    """All methods on one model."""
    p = add(
        "compare", "run methods on one model, and show one table", commands.compare,
        "lowtide research compare zoo:nasnet_a_cifar --target strict",
        "lowtide research compare model.onnx --methods own,rpo,greedy,exact --time 10",
        "lowtide research compare model.onnx --memory fast=256KiB --methods spill,belady,greedy-spill",
    )  # fmt: skip
    p.add_argument("model", metavar="MODEL", help=_MODEL)
    p.add_argument("--methods", metavar="A,B,...", default="", help="which (default: those that are quick)")
    p.add_argument("--all", dest="every", action="store_true", help="the papers' slow searches too")
    _planning(p, spilling=True)
    p.epilog = f"{methods_text()}\n\n{p.epilog}" if methods else p.epilog


def _verify(add: _Add) -> None:
    """The checker."""
    p = add(
        "verify", "check a plan independently; --run also runs both models", commands.verify,
        "lowtide verify model.onnx model.plan.json",
        "lowtide verify model.onnx model.plan.json --run --prove",
        "lowtide verify planned.tflite",
    )  # fmt: skip
    p.add_argument("model", metavar="MODEL", help=_MODEL)
    p.add_argument(
        "plan_file", metavar="P.json", nargs="?",
        help="a plan file; without it, the offline plan in a .tflite file is checked",
    )  # fmt: skip
    p.add_argument("--run", action="store_true", help="run both orders in the model's runtime on random inputs")
    p.add_argument("--random-weights", action="store_true", help="for --run: use random weights if the file has none")
    p.add_argument("--prove", action="store_true", help="prove the bound again with a second, plain search")
    p.add_argument("--time", type=_seconds, default=60.0, metavar="SECONDS", help="for --prove (default: 60)")
    p.add_argument("--target", default="auto", help="only needed for a plan made with a TOML file: that file")
    _model_options(p)


def _emit(add: _Add) -> None:
    """C code."""
    p = add(
        "emit", "write a .tflite model as C without an interpreter", emit.run,
        "lowtide emit model.tflite -o firmware",
        "lowtide emit model.tflite -o firmware --stream-input --budget 64KiB",
        "lowtide emit model.tflite -o firmware --bank sram=64KiB --bank psram=8MiB",
        "lowtide emit model.tflite -o firmware --kernels cmsis-nn --simd dsp",
        "lowtide emit model.tflite -o firmware --test qemu --as zephyr",
    )  # fmt: skip
    p.add_argument("model", metavar="MODEL", help="a .tflite file")
    written = p.add_argument_group(_WRITTEN)
    written.add_argument("-o", dest="out", metavar="DIR", required=True, help="the folder of the code")
    written.add_argument("--plan", dest="plan_file", metavar="P.json", help="the plan")
    written.add_argument("--report", metavar="R.html", help="a picture of the plan: one HTML file, no network")
    code = p.add_argument_group("the code")
    code.add_argument(
        "--kernels", choices=("auto", "c", "cmsis-nn"), default="auto",
        help="lowtide's own kernels (c), or calls of CMSIS-NN (default: auto, which is c)",
    )  # fmt: skip
    code.add_argument(
        "--simd",
        choices=("any", "none", "dsp", "mve"),
        help="instructions that CMSIS-NN is compiled for (default: any)",
    )
    code.add_argument(
        "--name", default="model", metavar="NAME",
        help="what files, functions and macros begin with, so that several models link (default: model)",
    )  # fmt: skip
    written.add_argument(
        "--as", dest="layout", choices=tuple(LAYOUTS), default="cmake",
        help="the folder's layout: a CMake project with a program for a host, a library of Arduino, a module of "
        "Zephyr, a component of ESP-IDF (default: cmake)",
    )  # fmt: skip
    written.add_argument(
        "--test", metavar="qemu",
        help="before it is written, compile the code for boards that qemu emulates, compare results with TFLM's, and "
        "print arena, stack, flash and instructions; of some boards only: qemu:m4,m55 (m4, m7, m55, rv32)",
    )  # fmt: skip
    _model_options(p)
    there = p.add_argument_group(f"what there is ({UNITS_TEXT})")
    values.budget(there)
    values.banks(there)
    curve.stream_input(p)
    p.add_argument(
        "--input", choices=("arena", "caller"), default="arena",
        help="where inputs are while the model runs: copied to the arena, or read by pointer where the caller has them "
        "(default: arena)",
    )  # fmt: skip
    p.add_argument("--time", type=_seconds, default=60.0, metavar="SECONDS", help="limit of the search (default: 60)")


def _probe(add: _Add) -> None:
    """What ops mean."""
    p = add(
        "probe", "say what each op reads for a part of its result, and prove it in the model's runtime", probe.run,
        "lowtide research probe model.onnx",
        "lowtide research probe model.onnx --dim batch=1 --json",
    )  # fmt: skip
    p.add_argument("model", metavar="MODEL", help=_MODEL)
    p.add_argument(
        "--most-macs", type=_seed, default=2 * 10**8, metavar="N", help="skip nodes that multiply more often"
    )
    p.add_argument("--seed", type=_seed, default=0, metavar="N", help="seed of random choices (default: 0)")
    _model_sizes(p)


def _allocate(add: _Add) -> None:
    """Plain buffers."""
    p = add(
        "allocate", "find offsets for the buffers of a CSV file; prints the CSV with offsets", commands.allocate,
        "lowtide research allocate buffers.csv > placed.csv",
        "lowtide research allocate buffers.csv --capacity 1MiB -o placed.csv --header arena.h --table arena.txt",
        "lowtide research allocate buffers.csv --bank sram=256KiB --bank psram=8MiB --json",
    )  # fmt: skip
    p.add_argument(
        "buffers", metavar="BUFFERS.csv",
        help="id,lower,upper,size[,alignment,offset,gaps], half-open; .json: a dsa-problem of version 1",
    )  # fmt: skip
    p.add_argument("--pool", metavar="NAME", help="of a dsa-problem with several: which one")
    written = p.add_argument_group(_WRITTEN)
    written.add_argument("-o", dest="out", metavar="OUT.csv", help="the CSV with offsets, which is not printed then")
    _exports(written)
    p.add_argument("--capacity", metavar="SIZE", help="bytes there are: exit 3 if no fit is found, 4 if there is none")
    p.add_argument("--spread", action="store_true", help="reuse bytes only where the capacity demands it")
    p.add_argument(
        "--reuse-cost", action="store_true", help="within the capacity, least penalties for shared bytes (dsa-problem)"
    )
    values.banks(p)
    p.add_argument("--time", type=_seconds, default=60.0, metavar="SECONDS", help="limit of the search (default: 60)")
    p.add_argument("--seed", type=_seed, default=0, metavar="N", help="seed of random choices (default: 0)")


def _share(add: _Add) -> None:
    """Several models in one arena."""
    p = add(
        "share", "plan models that run in turn into one arena", commands.share,
        "lowtide research share detect.onnx classify.onnx --persistent state --header arenas.h --plans plans",
        "lowtide research share detect.onnx classify.onnx --budget 256KiB --json",
    )  # fmt: skip
    p.add_argument("models", metavar="MODEL", nargs="+", help=f"{_MODEL}; two or more")
    written = p.add_argument_group(_WRITTEN)
    _exports(written)
    written.add_argument("--plans", metavar="FOLDER", help="each model's plan, with its offsets in the arena")
    p.add_argument("--budget", metavar="SIZE", help="what the arena may take: exit 3 if it needs more, 4 if it must")
    _planning(p, kept=True)


def _bench(add: _Add, *, suites: bool) -> None:
    """Benchmarks and the papers' tables; their options are there if they are asked for."""
    bench = add(
        "bench", "run a benchmark suite: ours beside what the papers publish", None,
        "lowtide research bench schedule --networks nasnet_a_cifar --methods hmcos,exact",
        "lowtide research bench space --network swiftnet_cell_a",
    )  # fmt: skip
    reproduce = add(
        "reproduce", "measure each figure that one of the five papers prints, and compare", None,
        "lowtide research reproduce hmcos --row table-1",
    )  # fmt: skip
    for name, parser in ((BENCH, bench), (REPRODUCE, reproduce)) if suites else ():
        add_options = extension(COMMANDS, name)
        if add_options is None:
            raise MissingResearchError(f"lowtide research {name}")
        add_options(parser)


def _planning(
    p: _Parser,
    *,
    budget: bool = False,
    spilling: bool = False,
    method: bool = False,
    kept: bool = False,
    time: int = 60,
) -> None:
    """Options that planning commands take."""
    counted = p.add_argument_group("what counts as memory")
    counted.add_argument(
        "--target", default="auto", metavar="NAME", help="memory rules: see `lowtide research target`, or a TOML file"
    )
    _model_options(counted, several=budget and spilling, settings=True)
    if budget or kept:
        values.kept(counted)
    if budget:
        values.fixed(counted)
    there = p.add_argument_group(f"what there is ({UNITS_TEXT})")
    if budget:
        values.budget(there, share=spilling)
        values.banks(there)
    if spilling:
        values.spilling(there)
    if budget and spilling:
        there.add_argument("--spread", action="store_true", help="reuse bytes only where the budget demands it")
    if budget and spilling:
        curve.changes(p)
    search = p.add_argument_group("search")
    search.add_argument(
        "--time", type=_seconds, default=float(time), metavar="SECONDS",
        help=f"limit of the search (default: {time}); figures and checks come on top, in 10,000 parts some 3 s",
    )  # fmt: skip
    search.add_argument("--search-memory", default="2GiB", metavar="SIZE", help="limit of the search (default: 2GiB)")
    search.add_argument("--seed", type=_seed, default=0, metavar="N", help="seed of random choices (default: 0)")
    if budget:
        search.add_argument("--require-optimal", action="store_true", help="exit 6 if the peak is not proved least")
    if method:
        search.add_argument("--gap", default="0", metavar="3%", help="stop once the bound is so near to the peak")
        search.add_argument(
            "--method", default="exact", metavar="NAME", help="see `lowtide research compare --help` (default: exact)"
        )
    search.add_argument(
        "--set", dest="settings", action="append", default=[], metavar="METHOD.OPTION=VALUE", type=setting,
        help="an option of a method; target.OPTION=VALUE, or OPTION=VALUE, is one of the target",
    )  # fmt: skip


def _exports(p: Any) -> None:
    """The layout for firmware and compilers."""
    p.add_argument("--header", metavar="H.h", help="the layout as C macros: arena size, offsets, sizes")
    p.add_argument("--table", metavar="T.txt", help="the layout as text: who lies where and when")
    p.add_argument("--usmp", metavar="U.json", help="the layout as TVM's pool, buffer and allocation records")


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from lowtide.version import __version__

        print(f"lowtide {__version__}")
        parser.exit(0)
