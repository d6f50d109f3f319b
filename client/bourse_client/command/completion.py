"""`bourse completion`: print a script for the shell, made from the parser itself."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from bourse_client.command import exits
from bourse_client.command.parser import parser_made
from bourse_client.command.session import Session

SCRIPT = """_bourse() {{
    local word path="" found
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        case "$path $word" in
{paths}
        esac
    done
    case "$path" in
{words}
    esac
    COMPREPLY=($(compgen -W "$found" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _bourse bourse
"""


FISH = """function __bourse_words
    set -l path ""
    for word in (commandline -opc)[2..]
        switch "$path $word"
{paths}
        end
    end
    switch "$path"
{words}
    end
end
complete -c bourse -a "(__bourse_words)"
"""


def completion(session: Session) -> int:
    """Print the script. Put `eval "$(bourse completion bash)"`, or `bourse completion fish | source`, into the shell's
    own start-up file."""
    if session.words.shell == "fish":
        session.screen.line(fish_script().rstrip())
        return exits.DONE
    if session.words.shell == "zsh":
        session.screen.line("autoload -U +X bashcompinit && bashcompinit")
    session.screen.line(script().rstrip())
    return exits.DONE


def script() -> str:
    words_by_path = dict(_words(parser_made(), ""))
    paths = "\n".join(f'            "{path}") path="{path}" ;;' for path in words_by_path if path)
    words = "\n".join(
        f'        "{path}") found="{" ".join(words_known)}" ;;' for path, words_known in words_by_path.items()
    )
    return SCRIPT.format(paths=paths.replace('"  ', '" '), words=words)


def fish_script() -> str:
    words_by_path = dict(_words(parser_made(), ""))
    paths = "\n".join(f'            case "{path}"\n                set path "{path}"' for path in words_by_path if path)
    words = "\n".join(
        f'        case "{path}"\n            printf "%s\\n" {" ".join(words_known)}'
        for path, words_known in words_by_path.items()
        if words_known
    )
    return FISH.format(paths=paths, words=words)


def _words(parser: argparse.ArgumentParser, path: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the path of each command, with a blank before each word, and the words that may follow it."""
    words_listed: list[str] = []
    inner: list[tuple[str, argparse.ArgumentParser]] = []
    for action in parser._actions:
        words_listed += [option for option in action.option_strings if option.startswith("--")]
        if isinstance(action, argparse._SubParsersAction):
            inner = list(action.choices.items())
        elif action.choices and not action.option_strings:
            words_listed += [str(choice) for choice in action.choices]
    yield path, [*(name for name, _ in inner), *words_listed]
    for name, below in inner:
        yield from _words(below, f"{path} {name}")
