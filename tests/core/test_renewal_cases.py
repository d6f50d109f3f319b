"""Renewed plans, the searched price and the dividend by hand: each case can be worked out on paper (rules K)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from scheduling.core import metrics, records, results
from scheduling.core.metrics.certificates import alone_floors, certificates
from scheduling.core.policies import build
from scheduling.core.policies.astraea import OpenDecision
from scheduling.core.policies.astraea.renting.offers import KAPPAS
from scheduling.core.policies.astraea.rules.trailing import DEFAULTS, remembered, usual_value
from scheduling.core.policies.astraea.what_if import about
from scheduling.core.scenario import BadScenario, Scenario, read, write
from scheduling.core.simulation import Outcome, PlanRejected, simulate
from scheduling.core.types import AWARDED, KEEP, OWN, RENEW, SHARED, Job, Plan, Settlement, View
from scheduling.core.value import Deadline, Linear
from tests.core.builders import make_cluster, make_job, make_tenant
from tests.core.outcomes import differences
from tests.core.policy_examination import snapshot
from tests.core.renewal_markets import renewal_market

WINDOWS_OF_2 = {"first": 2, "cap": 2, "restart": False}
# Each of two tenants owns a server with one worker and one parameter server.
HOMES = (((1, 0), (0, 1)), ((1, 0), (0, 1)))


def scenario(jobs: list[Job], *, plan: str = RENEW, cells: Any = HOMES, slots: int = 40, **fields: Any) -> Scenario:
    units = np.asarray(cells, dtype=float)
    tenants = [make_tenant(f"u{u}", plan=plan if u == 0 else KEEP) for u in range(2)]
    cluster = make_cluster(units.sum(axis=1), cells=units, tenants=tenants)
    policy = {"name": "astraea", "mode": "guarantee", "theta": {"worker": 2.0, "ps": 2.0}, "price_floor": 3.25}
    return Scenario(cluster, tuple(jobs), slots, {**policy, "clock": WINDOWS_OF_2, **fields})


def run(market: Scenario) -> Outcome:
    return simulate(market, {"batch": build(market.policy, market.cluster, market.jobs)})


class Watched:
    """Passes every question on and keeps it, with its answer."""

    name = "watched"

    def __init__(self, market: Scenario) -> None:
        self.policy: Any = build(market.policy, market.cluster, market.jobs)
        self.decisions: list[tuple[View, Plan]] = []

    def decide(self, view: View) -> Plan:
        plan: Plan = self.policy.decide(view)
        self.decisions.append((snapshot(view), plan))
        return plan


def watched(market: Scenario) -> tuple[Outcome, Watched]:
    policy = Watched(market)
    return simulate(market, {"batch": policy}), policy


def two_jobs() -> list[Job]:
    """Both wait at boundary 2 for one worker: six slots for a little, and two slots for much that falls quickly."""
    long = make_job(0, epochs=6, value=Linear(-1, 40))
    dense = make_job(1, epochs=2, value=Linear(-8, 100))
    return [replace(job, rent="never") for job in (long, dense)]


def test_a_renewed_plan_begins_with_the_dense_job_where_a_kept_one_begins_with_the_first() -> None:
    ends = {
        plan: [track.bookings[0].end for track in run(scenario(two_jobs(), plan=plan)).tracks] for plan in (KEEP, RENEW)
    }
    assert ends == {KEEP: [8, 10], RENEW: [10, 4]}


def test_priority_goes_before_density() -> None:
    long, dense = two_jobs()
    outcome = run(scenario([replace(long, priority=1), replace(dense, value=Linear(-1, 40))]))
    assert [track.bookings[0].end for track in outcome.tracks] == [8, 10]


def refund_jobs() -> list[Job]:
    """S runs at home until 10. K must end by 17, so it comes before J; J rents. Then N comes, which is worth more than
    what K loses by waiting, and J follows N."""
    return [
        make_job(0, name="S", epochs=8, priority=1, value=Linear(-1, 200)),
        make_job(1, name="K", epochs=6, value=Deadline(100, 17)),
        make_job(2, name="J", epochs=2, value=Linear(-1, 60)),
        make_job(3, name="N", epochs=2, arrival=3, value=Linear(-20, 500)),
    ]


def test_a_rent_that_turns_out_worse_than_alone_is_refunded_in_part() -> None:
    """J has a draft in [16, 18), worth 42. It rents [2, 4) for 13: 56 - 13 = 43. Alone it starts at 12, worth 46."""
    market = scenario(refund_jobs())
    outcome, policy = watched(market)
    track = outcome.tracks[2]
    [rent] = track.bookings
    assert (rent.phase, rent.start, rent.end, rent.floor, rent.value, rent.paid) == (SHARED, 2, 4, 42, 56, 13)
    assert track.settlement is not None
    assert (track.settlement.alone, track.settlement.refund) == (46, 3)
    assert track.settlement.reversal.tolist() == [0, 3, 0]
    settled = {view.slot for view, plan in policy.decisions for done in plan.settlements if done.job == 2}
    assert settled == {12}
    row = results.job_row(market.cluster, track)
    assert (row["paid"], row["refund"], row["alone"], row["surplus"]) == (13, 3, 46, 46)
    assert row["payouts"] == {"u1": 10}
    assert metrics.net(track) == 46
    assert not metrics.below_floor(outcome)


def test_every_boundary_has_its_certificates_and_the_settlement_is_one() -> None:
    _, policy = watched(scenario(refund_jobs()))
    gains = {}
    for view, plan in policy.decisions:
        if plan.windows:
            rows, _ = certificates(view, plan, alone_floors(policy.policy, view), with_floors=True)
            assert not [row for row in rows if row.broken]
            gains |= {(view.slot, row.job): (row.gain, row.alone) for row in rows}
    assert gains[12, 2] == (46, 46)
    assert (2, 2) not in gains  # the rent is open: what J has alone is not known yet


def test_the_clock_goes_on_while_a_rent_is_open() -> None:
    """J is the last that waits; the epoch ends only after its rent is settled."""
    clock = {**WINDOWS_OF_2, "restart": True}
    jobs = [replace(job, rent="never") if job.name != "J" else job for job in refund_jobs()[:3]]
    late = make_job(3, arrival=30, epochs=1, rent="never")
    outcome = run(scenario([*jobs, late], clock=clock))
    settled = outcome.tracks[2].settlement
    assert settled is not None
    assert settled.alone == 42
    assert [window.start for window in outcome.windows] == [*range(2, 18, 2), 32]


def test_a_rent_that_is_open_at_the_end_of_the_run_is_left_open() -> None:
    market = scenario(refund_jobs(), slots=9)
    outcome = run(market)
    track = outcome.tracks[2]
    assert track.state == AWARDED
    assert track.settlement is None
    assert track.floor is not None
    assert track.floor.draft
    assert results.job_row(market.cluster, track)["draft"] is True
    gains = metrics.alone_gains(market, outcome)
    assert gains is not None
    assert gains.tolist() == [190, 0]  # S alone has started by then


def test_a_draft_whose_cells_are_lost_is_made_anew() -> None:
    """Two servers at home; the second, where the draft lies, is gone at the next boundary."""
    cells = (((1, 1, 0), (0, 0, 1)), ((1, 1, 0), (0, 0, 1)))
    jobs = [make_job(n, epochs=6, value=Linear(-1, 100 - n), rent="never") for n in range(3)]
    market = scenario(jobs, cells=cells)
    policy: Any = build(market.policy, market.cluster, market.jobs)
    outcome, policy_run = watched(market)
    del outcome
    view = next(view for view, _ in policy_run.decisions if view.slot == 4)
    draft = view.floors[2]
    assert (draft.draft, draft.start) == (True, 8)
    lost = draft.allocation[0].server
    without = np.asarray(cells, dtype=float)
    without[:, :, lost] = 0
    cluster = replace(view.cluster, capacity=without.sum(axis=1), quota=without.sum(axis=2), cells=without)
    started = {
        number: floor for number, floor in view.floors.items() if floor.draft or floor.allocation[0].server != lost
    }
    plan = policy.decide(replace(view, cluster=cluster, floors=started))
    [again] = [floor for floor in plan.floors if floor.job == 2]
    assert again.allocation[0].server == 1 - lost
    assert again.start == 8


def test_who_changes_to_keep_keeps_its_drafts_and_gets_floors_from_then_on() -> None:
    market = scenario(two_jobs())
    _, policy_run = watched(scenario([make_job(n, epochs=6, value=Linear(-1, 100), rent="never") for n in range(2)]))
    view = next(view for view, _ in policy_run.decisions if view.slot == 4)
    [waiting] = [number for number, floor in view.floors.items() if floor.draft]
    late = make_job(7, arrival=3, epochs=1, value=Linear(-1, 100), rent="never")
    cluster = replace(view.cluster, tenants=(replace(view.cluster.tenants[0], plan=KEEP), view.cluster.tenants[1]))
    changed = replace(
        view, cluster=cluster, waiting=(*view.waiting, late), remaining=[6.0, 1.0], jobs={**view.jobs, 7: late}
    )
    plan = build(market.policy, cluster, ()).decide(changed)
    [floor] = [floor for floor in plan.floors if floor.job == 7]
    assert not floor.draft
    assert floor.start == view.floors[waiting].end
    assert waiting not in [floor.job for floor in plan.floors]  # its draft stands


def test_a_plan_may_settle_only_what_is_open_and_no_more_than_was_paid() -> None:
    market = scenario(refund_jobs())

    class Generous(Watched):
        def decide(self, view: View) -> Plan:
            plan = super().decide(view)
            more = [replace(done, refund=done.refund + 20) for done in plan.settlements]
            return replace(plan, settlements=more)

    class Confused(Watched):
        def decide(self, view: View) -> Plan:
            return replace(super().decide(view), settlements=[Settlement(0, 0.0, 0.0, np.zeros(3))])

    for wrong in (Generous, Confused):
        with pytest.raises(PlanRejected):
            simulate(market, {"batch": wrong(market)})


# -- a searched price, and a dividend ----------------------------------------------------------------------------------

SELLER = (((0, 0), (0, 1)), ((0, 0), (0, 1)))  # the second tenant owns all; the first is a guest


def guest(**fields: Any) -> Job:
    """Two slots with one worker, worth 30 whenever they are."""
    return make_job(0, epochs=2, value=Linear(0, 30), **fields)


def one_sale(job: Job, **fields: Any) -> tuple[Outcome, Any]:
    prices = {"price_floor": {"worker": 1, "ps": 0}, "unit_value": {"worker": 10, "ps": 0}, "price": "searched"}
    outcome = run(scenario([job], cells=np.asarray(SELLER)[:, :, 1:], slots=5, **{**prices, **fields}))
    return outcome, outcome.tracks[0].bookings[0]


def test_the_price_is_the_best_of_twelve() -> None:
    """A multiple k asks 1 + 10 k for a worker and slot. The job pays twice that up to k = 1.1, and not for k = 1.6."""
    outcome, rent = one_sale(guest())
    assert outcome.windows[0].kappa == 1.1
    assert outcome.windows[0].scores == pytest.approx([30 + 2 * (1 + 10 * k) if k <= 1.1 else 0 for k in KAPPAS])
    assert rent.paid == pytest.approx(24)
    assert outcome.windows[0].prices.tolist() == [[12, 12], [0, 0]]  # no sale moves it


def test_half_of_what_renting_gains_goes_to_the_owners() -> None:
    """Its price of 24 leaves the job 6; equal scores go to the larger multiple."""
    outcome, rent = one_sale(guest(), dividend=0.5)
    assert outcome.windows[0].kappa == 1.1
    assert outcome.windows[0].scores[:10] == (30,) * 10
    assert (rent.paid, rent.dividend, rent.cost) == pytest.approx((27, 3, 24))
    assert rent.payouts.tolist() == pytest.approx([0, 27, 0])


def test_a_limit_holds_for_price_and_dividend_together() -> None:
    """At most 25: not 24 + 3, but 17 + 6.5 with the multiple below."""
    outcome, rent = one_sale(guest(max_price=25.0), dividend=0.5)
    assert outcome.windows[0].kappa == 0.75
    assert (rent.paid, rent.dividend) == pytest.approx((23.5, 6.5))
    posted, _ = one_sale(guest(max_price=2.0), dividend=0.0)
    assert posted.windows[0].kappa == 0


def test_the_payer_s_own_part_of_a_dividend_is_dropped() -> None:
    """Three parts of four of what is for sale are its own: of a gain of 30 - 1, a half of a fourth is due."""
    cells = (((3, 0), (0, 1)), ((0, 1), (0, 0)))
    units = np.asarray(cells, dtype=float)
    job = make_job(0, epochs=2, chunks=1, gradient_mb=0.0, value=Linear(0, 30))
    market = scenario([job], cells=units, dividend=0.5, price_floor={"worker": 1.0, "ps": 0.0}, slots=5, theta=None)
    outcome = run(market)
    [rent] = outcome.tracks[0].bookings
    assert rent.phase == SHARED
    assert rent.dividend > 0
    weight = rent.payouts / rent.payouts.sum()
    assert weight[0] == 0
    worker, ps = 0.75 * 2, 1.0 * 2  # of two slots and 2 + 2 units, the part of the payer
    assert rent.dividend == pytest.approx(0.5 * (30 - (rent.paid - rent.dividend)) * (1 - (worker + ps) / 4))


def test_an_owner_that_asks_for_more_is_out_of_that_pass() -> None:
    """Its reserve price of 6 is reached by the multiples from 0.5 on."""
    market = scenario([guest()], cells=np.asarray(SELLER)[:, :, 1:], slots=5, price="searched")
    asks = replace(market.cluster.tenants[1], reserve_price=np.array([6.0, 0.0]))
    cluster = replace(market.cluster, tenants=(market.cluster.tenants[0], asks))
    fields = {"price_floor": {"worker": 1, "ps": 0}, "unit_value": {"worker": 10, "ps": 0}}
    outcome = run(replace(market, cluster=cluster, policy={**market.policy, **fields}))
    sold = [k for k, score in zip(KAPPAS, outcome.windows[0].scores, strict=True) if score > 0]
    assert sold == [0.5, 0.75, 1.1]


def test_the_usual_value_follows_the_jobs_of_late() -> None:
    """K8: the median of L7's figures once enough of them are known, what is configured before."""
    jobs = [make_job(n, epochs=1, value=Linear(0, 10.0 * (n + 1))) for n in range(5)]
    setting = {**DEFAULTS, "least_jobs": 5}
    view = View(
        slot=2, horizon=9, cluster=make_cluster(), waiting=(), remaining=np.zeros(0), occupied=np.zeros((2, 0, 1))
    )
    memory = remembered(setting, {}, view, jobs, exact=False)
    usual = {"worker": 1.0, "ps": 1.0}
    assert usual_value(usual, setting, memory) == {"worker": 30.0, "ps": 30.0}
    assert usual_value(usual, {**setting, "least_jobs": 6}, memory) == usual
    assert usual_value(usual, None, memory) == usual


# -- documents ---------------------------------------------------------------------------------------------------------


def test_stored_questions_and_answers_come_back_and_give_the_same_answer() -> None:
    fields = {"price": "searched", "dividend": 0.25}
    market = scenario(refund_jobs(), **fields)
    _, policy = watched(market)
    kinds = set()
    for view, plan in policy.decisions:
        again = records.view_from(records.view_bytes(view))
        assert records.view_bytes(again) == records.view_bytes(view)
        stored = records.plan_bytes(plan)
        assert records.plan_bytes(records.plan_from(stored)) == stored
        assert records.plan_bytes(policy.policy.decide(again)) == stored
        kinds |= {name for name, some in (("open", view.open_rents), ("settled", plan.settlements)) if some}
    assert kinds == {"open", "settled"}


def test_without_the_settings_no_document_says_a_word_of_them() -> None:
    market = scenario(refund_jobs(), plan=KEEP)
    outcome, policy = watched(market)
    for view, plan in policy.decisions:
        for stored in (records.view_bytes(view), records.plan_bytes(plan)):
            for word in (b"draft", b"dividend", b"kappa", b"scores", b"settlements", b"open_rents", b'"plan"'):
                assert word not in stored
    used = results.settings(policy.policy)
    assert not used.keys() & {"price", "dividend", "unit_value"}
    assert not any(row.keys() & {"dividend", "refund", "alone", "draft"} for row in rows_of(market, outcome))


def rows_of(market: Scenario, outcome: Outcome) -> list[dict[str, Any]]:
    return [results.job_row(market.cluster, track) for track in outcome.tracks]


def test_a_scenario_file_says_who_renews_and_a_result_how_it_was_sold() -> None:
    market = scenario(refund_jobs(), price="searched", dividend=0.25)
    document = write(market)
    assert [row.get("plan") for row in document["tenants"]] == [RENEW, None]
    again = read(document)
    assert not differences(run(again), run(market))
    policy = build(again.policy, again.cluster, again.jobs)
    used = results.settings(policy)
    assert (used["price"], used["dividend"]) == ("searched", 0.25)
    assert build(used, again.cluster, ()) == policy


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"price": "guessed"}, "policy.price"),
        ({"dividend": 1.0}, "policy.dividend"),
        ({"dividend": -0.1}, "policy.dividend"),
        ({"mode": "paper", "dividend": 0.5}, "policy.dividend"),
        ({"mode": "paper", "price": "searched"}, "policy.price"),
        ({"price": "searched", "unit_value": {"gpu": 1}}, "policy.unit_value.gpu"),
        ({"parts": "half"}, "policy.parts"),
        ({"mode": "paper", "parts": "nothing"}, "policy.parts"),
    ],
)
def test_settings_that_make_no_sense_are_refused(fields: dict[str, Any], place: str) -> None:
    market = scenario([])
    with pytest.raises(BadScenario) as refused:
        build({**market.policy, **fields}, market.cluster, ())
    assert refused.value.place == place


def test_a_tenant_that_plans_in_another_way_is_refused() -> None:
    document = write(scenario([]))
    document["tenants"][0]["plan"] = "sometimes"
    with pytest.raises(BadScenario, match=r"tenants\[0\].plan"):
        read(document)


def test_what_one_job_more_would_get_is_what_the_decision_says() -> None:
    """Without the short cut, which only kept floors and posted prices allow."""
    compared = 0
    for seed in range(20):
        market = renewal_market(seed)
        _, policy = watched(market)
        for view, plan in policy.decisions:
            if plan.windows and view.waiting:
                last = view.waiting[-1]
                answer = OpenDecision(policy.policy, view).plan_for(last)
                expected = about(last, plan)
                assert records.plan_bytes(replace(answer, windows=(), memory=None)) == records.plan_bytes(
                    replace(expected, memory=None)
                )
                compared += 1
    assert compared > 40


def test_home_runs_of_the_other_tenant_are_as_before() -> None:
    """A tenant that keeps its floors keeps them beside one that renews."""
    job = make_job(4, tenant=1, epochs=3, rent="never")
    outcome = run(scenario([*refund_jobs(), job]))
    [home] = outcome.tracks[4].bookings
    assert (home.phase, home.start, home.end) == (OWN, 2, 5)
