"""manage.py seal_ledger: close the finished transactions under the chain of seals and print its head."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError
from django.utils import timezone

from marketplace.upkeep.sealing import seal_everything
from tenants.ledger.management.base import DatabaseCommand
from tenants.ledger.seals import SealBusy


class Command(DatabaseCommand):
    help = "Seal what has been posted. Note the printed head outside the database: it pins every chain as far as now."

    def handle(self, *args: Any, **options: Any) -> None:
        answer = seal_everything(at=timezone.now())
        if isinstance(answer, SealBusy):
            raise CommandError(f"the book was being written for more than {answer.patience_ms} ms; try again")
        self.stdout.write(f"{answer.transactions} transactions in {answer.blocks} blocks, head {answer.head}")
