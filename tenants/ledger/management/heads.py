"""The option `--head`: the end of a chain that somebody noted outside the database."""

from __future__ import annotations

import re
from argparse import ArgumentParser, ArgumentTypeError


def head_argument(parser: ArgumentParser, what: str) -> None:
    """Add the option. It may be repeated, and its values are the list `heads`."""
    help_text = f"{what}, noted earlier, which must be in the chain still; may be repeated"
    parser.add_argument("--head", dest="heads", action="append", default=[], type=_head, metavar="HEX", help=help_text)


def _head(text: str) -> str:
    if not re.fullmatch(r"[0-9a-fA-F]{64}", text):
        raise ArgumentTypeError("takes the 64 hexadecimal digits that an earlier run printed")
    return text.lower()
