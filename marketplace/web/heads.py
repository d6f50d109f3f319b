"""Refuse long heads, the address and the headers of a request, before anything reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

LONGEST_HEAD = 32 << 10  # bytes of the address and all headers
LONGEST_HEADER = 8 << 10
# Python before 3.11.10 and 3.12.6 reads a quoted cookie again from each backslash on (CVE-2024-7592).
MOST_BACKSLASHES = 1_000


def head_is_too_large(scope: Mapping[str, Any]) -> bool:
    """Return whether the head of a request or of a socket is too large."""
    headers: list[tuple[bytes, bytes]] = scope["headers"]
    address = len(scope.get("raw_path") or b"") + len(scope.get("query_string") or b"")
    lengths = [address, *(len(name) + len(value) for name, value in headers)]
    backslashes = sum(value.count(b"\\") for name, value in headers if name == b"cookie")
    return max(lengths) > LONGEST_HEADER or sum(lengths) > LONGEST_HEAD or backslashes > MOST_BACKSLASHES
