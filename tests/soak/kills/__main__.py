"""`python -m tests.soak.kills ROUNDS SEED [--pause SECONDS] [--only KIND ...]`: kill and stop, let it settle, check.

Between rounds there is a pause of so many seconds on average. Status 1: something does not hold.

A round is one process of one kind, both drawn at random, that is killed, or stopped and let go on later, while the
next rounds go on. The draws follow from the seed; what they meet does not, for nobody holds the machine's clock.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import random
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil

from marketplace.embedded import State
from marketplace.processes.restarts import MOST_ENDS, WITHIN_SECONDS
from tests.ports import free_port
from tests.soak.kills.beside import Submitter, Watcher
from tests.soak.kills.product import ROOT, Product

STOP_SHARE = 0.3  # of the rounds; the others kill
PAUSE_SECONDS = 4.0
STOPPED_SECONDS, LONGEST_STOP_SECONDS = 5.0, 30.0
QUIET_SECONDS, SETTLE_SECONDS = 120.0, 700.0  # jobs of the demonstration may begin up to 40 slots ahead
TENANT, SUBMITTER, OPERATOR = "lumen-lab", "submitter@lumen.example", "operator@bourse.example"


class Rounds:
    """Kills and stops. `stopped`: until when."""

    def __init__(self, product: Product, dice: random.Random, only: Sequence[str]) -> None:
        self.product, self.dice, self.only = product, dice, only
        self.watcher: Watcher | None = None
        self.stopped: dict[psutil.Process, float] = {}
        self.kills: defaultdict[str, list[float]] = defaultdict(list)
        self.starts: list[float] = []  # seconds that `up` took to come again

    def one(self, number: int) -> None:
        self.go_on(lambda until: time.monotonic() >= until)
        processes = self.product.processes()
        kinds = [kind for kind in sorted(processes) if kind in (self.only or kind) and not self._too_often(kind)]
        if not kinds:
            return
        kind = self.dice.choice(kinds)
        victim = self.dice.choice(sorted(processes[kind], key=lambda process: process.pid))
        stop = self.dice.random() < STOP_SHARE and kind != "up"
        seconds = min(self.dice.expovariate(1 / STOPPED_SECONDS), LONGEST_STOP_SECONDS)
        what = f"stopped for {seconds:.1f} s" if stop else "killed"
        print(f"{number:4d} {time.strftime('%H:%M:%S')} {kind} (process {victim.pid}) is {what}", flush=True)
        with contextlib.suppress(psutil.Error):  # it has ended meanwhile, which is as well
            if stop:
                victim.suspend()
                self.stopped[victim] = time.monotonic() + seconds
                return
            victim.kill()
        self.kills[kind].append(time.monotonic())
        if kind == "up":
            self._start_again()

    def go_on(self, due: Callable[[float], bool]) -> None:
        """Whoever is stopped, and due."""
        for process in [each for each, until in self.stopped.items() if due(until)]:
            del self.stopped[process]
            with contextlib.suppress(psutil.Error):
                process.resume()

    def _start_again(self) -> None:
        assert self.product.process is not None
        assert self.watcher is not None
        self.watcher.product_runs.clear()
        self.product.process.wait()
        self.go_on(lambda until: True)  # whoever is stopped cannot end with it
        began = time.monotonic()
        self.product.start()
        self.starts.append(time.monotonic() - began)
        self.watcher.product_runs.set()

    def _too_often(self, kind: str) -> bool:
        """With another kill `up` would give it up, as it should; that is not what is tried here."""
        recent = [moment for moment in self.kills.get(kind, []) if time.monotonic() - moment < WITHIN_SECONDS]
        return len(recent) >= (1 if kind == "up" else MOST_ENDS - 1)


def main(rounds: int, seed: int, pause: float, only: Sequence[str]) -> int:
    folder = Path(tempfile.mkdtemp(prefix="bourse-kills-", dir="/var/tmp"))
    folder.chmod(0o711)
    product, dice = Product(folder / "var", free_port()), random.Random(seed)
    print(f"seed {seed}, {rounds} rounds, {'only ' * bool(only)}{', '.join(only)} in {folder}", flush=True)
    done = Rounds(product, dice, only)
    try:
        product.start()
        know_the_product(product)
        submitter, watcher = (
            Submitter(product.address, TENANT, token_of(SUBMITTER)),
            Watcher(State(product.var).database_url),
        )
        submitter.start()
        watcher.start()
        done.watcher = watcher
        for number in range(1, rounds + 1):
            deadline = time.monotonic() + min(dice.expovariate(1 / pause), 4 * pause)
            while (rest := deadline - time.monotonic()) > 0:
                done.go_on(lambda until: time.monotonic() >= until)
                time.sleep(min(rest, 0.2))
            assert product.process is not None
            assert product.process.poll() is None, "`up` has ended:\n" + "".join(product.lines[-30:])
            done.one(number)
        done.go_on(lambda until: True)
        wait_for(product.answers, QUIET_SECONDS, "the product does not come back")
        submitter.finish()
        watcher.finish()
        come_to_rest()
        findings = [*checks(submitter), *commands(product)]
        report(product, submitter, watcher, done)
        product.stop()
        findings += [f"it is stopped, and {process} is there" for process in product.family()]
    finally:
        done.go_on(lambda until: True)
        product.stop()
        for process in product.family():
            process.kill()
    for finding in findings:
        print(f"FINDING: {finding}")
    if findings:
        print(f"Repeat it with: make soak-kills ROUNDS={rounds} SEED={seed}   The data are kept in {folder}.")
        return 1
    shutil.rmtree(folder)
    print("Nothing is held for what is over, and everything verifies.")
    return 0


def wait_for(condition: Callable[[], bool], patience: float, otherwise: str) -> None:
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.5)


# What is asked of the product's own services, beside it.


def know_the_product(product: Product) -> None:
    """This process works on its database from now on."""
    state = State(product.var)
    os.environ |= {"DATABASE_URL": state.database_url, "REDIS_URL": state.redis_url, "BOURSE_VAR": str(product.var)}
    os.environ |= {"DEBUG": "true", "DJANGO_SETTINGS_MODULE": "marketplace.settings"}
    os.environ.setdefault("SECRET_KEY", secrets.token_urlsafe(50))
    import django

    django.setup()


def token_of(email: str) -> str:
    from django.utils import timezone

    from tenants.models import Tenant, User
    from tenants.selectors import access_of
    from tenants.services.tokens import IssuedToken, token_create

    by = access_of(User.objects.get(email=email), Tenant.objects.get(slug=TENANT))
    issued = token_create(name="soak", scopes=["jobs:read", "jobs:write"], by=by, at=timezone.now())
    assert isinstance(issued, IssuedToken), issued
    return issued.secret


def come_to_rest() -> None:
    """Every pool is drained: nothing is sold any more, and what was sold is delivered and paid."""
    from django.db import connections
    from django.utils import timezone

    from scheduling.market.settle.slots import ALIVE
    from scheduling.models import Award, Pool, Run
    from scheduling.models.runs import OPEN
    from scheduling.operator.holds import pool_drain
    from tenants.access import access_of_system
    from tenants.scoping import scope_disabled

    connections.close_all()
    for pool in Pool.objects.all():
        pool_drain(pool=pool, by=access_of_system("the soak"), reason="to see it at rest", at=timezone.now())

    def at_rest() -> bool:
        with scope_disabled("the soak waits for everybody"):
            return (
                not Award.objects.filter(state__in=ALIVE).exists() and not Run.objects.filter(state__in=OPEN).exists()
            )

    wait_for(at_rest, SETTLE_SECONDS, "what was sold does not come to its end")


def checks(submitter: Submitter) -> list[str]:
    """What does not hold in the rows; a sentence for each."""
    from django.db.models import F, Sum

    from scheduling.models import Award, TrainingJob
    from tenants.ledger.postings import held
    from tenants.ledger.selectors import balance
    from tenants.models import Tenant
    from tenants.scoping import scope_disabled

    with scope_disabled("the soak looks at everybody"):
        # A drained pool plans nothing, and what an open rent holds waits for a plan (decision 0215).
        rents = Award.objects.filter(rent="open").values("tenant").annotate(held=Sum(F("paid") - F("returned")))
        waits: dict[int, int] = dict(rents.values_list("tenant", "held"))
        amounts = {
            tenant.slug: balance(account=held(tenant.pk)) - waits.get(tenant.pk, 0) for tenant in Tenant.objects.all()
        }
        print(f"held for open rents: {waits}", flush=True)
        rows: dict[str, list[int]] = defaultdict(list)
        for name, job in TrainingJob.objects.filter(name__startswith="soak-").values_list("name", "pk"):
            rows[name].append(job)
    findings = [
        f"{amount} micro-credits of {slug} are held for what is over" for slug, amount in amounts.items() if amount
    ]
    findings += [f"{name} is {len(jobs)} jobs" for name, jobs in rows.items() if len(jobs) > 1]
    findings += [f"{name} was accepted and is gone" for name, job in submitter.accepted.items() if rows[name] != [job]]
    return findings


def commands(product: Product) -> list[str]:
    """The three verifications, as an auditor types them."""
    findings = []
    for command in ("verify_ledger", "verify_intervals", "verify_history"):
        words = [sys.executable, "manage.py", command]
        done = subprocess.run(words, cwd=ROOT, env=os.environ, capture_output=True, text=True, check=False)
        print(f"{command}: {done.stdout.splitlines()[0] if done.stdout else ''}", flush=True)
        if done.returncode:
            findings.append(f"{command}: {done.stderr.strip()[:2_000]}")
    return findings


def report(product: Product, submitter: Submitter, watcher: Watcher, done: Rounds) -> None:
    from scheduling.models import Event

    print(f"kills: { {kind: len(moments) for kind, moments in sorted(done.kills.items())} }")
    print(f"submissions: {len(submitter.accepted)} accepted of {submitter.number}; answers {dict(submitter.answers)}")
    kills = sorted((moment, kind) for kind, moments in done.kills.items() for moment in moments)
    ends = [moment for moment, _ in kills[1:]] + [math.inf]
    after: defaultdict[str, list[float]] = defaultdict(list)
    for (moment, kind), end in zip(kills, ends, strict=True):
        after[kind].append(round(watcher.seen.behind_after(moment, end, 1), 1))
    print(f"seconds after a kill until the clock was on time again, or the next kill: {dict(after)}")
    for most in (1, 2):
        spans = watcher.seen.behind(most)
        print(f"behind by more than {most} boundaries, or silent, while `up` ran: {len(spans)} times; the longest:")
        for begin, end in sorted(spans, key=lambda span: span[0] - span[1])[:5]:
            at = time.strftime("%H:%M:%S", time.localtime(time.time() - time.monotonic() + begin))
            print(f"    {end - begin:5.1f} s from {at} on")
    print(f"`up` came again after {[round(seconds, 1) for seconds in done.starts]} s")
    losses = Event.objects.filter(kind="job_requeued").values_list("data", flat=True)
    causes = Counter((data["cause"], data.get("detail", "")) for data in losses if data.get("refunded"))
    for (cause, detail), count in causes.most_common():
        print(f"refunds: {count} of {cause} ({detail})")
    again = [line.rstrip() for line in product.lines if "is started again" in line or "answers again" in line]
    print(f"`up` said {len(again)} times that somebody ended or answers again; the last: {again[-1:]}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("rounds", type=int)
    parser.add_argument("seed", type=int)
    parser.add_argument("--pause", type=float, default=PAUSE_SECONDS)
    parser.add_argument("--only", nargs="*", default=[])
    sys.exit(main(**vars(parser.parse_args())))
