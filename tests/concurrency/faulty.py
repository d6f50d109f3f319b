"""A process that does one thing for the market and dies at a named step of it, or has the database die.

    python -m tests.concurrency.faulty "advance POOL SLOT" [MODULE FUNCTION before|after]

Steps are functions of the services. They are wrapped here, in the tests' own process: the product has no switch that
somebody could leave on. A `victim` is another process that dies, with its children, in place of this one.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any

import django
import psutil

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "marketplace.settings")


def arm(module: str, function: str, when: str, victim: int) -> None:
    """The next call of the step is the last."""
    place = importlib.import_module(module)
    step = getattr(place, function)

    def last(*args: Any, **kwargs: Any) -> Any:
        if when == "before":
            strike(victim)
        outcome = step(*args, **kwargs)
        strike(victim)
        return outcome

    setattr(place, function, last)


def strike(victim: int) -> None:
    if not victim:
        os.kill(os.getpid(), signal.SIGKILL)
    process = psutil.Process(victim)
    for one in [process, *process.children(recursive=True)]:
        one.kill()


def advance(pool: str, slot: str) -> None:
    from scheduling.app.clock import pool_advance
    from scheduling.models import Pool
    from tests.scheduling.clocks import moment

    row = Pool.objects.get(slug=pool)
    pool_advance(pool_id=row.pk, at=moment(row, float(slot)))


def submit(pool: str, tenant: str, key: str) -> None:
    from scheduling.models import Pool
    from tenants.models import Tenant
    from tests.scheduling.live import submitted

    submitted(Pool.objects.get(slug=pool), Tenant.objects.get(slug=tenant), key=key)


def rush(pool: str, first: str, last: str) -> None:
    """Submissions of these numbers, all at once, for the last free cell."""
    from scheduling.models import Pool
    from tenants.models import Tenant
    from tests.concurrency.last_cell import submit_all

    tenants = list(Tenant.objects.filter(slug__startswith="tenant-").order_by("slug"))
    print(json.dumps(submit_all(Pool.objects.get(slug=pool), tenants, range(int(first), int(last)))))


def prepare() -> None:
    """A contested market in a database of its own."""
    from django.core.management import call_command

    from tests.scheduling.builders import tell_history
    from tests.scheduling.clocks import contested

    call_command("migrate", verbosity=0)
    pool, _ = contested()
    tell_history(pool)


def sell(seconds: str) -> None:
    """One job in the slot that is running, on rented units, and nothing else."""
    from tests.engines.market import sold

    sold(int(seconds), servers=1)


def verify() -> None:
    """Ends with an error where anything differs."""
    from django.core.management import call_command

    call_command("verify_ledger")
    call_command("verify_intervals")


def audit() -> None:
    """Work on what auditors asked for, as the clock's ticks do."""
    from django.utils import timezone

    from scheduling.audit.rounds import audits_next, verification_round

    audits_next(clock=timezone.now)
    verification_round(clock=timezone.now)


def learn(pool: str, slot: str) -> None:
    """A step of the pool's learner."""
    from scheduling.learner.working import learner_step
    from scheduling.models import Pool
    from tests.scheduling.clocks import moment

    row = Pool.objects.get(slug=pool)
    learner_step(pool_id=row.pk, clock=lambda: moment(row, float(slot)))


def take(pool: str, weights: str, slot: str) -> None:
    """Put weights in place, as an operator does."""
    from scheduling.models import Pool
    from tests.learner.world import take_weights

    print(take_weights(Pool.objects.get(slug=pool), weights, float(slot)))


def archive(before: str, folder: str) -> None:
    """`manage.py archive`, in a market so young that only the two newest intervals stay."""
    from datetime import date
    from pathlib import Path

    from django.core.management import call_command

    from scheduling.audit import archiving

    archiving.NEWEST = 2
    call_command("archive", before=date.fromisoformat(before), folder=Path(folder), apply=True)


def show() -> None:
    from tests.scheduling.clocks import everything

    print(everything())


WORK: dict[str, Callable[..., None]] = {
    "advance": advance,
    "submit": submit,
    "rush": rush,
    "prepare": prepare,
    "sell": sell,
    "verify": verify,
    "audit": audit,
    "learn": learn,
    "take": take,
    "archive": archive,
    "show": show,
}


def prepare_to_work() -> None:
    """Everything is imported that any work asks for."""
    django.setup()
    for module in ("scheduling.app.tasks", "tests.scheduling.clocks", "tests.concurrency.last_cell"):
        importlib.import_module(module)


def main(words: Sequence[str], victim: int = 0) -> None:
    work, *arguments = words[0].split()
    if words[1:]:
        module, function, when = words[1:]
        arm(module, function, when, victim)
    WORK[work](*arguments)


if __name__ == "__main__":
    django.setup()
    main(sys.argv[1:])
