"""manage.py verify_intervals: replay what was decided, compare bytes, check chains, awards, jobs, feed and book."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from scheduling.audit.verification import Archives, intervals_verify, settings_verify
from scheduling.lab.progress import ProgressLine
from scheduling.management.base import WRONG_INPUT, several
from scheduling.models import IntervalArchive, Pool
from tenants.ledger.management.base import DatabaseCommand
from tenants.ledger.management.heads import head_argument


class Command(DatabaseCommand):
    help = (
        "Decide every stored interval and every answer of the instant lane again and compare: bytes, chains, awards,"
        " jobs, the feed, the book, and what was set with the history."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--pool", default="", help="only this pool (its short name)")
        head_argument(parser, "the digest of an interval, an answer or a seal of the feed")
        parser.add_argument(
            "--archive",
            type=Path,
            metavar="FOLDER",
            help="where archives of old intervals lie: those are decided again, too (without it: named as archived)",
        )
        parser.add_argument("--from", dest="first", type=int, default=1, metavar="N", help="from interval N on")

    def handle(self, *args: Any, **options: Any) -> None:
        pools = _pools(options["pool"])
        if options["first"] < 1:
            raise CommandError("--from takes the number of an interval: 1 or more", returncode=WRONG_INPUT)
        folder = options.get("archive")
        if folder is not None and not folder.is_dir():
            raise CommandError(f"there is no folder {folder}", returncode=WRONG_INPUT)
        with ProgressLine("verifying", "intervals") as progress:
            verified = intervals_verify(
                pool_ids=list(pools),
                first=options["first"],
                known_heads=options["heads"],
                archives=Archives(folder),
                on_progress=progress,
            )
        findings = [*verified.findings, *settings_verify(None if not options["pool"] else list(pools))]
        verdict = several(len(findings), "finding") if findings else "the intervals are in order"
        counts = {"interval": verified.intervals, "answer": verified.answers, "award": verified.awards}
        self.stdout.write(f"{verdict}: {', '.join(several(count, word) for word, count in counts.items())}")
        for pool_id, slug in pools.items():
            self.stdout.write(f"  {slug}: head {verified.heads[pool_id]}")
            self.stdout.write(f"  {slug}, its answers: head {verified.answer_heads[pool_id]}")
            if words := _archived(pool_id, options["first"], folder):
                self.stdout.write(f"  {slug}: {words}")
        self.stdout.write(f"  the feed: head {verified.feed_head}")
        for finding in findings:
            self.stderr.write(str(finding))
        if findings:
            sys.exit(1)


def _archived(pool_id: int, first: int, folder: Path | None) -> str:
    """Return a sentence about those of the verified intervals that are archived; an empty text if none is."""
    rows = list(IntervalArchive.objects.filter(pool=pool_id, last__gte=first).order_by("first"))
    if not rows:
        return ""
    begin, files = max(rows[0].first, first), f"{len(rows)} archive{'' if len(rows) == 1 else 's'}"
    numbers = f"intervals {begin} to {rows[-1].last} are archived in {files}"
    how = f"read from {folder} and decided again" if folder else "their places in the chain alone were looked at"
    return f"{numbers}; {how}"


def _pools(slug: str) -> dict[int, str]:
    pools = dict(Pool.objects.order_by("pk").values_list("pk", "slug"))
    if not slug:
        return pools
    if slug not in pools.values():
        raise CommandError(f"there is no pool {slug}", returncode=WRONG_INPUT)
    return {pool_id: name for pool_id, name in pools.items() if name == slug}
