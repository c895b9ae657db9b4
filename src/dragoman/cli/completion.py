"""`dragoman completion SHELL`: prints a script that completes commands, options, agents and files.

The shell asks `dragoman completion words -- WORD…`, so the parser is the only list of commands and options.
"""

import argparse
from collections.abc import Iterable

from ..foundation.suggesting import choices
from .complaint import complain
from .values import Commands

ASKING = "words"  # in place of a shell: the scripts' query
FILES, DIRECTORIES = ":files", ":directories"  # completed by the shell itself
_OF_FILES = ("FILE", "PATH", "CERT")
_OF_DIRECTORIES = ("DIR",)

BASH = """\
_dragoman() {
    local IFS=$'\\n' word="${COMP_WORDS[COMP_CWORD]}" line
    COMPREPLY=()
    while read -r line; do
        case "$line" in
            :files) COMPREPLY+=($(compgen -f -- "$word")); compopt -o filenames ;;
            :directories) COMPREPLY+=($(compgen -d -- "$word")); compopt -o filenames ;;
            *) COMPREPLY+=("${line%%$'\\t'*}") ;;
        esac
    done < <(dragoman completion words -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _dragoman dragoman
"""

ZSH = """\
#compdef dragoman
_dragoman() {
    local line
    local -a found
    for line in "${(@f)$(dragoman completion words -- "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
        case "$line" in
            :files) _files ;;
            :directories) _files -/ ;;
            ?*) found+=("${${line//:/\\\\:}/$'\\t'/:}") ;;
        esac
    done
    (( $#found )) && _describe -t words word found
}
if [ "$funcstack[1]" = "_dragoman" ]; then _dragoman "$@"; else compdef _dragoman dragoman; fi
"""

FISH = """\
function __dragoman
    set -l words (commandline -opc) (commandline -ct)
    for line in (dragoman completion words -- $words[2..-1] 2>/dev/null)
        switch $line
            case :files
                __fish_complete_path (commandline -ct)
            case :directories
                __fish_complete_directories (commandline -ct)
            case '*'
                echo $line
        end
    end
end
complete -c dragoman -f -a '(__dragoman)'
"""

SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}
HOW = (
    'bash: eval "$(dragoman completion bash)" in ~/.bashrc; zsh: source <(dragoman completion zsh) in ~/.zshrc, '
    "after compinit; fish: dragoman completion fish > ~/.config/fish/completions/dragoman.fish"
)


def add_to(commands: Commands) -> None:
    told = "print a script that completes commands in a shell"
    completion = commands.add_parser("completion", help=told, epilog=HOW)
    completion.add_argument("shell", metavar="SHELL", help=", ".join(SCRIPTS))
    completion.add_argument("words", nargs="*", help=argparse.SUPPRESS)
    completion.set_defaults(command=_complete)


def _complete(arguments: argparse.Namespace) -> int:
    if arguments.shell == ASKING:
        from . import parser

        print("\n".join(completed(parser(), arguments.words or [""])))
        return 0
    if arguments.shell not in SCRIPTS or arguments.words:
        return complain(f"there is no shell {arguments.shell!r}; {choices(arguments.shell, SCRIPTS)}")
    print(SCRIPTS[arguments.shell], end="")
    return 0


def completed(parser: argparse.ArgumentParser, words: list[str]) -> list[str]:
    """The completions of the last word: one a line, with a tab before its description."""
    *before, begun = words
    taken = 0  # the number of written arguments of the command
    expecting: argparse.Action | None = None  # the option whose value comes next
    for word in before:
        if expecting is not None:
            expecting = None
        elif word.startswith("-") and word != "-":
            option = parser._option_string_actions.get(word)
            expecting = option if option is not None and option.nargs != 0 else None
        elif commands := _commands(parser):
            if word not in commands:
                return []
            parser, taken = commands[word], 0
        else:
            taken += 1
    if expecting is not None:
        return _values(expecting, begun)
    if begun.startswith("-"):
        return _beginning(begun, _options(parser))
    if commands := _commands(parser):
        return _beginning(begun, _described(parser))
    places = [action for action in parser._get_positional_actions() if action.nargs != argparse.PARSER]
    if not places:
        return []
    return _values(places[min(taken, len(places) - 1)], begun)


def _commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    found = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return dict(found[0].choices) if found else {}


def _described(parser: argparse.ArgumentParser) -> Iterable[str]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from (f"{each.dest}\t{each.help}" for each in action._choices_actions)


def _options(parser: argparse.ArgumentParser) -> Iterable[str]:
    for action in parser._actions:
        if action.help != argparse.SUPPRESS:
            yield from (f"{option}\t{action.help}" for option in action.option_strings if option.startswith("--"))


def _values(action: argparse.Action, begun: str) -> list[str]:
    """The values of an option or argument, as far as they are known."""
    names = [action.metavar] if isinstance(action.metavar, str) else list(action.metavar or ())
    if action.dest == "shell":
        return _beginning(begun, SCRIPTS)
    if action.choices is not None:
        return _beginning(begun, map(str, action.choices))
    if "--agent" in action.option_strings or action.dest == "name":
        from ..host.processes import known_agents

        return _beginning(begun, (f"{name}\t{agent.title}" for name, agent in known_agents().items()))
    if any(name in _OF_FILES for name in names):
        return [FILES]
    return [DIRECTORIES] if any(name in _OF_DIRECTORIES for name in names) else []


def _beginning(begun: str, candidates: Iterable[str]) -> list[str]:
    return [each for each in candidates if each.startswith(begun)]
