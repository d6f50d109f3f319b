"""The command `bourse`. Commands are loaded when they are called, so that help and mistakes are answered at once."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import re
import signal
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any, TextIO
from urllib.parse import unquote

from bourse_client import __version__
from bourse_client.command import exits
from bourse_client.command.parser import parser_made

if TYPE_CHECKING:
    from bourse_client.command.session import Session
    from bourse_client.errors import BourseError, Refused

NOWHERE = "not_found"  # the interface's code for an address at which the caller has nothing
LACKS = "scope_missing"  # its code for a token that has not what a call needs
NO_POOL = "unknown_pool"  # its code for a body or a question that names a pool which is not there
POOL_PATH = r"/pools/([^/]+)/(?:prices|servers|quota|sharing)/"
# Of the addresses at which things are, each with how people name them.
NAMED = (
    (r"/jobs/arrays/(\d+)/", "array A-{}"),
    (r"/jobs/(\d+)/", "job {}"),
    (r"/programs/of/[^/]+/([^/]+)/versions/(\d+)/archive/", "archive of {}, version {},"),
    (r"/programs/of/[^/]+/([^/]+)/", "program {}"),
    (r"/lab/studies/(\d+)/", "study {}"),
    (POOL_PATH, "pool {}"),
)
OPTIONS = {"worth.by": "--by", "worth.credits": "--worth", "worth.later": "--later"}  # by the field that each fills
KEY_SENTENCE = "It may have been heard. To send it again and have it once: --key"
WAYS = {
    name: f"With --{name} NAME, or for every command with `bourse config set {name} NAME`."
    for name in ("pool", "tenant")
}


class EndedBySignal(KeyboardInterrupt):
    """Another process has ended the command, or its terminal is closed. It leaves things as after Control-C."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def run() -> int:
    """Run the command for the shell. A stream that the shell has closed (`>&-`) is an empty one."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  as long as we run
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A letter that the output's encoding lacks is written as its code: what was done must be told in any case.
        sys.stdout.reconfigure(errors="backslashreplace")
    for name in ("SIGTERM", "SIGHUP"):  # the second one is not everywhere
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) == signal.SIG_DFL:  # `nohup` has it ignored
            signal.signal(number, _end)
    try:
        status = main(sys.argv[1:], os.environ, sys.stdin, sys.stdout, sys.stderr)
        sys.stdout.flush()  # here, where a failure can still be reported: at the end of Python it could not
        return status
    except EndedBySignal as ended:
        return exits.SIGNAL + ended.number
    except KeyboardInterrupt:
        return exits.INTERRUPTED
    except BrokenPipeError:
        _let_go()  # the reader has closed the pipe
        return exits.DONE
    except OSError as error:  # commands catch errors of files and of the network themselves
        _let_go()
        print(f"bourse: The output cannot be written: {error.strerror}.", file=sys.stderr)
        return exits.USAGE


def _end(number: int, frame: FrameType | None) -> None:
    raise EndedBySignal(number)


def _let_go() -> None:
    """Drop what is left in the buffer, so that Python does not complain at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main(
    arguments: Sequence[str], environment: Mapping[str, str], stdin: TextIO, stdout: TextIO, stderr: TextIO
) -> int:
    try:
        words = parser_made().parse_args(arguments)
    except SystemExit as end:  # help was shown, or a mistake in the words
        return int(end.code or 0)
    from bourse_client.command.screen import Screen
    from bourse_client.command.session import Session

    colour = stdout.isatty() and not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"
    session = Session(words, environment, Screen(stdout, stderr, words.json, colour), stdin)
    try:
        return _done(session, _command(words))
    finally:
        session.close()


def _command(words: Namespace) -> Callable[[Session], int]:
    module, _, name = str(words.command).partition(":")
    command: Callable[[Session], int] = getattr(importlib.import_module(f"bourse_client.command.{module}"), name)
    return command


def _done(session: Session, command: Callable[[Session], int]) -> int:
    try:
        return _ended(session, command)
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
        if not session.was_answered:
            raise
        _say_shape(session, error)
        return exits.UNREACHABLE


def _ended(session: Session, command: Callable[[Session], int]) -> int:
    from bourse_client.errors import BourseError

    try:
        return command(session)
    except exits.UsageError as mistake:
        session.screen.note(f"bourse: {mistake}")
        return exits.USAGE
    except BourseError as error:
        return _failed(session, error)
    except UnicodeEncodeError:  # bytes of the command line that are no UTF-8 are halves of characters in Python
        session.screen.note("bourse: What was typed is no text in UTF-8.")
        return exits.USAGE
    except KeyboardInterrupt:
        _say_key(session)
        raise


def _say_shape(session: Session, error: Exception) -> None:
    """Say that an answer has not what every answer has: a server of another version gave it, or none of ours. The
    place is for whoever looks for the fault."""
    import traceback

    at = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{type(error).__name__}: {error}, at {os.path.basename(at.filename)}:{at.lineno}"
    address = session.client.transport.address
    session.screen.note(
        f"bourse: {address} gave an answer of another shape than version {__version__} knows ({where})."
    )
    session.screen.note("  Is this the address of Bourse, and its version one that suits this client?")
    if "key" in session.words:
        session.screen.note(f"{KEY_SENTENCE} {session.key}")


def _failed(session: Session, error: BourseError) -> int:
    from bourse_client.errors import NotAllowed, Refused, ServerFailed, TooManyCalls, Unreachable, Unsaid

    sentence = "" if session.words.command == "api:api" else _not_there(error)
    session.screen.note(f"bourse: {sentence or error}")
    if isinstance(error, Unsaid):
        session.screen.note(f"  {WAYS[error.what]}")
    if isinstance(error, Refused):
        _say_more(session, error)
    _say_key(session)
    if isinstance(error, Unreachable | ServerFailed | TooManyCalls):
        return exits.UNREACHABLE
    if not isinstance(error, Refused):
        return exits.USAGE
    return exits.NOT_ALLOWED if isinstance(error, NotAllowed) else exits.REFUSED


def _say_pools(session: Session) -> None:
    """Show the pools that there are, if they can be read: no command lists them."""
    from bourse_client.errors import BourseError

    with contextlib.suppress(BourseError):
        session.screen.note(f"  There are {', '.join(str(pool['slug']) for pool in session.client.pools())}")


def _not_there(error: BourseError) -> str:
    """Return a sentence that names what is not there, if it was asked for by its number or name."""
    from bourse_client.errors import Refused

    if not isinstance(error, Refused) or error.code != NOWHERE or not error.path:
        return ""
    for pattern, name in NAMED:
        if place := re.search(pattern, error.path):
            return f"There is no {name.format(*map(unquote, place.groups()))} here."
    return ""


def _say_key(session: Session) -> None:
    """Say how the command is given again where it may have been heard. A command without --key changes nothing."""
    if session.is_unanswered and "key" in session.words:
        session.screen.note(f"{KEY_SENTENCE} {session.key}")


def _say_more(session: Session, refused: Refused) -> None:
    """Show each field's mistake, and the figures. With --json, the whole is one line of JSON."""
    from bourse_client.command.screen import numbers_line, plain

    screen = session.screen
    if screen.as_json:
        problem = {"status": refused.status, "code": refused.code, "detail": refused.detail}
        import json

        screen.note(json.dumps(problem | {"numbers": refused.numbers, "errors": list(refused.errors)}))
        return
    for error in refused.errors:
        field, detail = error.get("field", ""), str(error.get("detail"))
        line = detail if detail.startswith(f"{field}:") or not field else f"{field}: {detail}"
        if not line.endswith(refused.detail) and refused.detail != detail:
            screen.note(f"  {line}")
    numbers = dict(refused.numbers)
    faults = _faults(numbers.pop("faults", None))
    for fault in faults[1:]:  # the first one is the refusal's sentence
        place = f"line {fault['line']}" if fault.get("line") else fault.get("field", "")
        nearest = f"; nearest is {fault['nearest']}" if fault.get("nearest") else ""
        screen.note("  " + plain(f"{place}: {fault.get('sentence', '')}{nearest}"))
    if refused.code == NO_POOL or (refused.code == NOWHERE and re.search(POOL_PATH, refused.path)):
        _say_pools(session)
    fields = {str(error.get("field", "")) for error in [*refused.errors, *faults]}
    for field in sorted(fields & OPTIONS.keys()):
        screen.note(f"  {field} is said by {OPTIONS[field]}")
    if refused.code == NOWHERE and refused.path:
        screen.note(f"  asked for: {plain(refused.path.partition('?')[0])}")  # so that a wrong tenant or pool is seen
    if refused.code == LACKS:
        screen.note("  Make a token with this scope on the page Tokens, and log in with it: bourse login")
    figures = numbers_line(numbers)
    screen.note(f"  code {refused.code}" + (f": {figures}" if figures else ""))


def _faults(value: Any) -> list[Mapping[str, Any]]:
    return [fault for fault in value if isinstance(fault, Mapping)] if isinstance(value, list) else []
