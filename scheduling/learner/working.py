"""Run a learner: one step of one pool in a process of its own, of the lowest priority, and the code that starts that
process.

A step gathers, decides and applies. It takes no lock of the market while it computes, and a kill at any point leaves
what was there before: only a promotion changes the weights in use.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import zlib
from collections.abc import Callable
from datetime import datetime, timedelta
from statistics import fmean

from django.db import DatabaseError

from scheduling.common import AUDIT_LOCK, Steps, alone, mark_file
from scheduling.core.policies.dl2.files import BadWeights
from scheduling.core.training.own_slots import CHOOSE, JUDGE, LEARN
from scheduling.learner import decide
from scheduling.learner.apply import (
    BY,
    Practised,
    practice_keep,
    sentence_keep,
    shadows_keep,
    step_broken_off,
    verdict_keep,
)
from scheduling.learner.gather import Work, shadows_due, windows_of, work_of
from scheduling.learner.promotion import weights_take
from scheduling.models import CandidateState, PoolLearner
from tenants.scoping import scope_disabled

LONGEST = timedelta(minutes=20)  # of one step, after which its process is ended
PAUSE_SECONDS = 2.0
STARTER = "scheduling.learner.idle"
TOO_YOUNG = "The pool has no window of slots with jobs yet from which to learn, and another to choose by."
TOO_LONG = f"The last step took more than {LONGEST.seconds // 60} minutes and was ended. The next one begins it again."
KILLED = "The process of the last step was killed (signal {signal}). The next one begins it again."
OF_NO_USE = "The weights in use were made for another version of the program."

Clock = Callable[[], datetime]
log = logging.getLogger(__name__)


def learner_step(*, pool_id: int, clock: Clock) -> bool:
    """Do one step of a pool's learner, whoever calls it and however often. Return whether there was one to do."""
    with scope_disabled("a learner looks at stored slots, which are about all tenants"):
        work = work_of(pool_id)
        if work is None:
            return False
        try:
            _step(work, clock)
        except DatabaseError:  # the next step tries again
            raise
        except Exception as error:  # whatever breaks, the learner's page says so, and the pool goes on as it is
            sentence_keep(work, f"The last step broke off: {type(error).__name__}: {error}.", clock())
            log.exception("a step of the learner of %s broke off", work.pool.slug)
        return True


def _step(work: Work, clock: Clock) -> None:
    steps = Steps("learner", f"{work.pool.slug}:{work.learner.step}")
    if work.in_use is None:
        sentence_keep(work, OF_NO_USE, clock())
        return
    # 1. Weights that were offered and not taken yet, as a process was killed in between, are taken first.
    _promoted_by_rule(work, clock)
    # 2. The candidate decides the pool's new slots in shadow, and gets its verdict once they are enough.
    if work.candidate is not None and work.candidate.state == CandidateState.SHADOW:
        steps.done("shadow", slots=_shadowed(work))
        steps.done("judge", judged=_judged(work, clock()))
        _promoted_by_rule(work, clock)
    # 3. The training goes on with the pool's past, from where the last step ended.
    practised = _practised(work_of(work.pool.pk) or work)
    if isinstance(practised, str):
        sentence_keep(work, practised, clock())
        return
    outcome = practice_keep(work, practised, clock())
    steps.done("practise", last=True, kept=outcome, candidate=practised.candidate is not None)


def _shadowed(work: Work) -> int:
    """Let the candidate decide slots in shadow, and return how many."""
    assert work.candidate is not None  # noqa: S101
    content = bytes(work.candidate.weights.content)
    pairs = [decide.shadow_slot(each.policy, each.view, each.plan, content) for each in shadows_due(work.candidate)]
    shadows_keep(work, pairs)
    return len(pairs)


def _judged(work: Work, at: datetime) -> bool:
    """Judge the candidate, once enough slots were decided in shadow. Return whether there is a verdict."""
    candidate, in_use = work.candidate, work.in_use
    assert candidate is not None and in_use is not None  # noqa: S101, PT018
    rows = candidate.slots.order_by("slot").values_list("slot", "reward_in_use", "reward")
    pairs = [decide.SlotPair(*row) for row in rows]
    if len(pairs) < work.learner.shadow_slots:
        return False
    offered = decide.network_stored(bytes(candidate.weights.content))
    own, shipped = windows_of(work.pool, work.next_slot, JUDGE), decide.judging_set()
    networks = (in_use.network, offered)
    verdict = decide.verdict_of(
        pairs,
        (decide.trials(networks[0], own), decide.trials(networks[1], own)),
        (decide.trials(networks[0], shipped), decide.trials(networks[1], shipped)),
        work.learner.margin,
    )
    return verdict_keep(work, verdict, at)


def _promoted_by_rule(work: Work, clock: Clock) -> None:
    """Promote what is offered, where the operator lets the learner do so. A repetition changes nothing."""
    fresh = work_of(work.pool.pk)
    if fresh is None or not fresh.learner.promotes or fresh.candidate is None:
        return
    if fresh.candidate.state == CandidateState.OFFERED:
        reason = "it has beaten the weights in use"
        name = fresh.candidate.weights.name
        against = fresh.candidate.against
        weights_take(pool=fresh.pool, weights=name, by=BY, reason=reason, at=clock(), instead_of=against, by_rule=True)


def _practised(work: Work) -> Practised | str:
    """Return the next state of the training, or why there is none."""
    in_use, learner = work.in_use, work.learner
    assert in_use is not None  # noqa: S101
    learning, choosing = (windows_of(work.pool, work.next_slot, end) for end in (LEARN, CHOOSE))
    if not learning or not choosing:
        return TOO_YOUNG
    course = decide.course_of(in_use.network, seed=learner.pool_id)
    state = None
    if learner.state is not None and learner.began_with == in_use.digest:
        try:
            state = decide.state_from(course, bytes(learner.state))
        except (BadWeights, KeyError, ValueError, zlib.error):
            state = None  # a state that cannot be read is begun anew, with the weights in use
    state = decide.practise(course, state or decide.training_begun(course, in_use.network), learning)
    facts = {"learnt_beside": work.pool.slug, "rounds": state.rounds, "slots": state.slots, "from": in_use.digest}
    network = decide.network_of(course, state, facts)
    before, after = decide.trials(in_use.network, choosing), decide.trials(decide.as_served(network), choosing)
    times = fmean(each.completion for each in after) / max(fmean(each.completion for each in before), 1e-9)
    row = {"round": state.rounds, "slots": state.slots, "windows": len(choosing), "times": times}
    return Practised(
        decide.state_bytes(course, state), in_use.digest, row, network if times < 1.0 and state.rounds else None
    )


def learners_due(at: datetime) -> list[int]:
    """Return the pools whose learner has rested long enough, the one that rested longest first."""
    due = [
        (learner.worked_at, learner.pool_id)
        for learner in PoolLearner.objects.filter(is_on=True).defer("state", "curve")
        if learner.worked_at is None or learner.worked_at + timedelta(seconds=learner.every_seconds) <= at
    ]
    return [pool_id for _, pool_id in sorted(due, key=lambda each: (each[0] is not None, each))]


def learners_round(*, clock: Clock, others: Callable[[], None]) -> int | None:
    """Start the step that is due in a process of its own, and wait for it; meanwhile `others` does what else is asked
    about the past. Return how the process ended. Return None if nothing was due, another process makes a round, or the
    step took too long."""
    with alone(AUDIT_LOCK) as ours:
        due = learners_due(clock()) if ours else []
        if not due:
            return None
        ends = clock() + LONGEST
        # This is written first, so that a step that is killed is tried again when the next one is due, not at once.
        PoolLearner.objects.filter(pool=due[0]).update(worked_at=clock())
        step = PoolLearner.objects.values_list("step", flat=True).get(pool=due[0])
        process = step_started(due[0])
        try:
            while clock() < ends:
                try:
                    ended = process.wait(timeout=PAUSE_SECONDS)
                except subprocess.TimeoutExpired:
                    others()
                else:
                    if ended < 0:
                        step_broken_off(due[0], step, KILLED.format(signal=-ended))
                    return ended
            step_broken_off(due[0], step, TOO_LONG)
            return None
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()


def step_started(pool_id: int) -> subprocess.Popen[bytes]:
    """Start a process that does one step and ends, or ends with us."""
    one_core = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    # Each serving process keeps what it measures in a file: a process for each step would fill the folder.
    around = {name: value for name, value in os.environ.items() if name != "PROMETHEUS_MULTIPROC_DIR"}
    starter = [sys.executable, "-m", STARTER, str(os.getpid()), str(mark_file())]
    command = [*starter, "learner", "--work", str(pool_id)]
    return subprocess.Popen(command, env=around | one_core, stdin=subprocess.DEVNULL)
