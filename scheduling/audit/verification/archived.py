"""Intervals whose input and answer lie in an archive. They are read back where the archive's folder is given; an
interval that no archive has is named as a finding."""

from __future__ import annotations

import hashlib
import json
import zipfile
import zlib
from bisect import bisect_right
from pathlib import Path
from typing import Any

from scheduling.audit.verification.findings import Finding
from scheduling.models import Interval, IntervalArchive
from tenants.access import Refused

ARCHIVED = Refused(
    "archived",
    "What it was decided from lies in an archive, and no longer in the database. Verify it with the archive.",
)
PIECE = 1 << 20  # bytes


class Archives:
    """The archives that a verification may read. Without a folder it only knows which intervals an archive has.

    An archive is believed when its file has the digest that was written down with the row: the history names that row,
    and the interval's own digest covers what is read from it. One day is in memory at a time, as a chain is followed in
    order.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self.findings: list[Finding] = []  # about files, since they were last taken
        self._rows: dict[int, list[IntervalArchive]] = {}  # pool -> its archives, in order
        self._open: tuple[int, dict[int, dict[str, Any]]] = (0, {})  # an archive's id, and its intervals by number
        self._named: set[int] = set()  # archives that a finding names already

    def row_of(self, interval: Interval) -> IntervalArchive | None:
        """Return the archive that has the interval."""
        if interval.pool_id not in self._rows:
            self._rows[interval.pool_id] = list(IntervalArchive.objects.filter(pool=interval.pool_id).order_by("first"))
        rows = self._rows[interval.pool_id]
        place = bisect_right(rows, interval.number, key=lambda row: row.first) - 1
        return rows[place] if place >= 0 and rows[place].last >= interval.number else None

    def filled(self, interval: Interval) -> Interval | None:
        """Return the interval with its bytes from the archive. Return None where it stays unread; where that is a flaw,
        `findings` names it."""
        row = self.row_of(interval)
        if row is None:
            where = f"interval {interval.number} of pool {interval.pool_id}"
            self.findings.append(Finding(where, "its input and answer are gone, and no archive has them"))
            return None
        if self.folder is None:
            return None
        if self._open[0] != row.pk:
            self._open = row.pk, self._intervals(row, self.folder / row.file)
        parts = self._open[1].get(interval.number)
        if parts is None:
            self._name(row, f"interval {interval.number} is not in it")
            return None
        interval.view = zlib.compress(parts["view"].encode())
        interval.plan = zlib.compress(parts["plan"].encode())
        interval.base = None  # an archive has every interval whole
        return interval

    def findings_take(self) -> list[Finding]:
        """Return the findings since the last call."""
        findings, self.findings = self.findings, []
        return findings

    def _intervals(self, row: IntervalArchive, path: Path) -> dict[int, dict[str, Any]]:
        try:
            digest = file_digest(path)
            if digest != row.digest:
                self._name(row, f"its SHA-256 is {digest}, and should be {row.digest}")
                return {}
            return archive_intervals(path)
        except FileNotFoundError:
            self._name(row, f"it is not in {path.parent}")
        except (OSError, zipfile.BadZipFile, ValueError, KeyError) as error:
            self._name(row, f"it cannot be read ({type(error).__name__}: {error})")
        return {}

    def _name(self, row: IntervalArchive, what: str) -> None:
        """Add a finding once for each archive: what is wrong with a file is wrong for each interval in it."""
        if row.pk not in self._named:
            self._named.add(row.pk)
            self.findings.append(Finding(f"archive {row.file}", what))


def archive_intervals(path: Path) -> dict[int, dict[str, Any]]:
    """Return the rows of an archive's intervals, by their numbers."""
    with zipfile.ZipFile(path) as bundle, bundle.open("intervals.jsonl") as lines:
        rows = [json.loads(line) for line in lines]
    return {row["number"]: row for row in rows}


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            digest.update(piece)
    return digest.hexdigest()
