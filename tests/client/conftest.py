"""The command as its caller sees it: words in; exit status, standard output and standard error out."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from bourse_client.command.main import main
from tests.web import web_server


@dataclass(frozen=True)
class Ended:
    status: int
    out: str
    err: str


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


Bourse = Callable[..., Ended]


@pytest.fixture
def bourse(tmp_path: Path) -> Bourse:
    """`bourse("jobs", "list", url=..., token=...)` in a home of its own. What is `typed` comes from
    somebody at a terminal. What else is named is its environment."""

    def run(
        *words: str, stdin: str = "", typed: str | None = None, terminal: bool = False, **environment: str
    ) -> Ended:
        named = {f"BOURSE_{name.upper()}": value for name, value in environment.items()}
        out, err = (Terminal(), Terminal()) if terminal else (io.StringIO(), io.StringIO())
        source = io.StringIO(stdin) if typed is None else Terminal(typed)
        status = main([str(word) for word in words], {"HOME": str(tmp_path)} | named, source, out, err)
        return Ended(status, out.getvalue(), err.getvalue())

    return run


@pytest.fixture(scope="session")
def web(django_db_setup: None) -> Iterator[str]:
    """Address of a web server on the test database."""
    with web_server() as address:
        yield address
