"""manage.py verify_intervals: replay stored intervals, compare bytes, check chain, awards and book."""

from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from scheduling.management.base import WRONG_INPUT
from scheduling.management.progress import Progress
from scheduling.models import Pool
from scheduling.services.verification import Verified, intervals_verify


class Command(BaseCommand):
    help = "Decide every stored interval again and compare: its bytes, its place in the chain, its awards, the book."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--pool", default="", help="only this pool (its short name)")
        parser.add_argument("--from", dest="first", type=int, default=1, metavar="N", help="from interval N on")

    def handle(self, *args: Any, **options: Any) -> None:
        pools = _pools(options["pool"])
        if options["first"] < 1:
            raise CommandError("--from takes the number of an interval: 1 or more", returncode=WRONG_INPUT)
        with Progress("verifying", "intervals") as progress:
            verified = intervals_verify(pool_ids=list(pools), first=options["first"], on_progress=progress)
        self.stdout.write(_summary(verified))
        for pool_id, slug in pools.items():
            self.stdout.write(f"  {slug}: head {verified.heads[pool_id]}")
        for finding in verified.findings:
            self.stderr.write(str(finding))
        if not verified.is_clean:
            sys.exit(1)


def _pools(slug: str) -> dict[int, str]:
    pools = dict(Pool.objects.order_by("pk").values_list("pk", "slug"))
    if not slug:
        return pools
    if slug not in pools.values():
        raise CommandError(f"there is no pool {slug}", returncode=WRONG_INPUT)
    return {pool_id: name for pool_id, name in pools.items() if name == slug}


def _summary(verified: Verified) -> str:
    verdict = "the intervals are in order" if verified.is_clean else f"{len(verified.findings)} findings"
    return f"{verdict}: {verified.intervals} intervals, {verified.awards} awards"
