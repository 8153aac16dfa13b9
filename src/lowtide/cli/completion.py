"""The command `completion`: what bash, zsh and fish complete, made of the parser itself.

A script is text that knows every command, its options and the names that they take (targets, boards, methods,
networks) as they are when it is made; nothing of lowtide runs while the user types. Where a file is expected the shell
completes files as it always does.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lowtide.cli.terminal import show, show_json
from lowtide.cli.tree import GROUP, all_commands, commands_of, helps_of
from lowtide.rewrites import ALL, ALLOWED

SHELLS = ("bash", "zsh", "fish")
_FREE = ("SIZE", "SECONDS", "NAME=", "TENSOR", "METHOD.", "10%", "3%", "A,B")
"""Begins of what stands for values that are neither files nor names of a list; `N` by itself is a number."""
_OR_FILES = {"--target", "--board", "target", "board", "model", "models"}
"""Options and arguments that take a name of a list, or a file."""


@dataclass(frozen=True)
class Option:
    """An option, or a positional argument (`names` is empty then)."""

    names: tuple[str, ...]  # as they are typed
    help: str  # one line
    # ``""``: no value; ``"files"``; ``"free"``: something that cannot be completed; ``"words"``: one of `words`;
    # ``"both"``: one of them, or a file.
    takes: str
    words: tuple[str, ...] = ()  # what may stand there


@dataclass(frozen=True)
class Command:
    """A command with its options; the name of one of ``research`` begins with that word."""

    name: str
    help: str
    options: tuple[Option, ...]

    @property
    def group(self) -> str:
        """The words before its last one; empty for a command of the first help."""
        return self.name.rpartition(" ")[0]


def run(options: argparse.Namespace) -> int:
    """Print the script for a shell."""
    from lowtide.cli.parser import parser_of_all

    text = script(options.shell, parser_of_all())
    if options.json:
        show_json({"shell": options.shell, "script": text})
    else:
        show(text)
    return 0


def script(shell: str, parser: argparse.ArgumentParser) -> str:
    """The completion of a parser with subcommands, for one of `SHELLS`."""
    commands = list(_commands(parser))
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](commands)


def _commands(parser: argparse.ArgumentParser) -> Iterator[Command]:
    yield Command(GROUP, helps_of(parser)[GROUP], ())
    for name, does, sub in all_commands(parser):
        last = name.rpartition(" ")[2]
        nested = commands_of(sub)
        options = [_option(last, a) for a in sub._actions if not isinstance(a, argparse._SubParsersAction)]
        options += [Option((), "", "words", tuple(nested))] if nested else []
        # The options of all of a command's own commands: one list is short enough.
        inner = {o.names: o for s in nested.values() for o in (_option(last, x) for x in s._actions)}
        options += [o for names, o in inner.items() if names and all(names != own.names for own in options)]
        yield Command(name, does, tuple(options))


def _option(command: str, action: argparse.Action) -> Option:
    names, text = tuple(action.option_strings), " ".join((action.help or "").replace("%%", "%").split())
    if names and action.nargs == 0:
        return Option(names, text, "")
    if action.choices is not None:
        return Option(names, text, "words", tuple(map(str, action.choices)))
    words = _words(command, action)
    if words:
        return Option(names, text, "both" if {*names, action.dest} & _OR_FILES else "words", words)
    metavar = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    return Option(names, text, "free" if names and (metavar.startswith(_FREE) or metavar == "N") else "files")


def _words(command: str, action: argparse.Action) -> tuple[str, ...]:
    """The names that an argument may take in addition to files."""
    from lowtide import api
    from lowtide.extensions import NETWORKS, extension
    from lowtide.schedule.registry import methods

    zoo = extension(NETWORKS, "zoo")
    networks = () if zoo is None else tuple(zoo.names())
    lists = {
        "--target": lambda: ("auto", *api.targets()),
        "--board": lambda: tuple(api.boards()),
        "--method": lambda: tuple(methods()),
        "--methods": lambda: tuple(methods()),
        "--allow": lambda: (ALL, *ALLOWED),
        "target": lambda: tuple(api.targets()),
        "board": lambda: tuple(api.boards()),
        "network": lambda: networks,
        "model": lambda: tuple(f"zoo:{name}" for name in networks),
        "models": lambda: tuple(f"zoo:{name}" for name in networks),
    }
    key = next((name for name in action.option_strings if name in lists), action.dest)
    known = key in lists and (not action.option_strings or key.startswith("--"))
    return lists[key]() if known and command != "bench" else ()


def _positional(command: Command) -> Option:
    """The positional argument: the first that has names, or else files."""
    found = [option for option in command.options if not option.names]
    return next((option for option in found if option.words), found[0] if found else Option((), "", "free"))


BASH = """# Completion of lowtide in bash, made by `lowtide research completion bash`. In ~/.bashrc:
#     eval "$(lowtide research completion bash)"
_lowtide() {
    local line=${COMP_LINE:0:COMP_POINT} command= before= flags= words= files= i
    local word=${line##*[[:space:]]}
    for ((i = 1; i < COMP_CWORD; i++)); do
        case "$command/${COMP_WORDS[i]}" in
            @COMMANDS@) command=${command:+$command/}${COMP_WORDS[i]} ;;
        esac
    done
    # bash takes = and : for ends of words: `before` is the word that stands before the one under the cursor.
    local head=${line%"$word"}; head=${head%"${head##*[![:space:]]}"}
    before=${head##*[[:space:]]}
    case $word in --*=*) before=${word%%=*}; word=${word#*=} ;; esac
    case $command in
        '') words="@COMMAND_WORDS@"; flags="--help --version" ;;
        @GROUP@) words="@GROUP_WORDS@"; flags="--help" ;;
@CASES@
    esac
    local IFS=$'\\n' candidate
    COMPREPLY=()
    case $word in -*) words=$flags; files= ;; esac
    for candidate in ${words// /$'\\n'}; do
        [[ $candidate == "$word"* ]] && COMPREPLY+=("$candidate")
    done
    if [[ $COMP_WORDBREAKS == *:* && $word == *:* ]]; then
        local known=${word%"${word##*:}"}
        COMPREPLY=("${COMPREPLY[@]#"$known"}")
    fi
    if [[ -n $files ]]; then
        compopt -o filenames 2>/dev/null
        COMPREPLY+=($(compgen -f -- "$word"))
    fi
}
complete -F _lowtide lowtide"""


def _bash(commands: Sequence[Command]) -> str:
    cases = []
    for command in commands:
        if command.name == GROUP:
            continue
        flags = " ".join(name for option in command.options for name in option.names)
        rows = [f"        {command.name.replace(' ', '/')})", f'            flags="{flags}"',
                "            case $before in"]  # fmt: skip
        for option in command.options:
            if option.names and option.takes:
                rows.append(f"                {'|'.join(option.names)}) {_bash_values(option)} ;;")
        rows.append(f"                *) {_bash_values(_positional(command))} ;;")
        cases.append("\n".join([*rows, "            esac ;;"]))
    known = "|".join(f"{'' if c.group else '/'}{c.name.replace(' ', '/')}" for c in commands)
    text = BASH.replace("@COMMANDS@", known).replace("@CASES@", "\n".join(cases)).replace("@GROUP@", GROUP)
    for place, group in (("@COMMAND_WORDS@", ""), ("@GROUP_WORDS@", GROUP)):
        text = text.replace(place, " ".join(c.name.rpartition(" ")[2] for c in commands if c.group == group))
    return text


def _bash_values(option: Option) -> str:
    words = f'words="{" ".join(option.words)}"' if option.words else "words="
    return words if option.takes in ("words", "free") else f"{words} files=1"


def _zsh(commands: Sequence[Command]) -> str:
    return "\n".join(
        [
            "#compdef lowtide",
            "# Completion of lowtide in zsh, made by `lowtide research completion zsh`. In ~/.zshrc, after compinit:",
            '#     eval "$(lowtide research completion zsh)"',
            *_zsh_function(f"_lowtide_{GROUP}", [command for command in commands if command.group]),
            *_zsh_function("_lowtide", [command for command in commands if not command.group]),
            'if [ "$funcstack[1]" = _lowtide ]; then _lowtide "$@"; else compdef _lowtide lowtide; fi',
        ]
    )


def _zsh_function(function: str, commands: Sequence[Command]) -> list[str]:
    """A function that completes one of these commands and what it takes."""
    names = [command.name.rpartition(" ")[2] for command in commands]
    described = [f"        {_quoted(f'{_colon(n)}:{c.help}')}" for n, c in zip(names, commands, strict=True)]
    cases, version = [], "" if commands[0].group else " '(- *)--version[show the version]'"
    for name, command in zip(names, commands, strict=True):
        if command.name == GROUP:
            cases.append(f"            {GROUP}) _lowtide_{GROUP} ;;")
            continue
        specs = [_zsh_option(option, flag) for option in command.options for flag in option.names]
        specs.append(_quoted(f"*:argument:{_zsh_values(_positional(command))}"))
        body = " \\\n".join(f"                {spec}" for spec in specs)
        cases.append(f"            {name})\n                _arguments \\\n{body} ;;")
    return [
        f"{function}() {{",
        "    local context state line",
        "    local -a commands",
        "    commands=(",
        *described,
        "    )",
        f"    _arguments -C '(- *)--help[show help]'{version} \\",
        "        '1:command:->command' '*::argument:->rest'",
        "    case $state in",
        "        command) _describe command commands ;;",
        "        rest) case ${words[1]} in",
        *cases,
        "        esac ;;",
        "    esac",
        "}",
    ]


def _zsh_option(option: Option, name: str) -> str:
    text = option.help.replace("[", "(").replace("]", ")")
    star = "*" if "several times" in option.help else ""
    equals = "=" if option.takes and name.startswith("--") else "+" if option.takes else ""
    value = f":value:{_zsh_values(option)}" if option.takes else ""
    return _quoted(f"{star}{name}{equals}[{_colon(text)}]{value}")


def _zsh_values(option: Option) -> str:
    words = "compadd -- " + " ".join(option.words)
    if option.takes == "both":
        return f"{{_files; {words}}}"
    return {"files": "_files", "words": f"{{{words}}}", "free": " "}[option.takes]


def _colon(text: str) -> str:
    return text.replace(":", "\\:")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _fish(commands: Sequence[Command]) -> str:
    lines = [
        "# Completion of lowtide in fish, made by `lowtide research completion fish`. Once:",
        "#     lowtide research completion fish > ~/.config/fish/completions/lowtide.fish",
        "complete -c lowtide -n __fish_use_subcommand -f -l help -d 'show help'",
        "complete -c lowtide -n __fish_use_subcommand -f -l version -d 'show the version'",
    ]
    grouped = f"__fish_seen_subcommand_from {GROUP}"
    of_group = " ".join(c.name.rpartition(" ")[2] for c in commands if c.group)
    for command in commands:
        last = command.name.rpartition(" ")[2]
        if command.group:
            where, when = f"'{grouped}; and not __fish_seen_subcommand_from {of_group}'", grouped
        else:
            where, when = "__fish_use_subcommand", f"not {grouped}"
        seen = f"complete -c lowtide -n '{when}; and __fish_seen_subcommand_from {last}'"
        lines.append(f"complete -c lowtide -n {where} -f -a {last} -d {_fish_text(command.help)}")
        if command.name == GROUP:
            continue
        rest = _positional(command)
        if rest.words:
            lines.append(f"{seen} {'-f ' if rest.takes == 'words' else ''}-a '{' '.join(rest.words)}'")
        elif rest.takes == "free":
            lines.append(f"{seen} -f")
        for option in command.options:
            if option.names:
                names = " ".join(f"-l {n[2:]}" if n.startswith("--") else f"-s {n[1:]}" for n in option.names)
                lines.append(f"{seen} {names}{_fish_value(option)} -d {_fish_text(option.help)}")
    return "\n".join(lines)


def _fish_value(option: Option) -> str:
    words = f" -a '{' '.join(option.words)}'" if option.words else ""
    return {"": "", "files": " -r -F", "both": f" -r -F{words}", "words": f" -x{words}", "free": " -x"}[option.takes]


def _fish_text(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
