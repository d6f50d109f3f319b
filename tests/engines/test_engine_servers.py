"""What follows from what an engine says of its servers: losses with refunds, returns, and what monitors read."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from marketplace.upkeep.metrics import figures_text, metrics_text
from scheduling.audit.verification.settings import settings_verify
from scheduling.engines.base import DOWN, DRAINING, NOT_ALL_CAME, UNKNOWN, UP, Report, ServerHealth
from scheduling.models import Award, AwardState, Pool, Server
from scheduling.operator.engine_servers import servers_due, servers_follow, servers_return_set
from scheduling.operator.holds import pool_drain
from scheduling.operator.read_gauges import gauges
from scheduling.operator.server_states import server_drain, server_return
from scheduling.runs import server_lose
from scheduling.runs.figures import EngineFigures, cause_of
from scheduling.runs.pulse import engine_pulse
from scheduling.runs.runs import Ticked
from tenants.access import NOBODY, Refused, access_of_system
from tenants.models import AuditEntry
from tenants.roles import OPERATOR
from tenants.scoping import scope
from tests.database import as_superuser
from tests.engines.market import jobs_of, world
from tests.engines.test_contract import TIMINGS
from tests.scheduling.builders import make_pool, tell_history
from tests.scheduling.live import again, book_is_sound, make_award, money
from tests.scheduling.markets import make_renting
from tests.tenants.builders import client_of, make_staff

BY = access_of_system("a test")
NOW = 1_000_000.0


class Telling:
    """An engine of which only the servers matter."""

    name = "local"
    timings = replace(TIMINGS, server_grace=60.0)

    def __init__(self) -> None:
        self.health: dict[str, ServerHealth] = {}

    def servers(self) -> dict[str, ServerHealth]:
        return self.health

    def says(self, server: str, state: str, seconds: float, reason: str = "") -> None:
        self.health[server] = ServerHealth(state, timezone.now().timestamp() - seconds, reason)


def follow(engine: Any) -> list[str]:
    return [server.name for server in servers_follow(engine=engine, at=timezone.now())]


def state_of(name: str) -> str:
    return Server.objects.get(name=name).state


@pytest.mark.parametrize(
    ("state", "seconds", "becomes"),
    [
        (DOWN, 61, "lost"),
        (DOWN, 60, ""),
        (UP, 61, "back"),
        (UP, 10, ""),
        (UNKNOWN, 600, ""),
        (DRAINING, 61, "draining"),
        (DRAINING, 60, ""),
    ],
)
def test_server_moves_after_the_grace_and_only_by_a_clear_word(state: str, seconds: float, becomes: str) -> None:
    due = servers_due({"n1": ServerHealth(state, NOW - seconds)}, 60.0, NOW)
    assert {name for name, servers in vars(due).items() if servers == {"n1"}} == ({becomes} if becomes else set())


@pytest.mark.django_db
def test_server_that_is_down_is_lost_once_by_its_engine_with_the_refunds_and_waits_for_an_operator() -> None:
    _, tenant, award = world(seconds=60)
    engine: Any = Telling()
    engine.says("s01", DOWN, 59)
    engine.says("elsewhere", DOWN, 600)
    assert follow(engine) == []
    engine.says("s01", DOWN, 64, "Not responding")
    assert follow(engine) == ["s01"]
    assert follow(engine) == []
    assert (again(award).returned, jobs_of(award).reason_code, money(tenant)) == (30, "server_lost", (10**9, 0, 0))
    entry = AuditEntry.objects.get(action="server_lose")
    assert (entry.actor_name, entry.actor) == ("engine local", None)
    assert entry.reason == "The cluster says that it has been down for 64 s: Not responding"
    engine.says("s01", UP, 3_600)
    assert (follow(engine), state_of("s01")) == ([], "lost")
    server = Server.objects.get(name="s01")
    assert server_return(server=server, by=BY, reason="It is mended.", at=timezone.now()) is None
    assert book_is_sound()


@pytest.mark.django_db
def test_server_comes_back_by_itself_where_the_pool_says_so_and_the_engine_had_lost_it() -> None:
    pool, _, _ = world(seconds=60)
    tell_history(pool)
    change: Any = {"pool": pool, "by": BY, "at": timezone.now()}
    assert servers_return_set(returns=True, reason="Nobody is here at night.", **change) is None
    assert servers_return_set(returns=True, reason="Said again.", **change) is None
    entry = AuditEntry.objects.get(action="servers_return_set")
    assert (entry.before, entry.after) == ({"servers_return": False}, {"servers_return": True})
    assert isinstance(servers_return_set(returns=False, reason="", **change), Refused)
    assert isinstance(servers_return_set(returns=False, reason="I want to", **change | {"by": NOBODY}), Refused)
    engine: Any = Telling()
    engine.says("s01", DOWN, 61)
    assert follow(engine) == ["s01"]
    engine.says("s01", UP, 5)
    assert (follow(engine), state_of("s01")) == ([], "lost")  # it may only flap
    engine.says("s01", UP, 61)
    assert (follow(engine), state_of("s01")) == (["s01"], "in_service")
    assert AuditEntry.objects.get(action="server_return").actor_name == "engine local"
    server_lose(server=Server.objects.get(name="s01"), by=BY, reason="It smokes.", at=timezone.now())
    assert (follow(engine), state_of("s01")) == ([], "lost")  # an operator knows better
    assert [finding for finding in settings_verify([pool.pk]) if "return" in str(finding)] == []
    with as_superuser():
        Pool.objects.filter(pk=pool.pk).update(servers_return=False)
    assert any("servers_return" in str(finding) for finding in settings_verify([pool.pk]))


@pytest.mark.django_db
def test_server_that_the_cluster_drains_hosts_nothing_new_until_the_cluster_takes_it_back() -> None:
    """Else gangs are sold there that Slurm does not start, again and again, until their jobs are given up."""
    pool, _, award = world(seconds=60)
    tell_history(pool)
    engine: Any = Telling()
    engine.says("s01", DRAINING, 59)
    assert (follow(engine), state_of("s01")) == ([], "in_service")  # it may be taken back at once
    engine.says("s01", DRAINING, 64, "Kill task failed")
    assert (follow(engine), state_of("s01")) == (["s01"], "draining")
    assert follow(engine) == []
    assert again(award).returned == 0  # what runs there goes on, and what was sold is not taken back
    entry = AuditEntry.objects.get(action="server_drain")
    assert (entry.actor_name, entry.actor) == ("engine local", None)
    assert entry.reason == "The cluster says that it has been drained for 64 s: Kill task failed"
    engine.says("s01", UP, 5)
    assert (follow(engine), state_of("s01")) == ([], "draining")
    engine.says("s01", UP, 61)
    assert (follow(engine), state_of("s01")) == (["s01"], "in_service")
    server = Server.objects.get(name="s01")
    assert server_drain(server=server, by=BY, reason="A new disk.", at=timezone.now()) is None
    assert (follow(engine), state_of("s01")) == ([], "draining")  # an operator knows better
    engine.says("s01", DOWN, 61)
    assert (follow(engine), state_of("s01")) == (["s01"], "lost")


@pytest.mark.django_db
def test_pages_show_what_the_engine_says_and_set_whether_servers_return() -> None:
    pool, _, _ = world(seconds=60)
    client = client_of(make_staff(OPERATOR).user)
    engine: Any = Telling()
    engine.says("s01", UP, 61)
    page = client.get(f"/operator/pools/{pool.slug}/").content.decode()
    assert "Engine local" in page
    assert "never" in page
    alerts = ("The reservation bourse cannot be shown.",)
    engine_pulse(engine=engine, alerts=alerts, figures="", at=timezone.now())
    there = f"/operator/pools/{pool.slug}/servers-return/"
    answer = client.post(there, {"return-returns": "on", "return-reason": "Nobody is here at night."}, follow=True)
    page = answer.content.decode()
    assert "come back by themselves once they are up" in page
    assert "1 up" in " ".join(page.split())
    for place in (f"/operator/pools/{pool.slug}/", "/operator/health/"):
        assert alerts[0] in client.get(place).content.decode()
    page = client.get(f"/operator/servers/{Server.objects.get(name='s01').pk}/").content.decode()
    assert "says that it is <b>up</b>" in page


@pytest.mark.django_db
def test_monitors_read_what_engines_count_and_when_they_were_last_at_work() -> None:
    figures = EngineFigures("slurm")
    ends = (("lost", f"{NOT_ALL_CAME}: n3"), ("finished", ""))
    figures.count(Ticked(1, 2, (0.2, 7.0), ends), Report(commands=(("squeue", 0.05),)))
    engine: Any = Telling()
    engine.name = "slurm"
    make_pool(engine="slurm")
    at = timezone.now()
    engine_pulse(engine=engine, alerts=("It is gone.",), figures=figures.text(), at=at)
    text = metrics_text(at + timedelta(seconds=9))
    for line in (
        'bourse_engine_seen_seconds{engine="slurm"} 9.0',
        'bourse_engine_alerts{engine="slurm"} 1.0',
        'bourse_runs_ended_total{engine="slurm",state="finished"} 1.0',
        'bourse_run_losses_total{cause="incomplete",engine="slurm"} 1.0',
        'bourse_run_late_seconds_bucket{engine="slurm",le="0.25"} 1.0',
        'bourse_run_late_seconds_count{engine="slurm"} 2.0',
        'bourse_engine_command_seconds_bucket{command="squeue",engine="slurm",le="0.1"} 1.0',
    ):
        assert line in text
    two = figures_text([], [figures.text(), EngineFigures("other").text()])
    assert two.count("# TYPE bourse_run_late_seconds histogram") == 1
    assert "_created" not in two


@pytest.mark.django_db
def test_no_alert_is_given_of_an_engine_that_nobody_needs_any_more() -> None:
    """Its pool is closed, and empty; another one was started on this machine, and no pool ever named it."""
    pool, _, renter = make_renting(engine="slurm")
    award = make_award(pool, renter)
    at = timezone.now()
    for name in ("slurm", "local"):
        engine: Any = Telling()
        engine.name = name
        engine_pulse(engine=engine, alerts=("It is gone.",), figures="", at=at)

    def told_of() -> set[str]:
        figures = ("engine_seen_seconds", "engine_alerts")
        return {gauge.labels["engine"] for gauge in gauges(at + timedelta(days=1)) if gauge.name in figures}

    assert told_of() == {"slurm"}
    assert pool_drain(pool=pool, by=BY, reason="The cluster is returned.", at=at) is None
    assert told_of() == {"slurm"}, "what was sold is still to be delivered"
    with scope(renter):
        Award.objects.filter(pk=award.pk).update(state=AwardState.DONE)
    assert told_of() == set()


@pytest.mark.parametrize(
    ("detail", "cause"),
    [
        ("n2: not all parts came: n3", "incomplete"),
        ("nothing is heard of its part on n2 any more", "silent"),
        ("whoever watched over it was killed", "launcher"),
        ("its part on n1 was ended by Slurm or an operator (CANCELLED)", "operator"),
        ("Slurm refused it: Invalid node name specified.", "refused"),
        ("server n1 failed", "server"),
        ("torchrun-9 was not found on node n3", "gang"),
    ],
)
def test_every_loss_has_one_of_a_few_causes(detail: str, cause: str) -> None:
    assert cause_of(detail) == cause
