"""`manage.py learner --pool P`: how a pool's learner stands; with more, what an operator does with it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from scheduling.lab.tables import table
from scheduling.learner.idle import lowest_priority
from scheduling.learner.promotion import learner_set, weights_back, weights_take
from scheduling.learner.read_learner import LearnerState, learner_state
from scheduling.learner.working import learner_step
from scheduling.models import Pool
from tenants.access import Refused, access_of_system
from tenants.ledger.management.base import DatabaseCommand


class Command(DatabaseCommand):
    help = (
        "Show how the learner beside an elastic pool of DL2 stands, switch it, and put weights in place at the next "
        "boundary: those that it offers, or some that decided before."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--pool", metavar="NAME", help="the pool's short name")
        parser.add_argument("--on", action="store_true", help="learn beside the pool")
        parser.add_argument("--off", action="store_true", help="learn no more; what decides stays")
        parser.add_argument("--rule", action="store_true", help="let it put in place by itself what has won")
        parser.add_argument("--no-rule", action="store_true", help="an operator does (what is usual)")
        parser.add_argument("--every", type=int, metavar="SECONDS", help="between two steps, at least")
        parser.add_argument("--slots", type=int, metavar="N", help="of the pool, that a candidate decides in shadow")
        parser.add_argument("--margin", type=float, metavar="PART", help="by which it has to be better")
        parser.add_argument("--take", metavar="WEIGHTS", help="put these in place at the next boundary")
        parser.add_argument("--back", action="store_true", help="put in place what decided before the last promotion")
        parser.add_argument("--reason", default="by command", help="it stands in the history")
        parser.add_argument("--step", action="store_true", help="do one step now, at the lowest priority")
        parser.add_argument("--work", type=int, metavar="ID", help="what the worker starts: one step of this pool")

    def handle(self, **options: Any) -> None:
        if options["work"] is not None:
            learner_step(pool_id=options["work"], clock=timezone.now)
            return
        pool = Pool.objects.filter(slug=options["pool"] or "").first()
        if pool is None:
            slugs = ", ".join(Pool.objects.order_by("slug").values_list("slug", flat=True)) or "none"
            what = f"{options['pool']} is no pool" if options["pool"] else "name the pool with --pool"
            raise CommandError(f"{what}; there are: {slugs}")
        self._change(pool, options)
        if options["step"]:
            lowest_priority()
            learner_step(pool_id=pool.pk, clock=timezone.now)
        self._show(learner_state(pool, timezone.now()))

    def _change(self, pool: Pool, options: dict[str, Any]) -> None:
        options_said = {
            "pool": pool,
            "by": access_of_system("learner"),
            "reason": options["reason"],
            "at": timezone.now(),
        }
        if (options["on"] and options["off"]) or (options["rule"] and options["no_rule"]):
            raise CommandError("one of the two: they say the opposite")
        settings = before = learner_state(pool, timezone.now()).settings
        if options["on"] or options["off"]:
            settings = replace(settings, is_on=options["on"])
        if options["rule"] or options["no_rule"]:
            settings = replace(settings, promotes=options["rule"])
        numbers = {"every_seconds": options["every"], "shadow_slots": options["slots"], "margin": options["margin"]}
        settings = replace(settings, **{name: value for name, value in numbers.items() if value is not None})
        outcome: object = None
        if settings != before:
            outcome = learner_set(settings=settings, **options_said)
        if not isinstance(outcome, Refused) and options["take"] is not None:
            outcome = weights_take(weights=options["take"], **options_said)
        if not isinstance(outcome, Refused) and options["back"]:
            outcome = weights_back(**options_said)
        if isinstance(outcome, Refused):
            raise CommandError(outcome.sentence)

    def _show(self, state: LearnerState) -> None:
        word = "on" if state.settings.is_on else "off"
        rule = ", promotes by itself" if state.settings.promotes else ""
        self.stdout.write(f"The learner of {state.pool} is {word}{rule}; {state.step} steps. {state.sentence}".rstrip())
        self.stdout.write(f"In use from slot {state.slot}: {state.title} {state.digest}")
        if state.candidates:
            rows: list[list[str | float | int | None]] = [
                [row.weights, row.state, row.shadowed, row.digest] for row in state.candidates
            ]
            self.stdout.write(table(["candidate", "state", "slots in shadow", "digest"], rows))
        for row in state.candidates[:1]:
            for line in row.lines:
                self.stdout.write(f"  {line}")
