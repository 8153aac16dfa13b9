"""The words of the command line. Values are checked by the functions that the commands call, not here."""

from __future__ import annotations

import argparse
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from importlib import import_module
from importlib.resources import files
from typing import Any, NoReturn

from lowtide.cli import default, values
from lowtide.cli.methods import listed, methods_text
from lowtide.cli.tree import BENCH, GROUP, REPRODUCE
from lowtide.errors import InputError
from lowtide.extensions import COMMANDS, MissingResearchError, extension
from lowtide.names import did_you_mean
from lowtide.sizes import UNITS_TEXT

_MODEL = (
    "an .onnx, .tflite, .pt2, .graph.json or .hlo.txt (scheduled HLO) file; - (a graph JSON on stdin); zoo:NAME; or "
    "FILE.py:FUNCTION (runs that code)"
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
    "5 verification failed; 6 not proved (--require-optimal); 130 interrupted, best\nplan written."
)


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
            hint = "; separate transformations by commas, as in --allow tile,concat"
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
    """The command that a command line calls, alone, since all of them take longer to describe than most run; all
    commands where it calls none. `suites`, `methods`: with what `bench`, `compare --help` list, slow to load."""
    parser = _Parser(
        prog="lowtide",
        description="Lower the peak memory of a neural network, and prove how low it can go.",
        epilog=f"{_STATUS} `lowtide COMMAND --help` has examples.",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    tables = dict(_tables())
    shared, nested = tables.pop("shared"), tables.pop(GROUP)
    doors = {"plan": default.plan_parser, "fit": default.fit_parser}
    first, second = [*given, "", ""][:2]
    of_front = [name for name in (*doors, *tables) if name == first]
    of_group = [name for name in nested if (first, name) == (GROUP, second)]
    if not of_front and not of_group:
        of_front, of_group = [*doors, *tables], [*nested]
    front, add = _commands_of(parser)
    for name in of_front:
        if name in doors:
            doors[name](add, _MODEL)
        else:
            _command(add, name, tables[name], shared)
    does = "every option of a plan, published methods, targets, sweeps, ..."
    group = front.add_parser(
        GROUP, help=does, description="Plans with every option, published methods, tables and benchmarks.",
        epilog="`lowtide research COMMAND --help` has examples.",
    )  # fmt: skip
    research, add = _commands_of(group)
    for name in of_group:
        command = _command(add, name, nested[name], shared)
        if name == "compare" and methods:
            command.epilog = f"{methods_text()}\n\n{command.epilog}"
        if name in (BENCH, REPRODUCE) and suites:
            add_options = extension(COMMANDS, name)
            if add_options is None:
                raise MissingResearchError(f"lowtide research {name}")
            add_options(command)
    for name, command in [*front.choices.items(), *research.choices.items()]:
        command.given = given
        if name not in (GROUP, BENCH, REPRODUCE):  # whose commands have it
            values.printing(command)
    parser.elsewhere = {name: f"lowtide research {name}" for name in research.choices}
    group.elsewhere = {name: f"lowtide {name}" for name in front.choices}
    return parser


@cache
def _tables() -> dict[str, Any]:
    """The commands of options.toml."""
    return tomllib.loads(files("lowtide.cli").joinpath("options.toml").read_text(encoding="utf-8"))


def _commands_of(parser: _Parser) -> tuple[Any, _Add]:
    """The commands of a parser, none yet, and what adds one."""
    commands_of = parser.add_subparsers(metavar="COMMAND", required=True, dest="name")

    def add(name: str, does: str, run: Any, *examples: str) -> _Parser:
        lines = "\n".join(f"  {example}" for example in examples)
        sub = commands_of.add_parser(name, help=does, description=f"{does}.", epilog=f"{_STATUS}\n\nexamples:\n{lines}")
        sub.set_defaults(command=run, parser=sub)
        return sub

    return commands_of, add


def _command(add: _Add, name: str, table: Mapping[str, Any], shared: Mapping[str, Any]) -> _Parser:
    """A command as options.toml has it."""
    parser = add(name, table["does"], partial(_run, table.get("run", "")), *table["examples"])
    groups: dict[str, Any] = {"": parser}
    exclusive: dict[str, Any] = {}  # by the word of `either`
    here = parser
    for entry in table.get("options", ()):
        words = {"name": entry, **shared[entry]} if isinstance(entry, str) else dict(entry)
        if "group" in words:
            title = words["group"].replace("{UNITS}", UNITS_TEXT)
            if title not in groups:
                groups[title] = parser.add_argument_group(title)
            here = groups[title]
            continue
        one_of = words.pop("either", "")
        if one_of and one_of not in exclusive:
            exclusive[one_of] = here.add_mutually_exclusive_group()
        kind = words.pop("type", None)
        if kind is not None:
            words["type"] = float if kind == "float" else getattr(values, kind)
        words["help"] = words["help"].replace("{MODEL}", _MODEL)
        exclusive.get(one_of, here).add_argument(words.pop("name"), **words)
    return parser


def _run(place: str, options: argparse.Namespace) -> int:
    """Run a command, whose module is imported when it is called."""
    module, _, name = place.partition(":")
    return getattr(import_module(f"lowtide.cli.{module}"), name)(options)


def parser_of_all() -> argparse.ArgumentParser:
    """The parser of every command, those of lowtide-research among them if they are installed."""
    return _parser(suites=extension(COMMANDS, BENCH) is not None)


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from lowtide.version import __version__

        print(f"lowtide {__version__}")
        parser.exit(0)
