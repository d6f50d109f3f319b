"""An audit bundle agrees with itself, and its checker refuses one in which a single number was changed."""

from __future__ import annotations

import ast
import hashlib
import io
import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from datetime import timedelta
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from scheduling.audit.bundle import check, public_key, signing_seed
from scheduling.audit.bundle.signature import sign
from scheduling.core.currency import DIGITS
from scheduling.models import Award, LaneClock, Pool
from tenants.ledger.models import Transaction
from tenants.scoping import scope_disabled
from tests.audit.proven import Proven, make_proven, seal_feed
from tests.ledger.builders import tamper
from tests.scheduling.markets import at, make_market, make_waiting, run_slots
from tests.worlds import built_once

pytestmark = pytest.mark.django_db
Rows = list[dict[str, Any]]


built = built_once(make_proven)


class HasPool(Protocol):
    @property
    def pool(self) -> Pool: ...


def make_bundle(world: HasPool, path: Path, *, middle: bool = False, last: int = 12, until: int = 400) -> Path:
    """`middle`: of a period that begins after the first decisions and payments, and ends before the last. Others begin
    before everything, and end with slot `until`."""
    pool = world.pool
    start, end = (at(pool, 5), at(pool, last)) if middle else (at(pool, 0) - timedelta(days=400), at(pool, until))
    call_command("audit_bundle", pool=pool.slug, start=start, end=end, out=path / "b.zip", stdout=io.StringIO())
    return path / "b.zip"


def changed(bundle: Path, name: str, change: Callable[[Rows], None], *, in_manifest: bool) -> Path:
    """The bundle with other rows in one file. `in_manifest`: its writer corrected the list, and cannot sign it."""
    with zipfile.ZipFile(bundle) as old:
        files = {entry: old.read(entry) for entry in old.namelist()}
    rows = [json.loads(line) for line in files[name].splitlines()]
    change(rows)
    files[name] = b"".join(json.dumps(row, sort_keys=True, separators=(",", ":")).encode() + b"\n" for row in rows)
    if in_manifest:
        manifest = json.loads(files["manifest.json"])
        manifest["files"][name] = hashlib.sha256(files[name]).hexdigest()
        files["manifest.json"] = line(manifest)
    return write_files(bundle, files)


def line(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode() + b"\n"


def files_of(bundle: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(bundle) as old:
        return {entry: old.read(entry) for entry in old.namelist()}


def write_files(bundle: Path, files: dict[str, bytes]) -> Path:
    other = bundle.with_name("changed.zip")
    with zipfile.ZipFile(other, "w") as new:
        for entry, content in files.items():
            new.writestr(entry, content)
    return other


def forged(bundle: Path, files: dict[str, bytes]) -> Path:
    """By somebody who changed a file, corrected the list, and signed it with a key of his own."""
    manifest = json.loads(files["manifest.json"])
    manifest["files"] = {name: hashlib.sha256(files[name]).hexdigest() for name in manifest["files"]}
    signed = line(manifest)
    seed = bytes(32)
    signature = {"public_key": public_key(seed).hex(), "signature": sign(seed, signed).hex()}
    return write_files(bundle, {**files, "manifest.json": signed, "signature.json": line(signature)})


@pytest.mark.wide
def test_a_bundle_from_the_middle_of_the_history_is_checked_from_what_its_signed_list_states(
    built: Proven, tmp_path: Path
) -> None:
    bundle = make_bundle(built, tmp_path, middle=True)
    files = files_of(bundle)
    stated = json.loads(files["manifest.json"])
    first = json.loads(files["intervals.jsonl"].splitlines()[0])
    assert stated["chain"]["first_interval"] == first["number"] > 1
    assert stated["chain"]["previous_digest"] == first["previous"] != "0" * 64
    assert any(amount for amount in stated["opening"].values())
    assert len(files["transactions.jsonl"].splitlines()) > 1
    assert b"supplies" in files["intervals.jsonl"]
    assert check.check(bundle) == []
    for change, sentence in (
        (lambda m: m["opening"].update({next(iter(m["opening"])): 1}), "the opening balances do not add up to zero"),
        (lambda m: m["chain"].update(previous_digest="0" * 64), "does not follow the interval before it"),
        (lambda m: m["chain"].update(first_interval=1), "does not follow the interval before it"),
        (lambda m: m["chain"].update(last_digest="0" * 64), "is not the one that the bundle ends with"),
        (lambda m: m["period"].update(start=m["period"]["end"]), "was not decided in the period"),
        (lambda m: m["answers"].update(first_answer=77), "does not follow the answer before it"),
        (lambda m: m["answers"].update(last_digest="0" * 64), "the last answer is not the one"),
        (lambda m: m["feed"].update(previous_digest="0" * 63 + "1"), "does not follow the seal before it"),
        (lambda m: m["feed"].update(last_digest="0" * 64), "the last seal is not the one"),
        (lambda m: m.update(digits=7), "is not what its interval decided"),
        (lambda m: m.update(format="bourse-audit/2"), "this program checks bundles of the form"),
    ):
        manifest = json.loads(files["manifest.json"])
        change(manifest)
        changed_list = {**files, "manifest.json": line(manifest)}
        assert "the signature does not belong to the list of files" in check.check(write_files(bundle, changed_list))
        flaws = check.check(forged(bundle, changed_list))
        assert any(sentence in one for one in flaws), (sentence, flaws)


@pytest.mark.wide
def test_a_bundle_that_states_no_digits_is_counted_as_all_were_before_any_did(built: Proven, tmp_path: Path) -> None:
    bundle = make_bundle(built, tmp_path, middle=True)
    files = files_of(bundle)
    manifest = json.loads(files["manifest.json"])
    assert manifest.pop("digits") == DIGITS == check.DIGITS_UNSAID
    assert check.check(forged(bundle, {**files, "manifest.json": line(manifest)})) == []


def test_bundles_of_forms_before_are_read_too_and_are_said_to_be_older(
    built: Proven, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rents of the oldest have their payouts themselves, which `tests/core/test_supplies.py` reads with the same
    program."""
    bundle = make_bundle(built, tmp_path, middle=True)
    files = files_of(bundle)
    for form, is_older in ((check.FORMAT, False), *((form, True) for form in check.READ_TOO)):
        manifest = json.loads(files["manifest.json"]) | {"format": form}
        path = forged(bundle, {**files, "manifest.json": line(manifest)})
        assert check.check(path) == []
        assert check.main([str(path)]) == 0
        output = capsys.readouterr().out
        assert ("An older version wrote this bundle" in output, "everything agrees" in output) == (is_older, True)


def numbers_in(content: bytes, most: int) -> list[tuple[int, int]]:
    """Where whole numbers stand, outside of digests; so many, spread evenly."""
    spans = [match.span() for match in re.finditer(rb'(?<![0-9a-zA-Z."])-?[0-9]+(?=[,\]}])', content)]
    return spans[:: max(len(spans) // most, 1)][:most]


def test_one_changed_number_anywhere_is_refused(built: Proven, tmp_path: Path) -> None:
    """In every file; and where the list was signed by somebody else, the key that was noted is not his."""
    bundle, key = make_bundle(built, tmp_path, middle=True), public_key(signing_seed(at=timezone.now())).hex()
    files = files_of(bundle)
    tried = 0
    for name, content in files.items():
        for begin, end in numbers_in(content, 4):
            number = str(int(content[begin:end]) + 1).encode()
            other = {**files, name: content[:begin] + number + content[end:]}
            assert check.check(write_files(bundle, other)), (name, content[begin - 20 : end + 5])
            tried += 1
        flipped = {**files, name: bytes([content[0] ^ 1]) + content[1:]}
        assert check.check(write_files(bundle, flipped)), name
    assert tried > 15
    flaws = check.check(forged(bundle, files), key)
    assert "the bundle is signed with another key than the one you gave" in flaws


FIELDS = [
    *(("intervals.jsonl", field) for field in ("pool", "number", "slot", "digest", "previous", "code_version")),
    *(("intervals.jsonl", field) for field in ("policy", "view", "plan", "windows", "decided_at")),
    *(("intervals.jsonl", field) for field in ("heads",)),
    *(("frames.jsonl", field) for field in ("digest", "content")),
    *(("answers.jsonl", field) for field in ("pool", "number", "job", "award", "at", "code_version", "frame")),
    *(("answers.jsonl", field) for field in ("interval", "previous", "digest", "input", "plan")),
    *(("awards.jsonl", field) for field in ("start", "end", "paid", "tenant", "charges", "interval", "job")),
    *(("seals.jsonl", field) for field in ("number", "last_event", "sealed_at", "members", "previous", "digest")),
    *(("events.jsonl", field) for field in ("id", "pool", "tenant", "kind", "subject", "at", "data")),
    *(("submissions.jsonl", field) for field in ("job", "submission")),
    *(("transactions.jsonl", field) for field in ("key", "kind", "subject", "at", "facts", "entries", "digest")),
    ("balances.json", "closing"),
]


def test_a_forger_who_signs_anew_is_still_found_by_what_the_files_say(
    built: Proven, tmp_path: Path, monkeypatch: Any
) -> None:
    """Without the key that was noted: what belongs together no longer agrees. His signature holds, and is not looked
    at here again and again."""
    path = make_bundle(built, tmp_path)
    assert check.check(forged(path, files_of(path))) == []
    monkeypatch.setattr(check, "signature_holds", lambda *_: True)
    for name, field in FIELDS:
        files = files_of(path)
        rows = [json.loads(one) for one in files[name].splitlines()]
        row = next(row for row in rows if row.get("paid", 1) and row.get("charges", 1) and row.get(field) is not None)
        row[field] = another(row[field])
        files[name] = b"".join(map(line, rows))
        manifest = json.loads(files["manifest.json"])
        manifest["files"][name] = hashlib.sha256(files[name]).hexdigest()
        flaws = check.check(write_files(path, {**files, "manifest.json": line(manifest)}))
        assert flaws, (name, field)
        assert f"{name} was changed" not in flaws


def another(value: Any) -> Any:
    if isinstance(value, int):
        return value + 1
    if value == "":
        return "7"
    if isinstance(value, str):
        numbers = list(re.finditer(r"[0-8](?=\D*$)", value))
        place = numbers[-1].start() if numbers else 0
        return value[:place] + ("7" if value[place] != "7" else "6") + value[place + 1 :]
    if isinstance(value, dict):
        return {**value, next(iter(value)): 1}
    changed_rows = json.loads(json.dumps(value))
    part = next(part for part in changed_rows if part)
    part[0] = [part[0][0], part[0][1] + 1] if isinstance(part[0], list) else part[0] + 8
    return changed_rows


def again(rows: Rows, row: dict[str, Any], **changes: Any) -> None:
    """One transaction more, as the book would have written it: like `row`, but for these changes."""
    other = {**row, **changes}
    lines = ", ".join(f"[{account}, {amount}]" for account, amount in other["entries"])
    parts = json.dumps([other["key"], other["kind"], other["subject"], other["at"], other["corrects"]])
    text = f"{parts[:-1]}, {other['facts']}, [{lines}]]"
    rows.append({**other, "digest": hashlib.sha256(text.encode()).hexdigest()})


def move(balances: dict[str, Any], row: dict[str, Any], times: int = 1) -> None:
    """Correct the closing balances, as if this were booked once more, or (-1) never."""
    closing = balances["closing"]
    for account, amount in row["entries"]:
        closing[str(account)] = closing.get(str(account), 0) + times * amount


def as_of_another_award(files: dict[str, bytes], award: int, number: int) -> tuple[Rows, dict[str, Any]]:
    """The book and the closing balances, with all that is booked of an award booked once more of award `number`."""
    before, closing = (
        list(map(json.loads, files["transactions.jsonl"].splitlines())),
        json.loads(files["balances.json"]),
    )
    more = [*before]
    for row in before:
        if json.loads(row["facts"]).get("award") == award:
            facts = json.dumps(json.loads(row["facts"]) | {"award": number})
            again(more, row, key=re.sub(rf":{award}$", f":{number}", row["key"]), facts=facts)
            move(closing, row)
    return more, closing


def test_a_forger_who_lets_an_award_pay_once_more_is_found(built: Proven, tmp_path: Path) -> None:
    """He books it as the book would have, and corrects the closing balances: for a slot before the award began, after
    its end, under the key of another award, or once more under the same key."""
    path = make_bundle(built, tmp_path)
    files = files_of(path)
    awards = {row["id"]: row for row in map(json.loads, files["awards.jsonl"].splitlines())}
    before = [json.loads(one) for one in files["transactions.jsonl"].splitlines()]
    of_awards = [row for row in before if json.loads(row["facts"]).get("award") in awards]
    settled, held = (next(row for row in of_awards if row["kind"] == kind) for kind in ("settle", "hold"))
    facts = json.loads(settled["facts"])
    award = awards[facts["award"]]
    last = award["end"] - 1
    rows = [row for row in before if row["kind"] == "settle" and json.loads(row["facts"]) == {**facts, "slot": last}]
    for row, key, slot, sentence in (
        (rows[0], f"settle:{built.pool.pk}:{award['start'] - 1}:{award['id']}", award["start"] - 1, "owes"),
        (rows[0], f"settle:{built.pool.pk}:{award['end']}:{award['id']}", award["end"], "owes"),
        (rows[0], f"settle:{built.pool.pk}:{last}:{award['id'] + 99}", last, "owes"),
        (rows[0], rows[0]["key"], last, "is there twice"),
        (held, held["key"] + "9", None, "owes"),
    ):
        more, closing = [*before], json.loads(files["balances.json"])
        facts = json.dumps(json.loads(row["facts"]) | ({} if slot is None else {"slot": slot}))
        again(more, row, key=key, facts=facts)
        move(closing, row)
        other = {"transactions.jsonl": b"".join(map(line, more)), "balances.json": line(closing)}
        findings = check.check(forged(path, {**files, **other}))
        (first, *others) = findings
        assert sentence in first, (key, findings)
        of_the_rest = (
            "more was paid or came back than was set aside",
            "is still set aside, and its slots to come cost",
        )
        assert all(any(text in one for text in of_the_rest) for one in others), (key, findings)


def without(files: dict[str, bytes], transaction: dict[str, Any]) -> dict[str, bytes]:
    """The bundle's files as if this had never been booked."""
    closing = json.loads(files["balances.json"])
    move(closing, transaction, -1)
    book = [row for row in files["transactions.jsonl"].splitlines() if json.loads(row)["key"] != transaction["key"]]
    return {**files, "transactions.jsonl": b"".join(row + b"\n" for row in book), "balances.json": line(closing)}


@pytest.mark.parametrize("middle", [False, True])
def test_a_forger_who_leaves_out_a_payment_to_owners_is_found(built: Proven, tmp_path: Path, middle: bool) -> None:
    """Each payment of the period by itself: the feed told how much was paid at that moment. Where the award was decided
    in the period, too, what it set aside is not used up."""
    path = make_bundle(built, tmp_path, middle=middle)
    files = files_of(path)
    rows = [json.loads(row) for row in files["transactions.jsonl"].splitlines()]
    last_slot = json.loads(files["intervals.jsonl"].splitlines()[-1])["slot"]
    keys = {row["key"] for row in rows}
    payments = [row for row in rows if row["key"].startswith(f"settle:{built.pool.pk}:")]
    assert len(payments) > 5
    rests = 0
    for row in payments:
        findings = check.check(forged(path, without(files, row)))
        assert any("the feed told of payments of" in one for one in findings), (row["key"], findings)
        facts = json.loads(row["facts"])
        of_award = [one for one in findings if one.startswith(f"award {facts['award']} of job ")]
        has_rest = f"award:{facts['award']}" in keys and facts["slot"] < last_slot
        assert [("is still set aside" in one) for one in of_award] == [True] * has_rest, (row["key"], findings)
        assert len(findings) == 1 + has_rest
        rests += has_rest
    assert rests > 2 or middle


def test_more_than_was_set_aside_cannot_come_back(built: Proven, tmp_path: Path) -> None:
    path = make_bundle(built, tmp_path)
    files = files_of(path)
    rows = [json.loads(row) for row in files["transactions.jsonl"].splitlines()]
    numbers = {row["id"] for row in map(json.loads, files["awards.jsonl"].splitlines())}
    refund = next(row for row in rows if row["kind"] == "refund" and json.loads(row["facts"])["award"] in numbers)
    number, closing = json.loads(refund["facts"])["award"], json.loads(files["balances.json"])
    move(closing, refund)
    again(rows, refund, key=f"refund:{number}:from0")
    other = {"transactions.jsonl": b"".join(map(line, rows)), "balances.json": line(closing)}
    (finding,) = check.check(forged(path, {**files, **other}))
    assert finding.startswith(f"award {number} of job ")
    assert finding.endswith("more was paid or came back than was set aside")


def test_a_forger_who_gives_a_tenants_credits_to_another_is_found(built: Proven, tmp_path: Path) -> None:
    """With what is available, set aside without an award, or earned: no such transaction is ever booked. Nor one that
    says that it undoes another, whose mirror image it is not."""
    path = make_bundle(built, tmp_path)
    files = files_of(path)
    before = [json.loads(row) for row in files["transactions.jsonl"].splitlines()]
    held = next(row for row in before if row["kind"] == "hold")
    mine, other = 8 * built.lumen.pk, 8 * built.castor.pk
    ways = ((mine, other), (mine + 1, other), (mine + 2, other + 2), (2, other + 2))
    for (payer, payee), corrects in product(ways, (None, held["id"], held["id"] + 10**6)):
        rows, closing, entries = [*before], json.loads(files["balances.json"]), [[payer, -5], [payee, 5]]
        again(rows, held, id=held["id"] + 10**7, key="gift", corrects=corrects, facts="{}", entries=entries)
        move(closing, rows[-1])
        gift = {"transactions.jsonl": b"".join(map(line, rows)), "balances.json": line(closing)}
        assert check.check(forged(path, {**files, **gift})) == [
            f"transaction gift moves money from account {payer} to account {payee}, as the market never does"
        ]
    rows, closing = before, json.loads(files["balances.json"])
    settled = next(row for row in before if row["kind"] == "settle")
    undone = [[account, -amount] for account, amount in settled["entries"]]
    number = settled["id"] + 10**7
    again(rows, settled, id=number, key="undone", corrects=settled["id"], facts="{}", entries=undone)
    move(closing, rows[-1])
    undoing = {"transactions.jsonl": b"".join(map(line, rows)), "balances.json": line(closing)}
    assert check.check(forged(path, {**files, **undoing})) == []


def test_a_forger_who_lets_a_booking_pay_twice_is_found(built: Proven, tmp_path: Path) -> None:
    """By a second award on the terms of the first, with all that the book would say of it; or by another award under
    the same number, which stands before the one that was given."""
    path = make_bundle(built, tmp_path)
    files = files_of(path)
    awards = [json.loads(row) for row in files["awards.jsonl"].splitlines()]
    before = [json.loads(one) for one in files["transactions.jsonl"].splitlines()]
    award = next(row for row in awards if row["paid"])
    number = awards[-1]["id"] + 1
    more, closing = as_of_another_award(files, award["id"], number)
    assert len(more) > len(before) + 1
    other = {
        "awards.jsonl": b"".join(map(line, [*awards, award | {"id": number}])),
        "transactions.jsonl": b"".join(map(line, more)),
        "balances.json": line(closing),
    }
    findings = check.check(forged(path, {**files, **other}))
    assert len(findings) == 1, findings
    assert f"award {number} of job {award['job']}: its " in findings[0]
    assert "gave the job another one for these slots" in findings[0]
    twice = b"".join(map(line, [award | {"charges": [], "paid": 0}, *awards]))
    assert check.check(forged(path, {**files, "awards.jsonl": twice})) == [f"award {award['id']} is there twice"]


def test_a_forger_who_invents_an_award_is_found(built: Proven, tmp_path: Path) -> None:
    """Of no interval and no answer, or of an interval that is not in the bundle, with all that the book would say of
    it: what it pays was set aside in the period, so it was decided then."""
    path = make_bundle(built, tmp_path)
    files = files_of(path)
    awards = [json.loads(row) for row in files["awards.jsonl"].splitlines()]
    award, number = next(row for row in awards if row["paid"]), awards[-1]["id"] + 1
    more, closing = as_of_another_award(files, award["id"], number)
    for by in ({"interval": None, "answer": None}, {"interval": 9_000, "answer": None}, {"interval": 0}):
        other = {
            "awards.jsonl": b"".join(map(line, [*awards, award | {"id": number} | by])),
            "transactions.jsonl": b"".join(map(line, more)),
            "balances.json": line(closing),
        }
        what = "its price was set aside in the period, and nothing in the bundle decided it"
        assert check.check(forged(path, {**files, **other})) == [f"award {number} of job {award['job']}: {what}"], by


@pytest.mark.parametrize("middle", [False, True])
def test_a_forger_who_leaves_out_decisions_is_found(built: Proven, tmp_path: Path, middle: bool) -> None:
    """All intervals, or all answers, with the ends of their chains as if there were none; or the last ones. Sealed
    events told of them."""
    path = make_bundle(built, tmp_path, middle=middle)
    files = files_of(path)
    for name, chain, first in (("intervals", "chain", "first_interval"), ("answers", "answers", "first_answer")):
        rows = files[f"{name}.jsonl"].splitlines(keepends=True)
        for rest in ([], rows[:-1]):
            manifest = json.loads(files["manifest.json"])
            last = json.loads(rest[-1])["digest"] if rest else "0" * 64
            ends = {"last_digest": last} if rest else {first: 1, "previous_digest": last, "last_digest": last}
            manifest[chain].update(ends)
            other = {f"{name}.jsonl": b"".join(rest), "manifest.json": line(manifest)}
            findings = check.check(forged(path, {**files, **other}))
            number = json.loads(rows[-1])["number"]
            last_row = f"interval {number}" if name == "intervals" else "the answer"
            assert any(last_row in one and "of which the feed told, is missing" in one for one in findings), findings


def test_a_forger_who_leaves_out_seals_is_found_or_the_reader_told(
    built: Proven, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Events after the last seal are closed over by none. Without the last seals an interval names one that is not
    there; without any it is said how many events the reader has to believe."""
    everything_finished()
    path = make_bundle(built, tmp_path)
    files = files_of(path)
    seals, events = ([json.loads(one) for one in files[f"{name}.jsonl"].splitlines()] for name in ("seals", "events"))
    assert check.main([str(path)]) == 0
    assert capsys.readouterr().out == "everything agrees\n"
    bare = json.loads(files["manifest.json"])
    bare["feed"] = {"first_seal": 1, "previous_digest": "0" * 64, "last_digest": "0" * 64}
    unsealed = forged(path, {**files, "seals.jsonl": b"", "manifest.json": line(bare)})
    check.main([str(unsealed)])
    assert f"No seal closes over {len(events)} of {len(events)} events: they are their writer's word." in (
        capsys.readouterr().out
    )
    assert len(seals) > 1
    twice = files["events.jsonl"] + files["events.jsonl"].splitlines(keepends=True)[-1]
    assert check.check(forged(path, {**files, "events.jsonl": twice})) == [
        f"event {events[-1]['id']} does not come after the one before it"
    ]


def test_a_forger_who_takes_what_would_be_compared_out_of_the_rows_is_found(built: Proven, tmp_path: Path) -> None:
    """An event that says no digest, an award that does not say what came back, a payment under an award that is in no
    file, and a price that was never set aside: each of them left the program nothing to compare with."""
    path = make_bundle(built, tmp_path)
    files = files_of(path)
    awards, events, book = (
        [json.loads(one) for one in files[f"{name}.jsonl"].splitlines()]
        for name in ("awards", "events", "transactions")
    )

    def flaws_of(name: str, rows: Rows, **others: bytes) -> list[str]:
        return check.check(forged(path, {**files, f"{name}.jsonl": b"".join(map(line, rows)), **others}))

    submitted = next(row for row in events if row["kind"] == "job_submitted" and '"digest"' in row["data"])
    data = json.dumps({name: value for name, value in json.loads(submitted["data"]).items() if name != "digest"})
    other_rows = [
        row for row in files["submissions.jsonl"].splitlines() if json.loads(row)["job"] != number_of(submitted)
    ]
    findings = flaws_of(
        "events",
        [submitted | {"data": data} if row is submitted else row for row in events],
        **{"submissions.jsonl": b"".join(row + b"\n" for row in other_rows)},
    )
    assert findings == [f"event {submitted['id']} (job_submitted) is not as its seal closed over it"]

    silent = [{name: value for name, value in row.items() if name != "adjusted"} for row in awards]
    assert f"award {awards[0]['id']} does not say what came back of it" in flaws_of("awards", silent)

    settled = next(row for row in book if row["kind"] == "settle" and built.pool.pk == int(row["key"].split(":")[1]))
    facts, closing = json.loads(settled["facts"]), json.loads(files["balances.json"])
    move(closing, settled)
    of_nobody = f"settle:{built.pool.pk}:{facts['slot']}:{awards[-1]['id'] + 99}"
    for other in ({}, {"award": awards[-1]["id"] + 99, "slot": facts["slot"]}):
        more = [*book]
        again(more, settled, key=of_nobody, facts=json.dumps(other))
        findings = flaws_of("transactions", more, **{"balances.json": line(closing)})
        assert findings == [f"transaction {of_nobody} is of an award that the bundle does not have"]

    keys, closing = {f"award:{row['id']}" for row in awards}, json.loads(files["balances.json"])
    held = next(row for row in book if row["key"] in keys)
    move(closing, held, -1)
    findings = flaws_of("transactions", [row for row in book if row is not held], **{"balances.json": line(closing)})
    number = json.loads(held["facts"])["award"]
    assert findings == [f"award {number} of job {number_of(held)}: what it pays was never set aside"]


def number_of(row: dict[str, Any]) -> int:
    return int(row["subject"].removeprefix("job:"))


def test_events_of_an_older_version_are_compared_with_their_seals_by_what_these_close_over(tmp_path: Path) -> None:
    pool, (owner,) = make_market("of-before", slug="before")
    job = make_waiting(pool, owner)
    run_slots(pool, 0, 1)
    tamper("UPDATE scheduling_event SET data = data - 'digest' WHERE kind = 'job_submitted'")
    seal_feed(at(pool, 1))
    path = make_bundle(SimpleNamespace(pool=pool), tmp_path)
    assert check.check(path) == []
    (submission,) = files_of(path)["submissions.jsonl"].splitlines()
    assert json.loads(submission)["job"] == job.pk

    def other(rows: Rows) -> None:
        row = next(row for row in rows if row["kind"] == "job_submitted")
        row["beside"] = another(row["beside"])

    findings = check.check(changed(path, "events.jsonl", other, in_manifest=True))
    assert any("(job_submitted) is not as its seal closed over it" in one for one in findings)
    assert any(f"job {job.pk} is not what was submitted" in one for one in findings)


def test_an_award_whose_money_came_back_before_it_began_comes_along(built: Proven, tmp_path: Path) -> None:
    """It was decided before the period, and would have run after it."""
    with scope_disabled("the refund of any tenant's award"):
        refund = next(row for row in Transaction.objects.filter(kind="refund").order_by("pk"))
        award = Award.objects.get(pk=refund.facts["award"])
    start, pool = refund.occurred_at, built.pool
    end = start + timedelta(seconds=1)
    assert award.awarded_at < start
    assert pool.slot_at(end) < award.start
    call_command("audit_bundle", pool=pool.slug, start=start, end=end, out=tmp_path / "b.zip", stdout=io.StringIO())
    rows = [json.loads(row) for row in files_of(tmp_path / "b.zip")["awards.jsonl"].splitlines()]
    assert award.pk in {row["id"] for row in rows}
    assert check.check(tmp_path / "b.zip") == []


def test_a_missing_and_an_added_file_are_refused(built: Proven, tmp_path: Path) -> None:
    bundle = make_bundle(built, tmp_path)
    files = files_of(bundle)
    for name in files:
        flaws = check.check(write_files(bundle, {entry: content for entry, content in files.items() if entry != name}))
        assert flaws, name
    assert "the files are not those of the list" in check.check(write_files(bundle, {**files, "more.txt": b"hello"}))
    manifest = json.loads(files["manifest.json"])
    manifest["files"]["more.txt"] = ""
    more = {**files, "manifest.json": line(manifest), "more.txt": b"hello"}
    assert "the list of files is not the list of a bundle" in check.check(forged(bundle, more))


def test_the_checker_needs_nothing_but_pythons_own_library() -> None:
    tree = ast.parse(Path(check.__file__).read_text(encoding="utf-8"))
    modules = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    modules |= {node.module or "." for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert modules == {"datetime", "fractions", "hashlib", "json", "math", "sys", "zipfile"}
    assert modules <= sys.stdlib_module_names


def first_slot(rows: Rows) -> list[Any]:
    return next(slot for row in rows for slot in row["charges"] if slot)


def more_paid(rows: Rows) -> None:
    next(row for row in rows if row["paid"])["paid"] += 1


def moved_to_another_owner(rows: Rows) -> None:
    first_slot(rows)[0][0] += 1


def later(rows: Rows) -> None:
    rows[0]["end"] += 1


def award_removed(rows: Rows) -> None:
    del rows[0]


def entry_changed(rows: Rows) -> None:
    rows[0]["entries"][0][1] += 1


def entry_moved(rows: Rows) -> None:
    rows[-1]["entries"][0][0] += 8


def fact_changed(rows: Rows) -> None:
    row = next(row for row in rows if '"slot"' in row["facts"])
    row["facts"] = row["facts"].replace('"slot": ', '"slot": 1')


def transaction_removed(rows: Rows) -> None:
    del rows[1]


def view_changed(rows: Rows) -> None:
    rows[-1]["view"] = rows[-1]["view"].replace('"slot":', '"slot":1')


def slot_of_interval_changed(rows: Rows) -> None:
    rows[0]["slot"] += 1


def interval_removed(rows: Rows) -> None:
    del rows[1]


def balance_changed(rows: Rows) -> None:
    account = next(iter(rows[0]["closing"]))
    rows[0]["closing"][account] += 1


def renamed(rows: Rows) -> None:
    rows[0]["submission"] = rows[0]["submission"].replace('"train"', '"other"')


def cheaper(rows: Rows) -> None:
    row = next(row for row in rows if row["award"])
    row["plan"] = row["plan"].replace('"cost":', '"cost":1')


def larger_pool(rows: Rows) -> None:
    rows[0]["content"] = rows[0]["content"].replace('"share_percent":100', '"share_percent":90')


def told_otherwise(rows: Rows) -> None:
    row = next(row for row in rows if '"train"' in row["data"])
    row["data"] = row["data"].replace('"train"', '"other"')


def first_removed(rows: Rows) -> None:
    del rows[0]


CHANGES = [
    ("answers.jsonl", cheaper, "its digest is another"),
    ("answers.jsonl", first_removed, "does not follow the answer before it"),
    ("frames.jsonl", larger_pool, "its digest is another"),
    ("frames.jsonl", first_removed, "the pool as it found it is missing"),
    ("seals.jsonl", first_removed, "does not follow the seal before it"),
    ("events.jsonl", told_otherwise, "is not as its seal closed over it"),
    ("submissions.jsonl", renamed, "is not what was submitted"),
    ("submissions.jsonl", first_removed, "was submitted, and is missing"),
    ("awards.jsonl", more_paid, "do not add up to what it pays"),
    ("awards.jsonl", moved_to_another_owner, "who earns what"),
    ("awards.jsonl", later, "its slots are not those"),
    ("awards.jsonl", award_removed, "is missing"),
    ("transactions.jsonl", entry_changed, "does not add up to zero"),
    ("transactions.jsonl", entry_moved, "its digest is another"),
    ("transactions.jsonl", fact_changed, "its digest is another"),
    ("transactions.jsonl", transaction_removed, "closes with"),
    ("intervals.jsonl", view_changed, "its digest is another"),
    ("intervals.jsonl", slot_of_interval_changed, "its digest is another"),
    ("intervals.jsonl", interval_removed, "does not follow"),
    ("balances.json", balance_changed, "closes with"),
]


def test_an_untouched_bundle_agrees_and_each_changed_number_is_refused(built: Proven, tmp_path: Path) -> None:
    bundle, key = make_bundle(built, tmp_path), public_key(signing_seed(at=timezone.now())).hex()
    assert check.check(bundle, key) == []
    assert check.check(bundle, "0" * 64) == ["the bundle is signed with another key than the one you gave"]
    for name, change, sentence in CHANGES:
        flaws = check.check(changed(bundle, name, change, in_manifest=False), key)
        assert f"{name} was changed" in flaws, change
        assert any(sentence in line for line in flaws), (change, flaws)
        forged = check.check(changed(bundle, name, change, in_manifest=True), key)
        assert "the signature does not belong to the list of files" in forged, change


def test_the_checker_runs_alone_and_says_by_its_status_whether_all_agrees(built: Proven, tmp_path: Path) -> None:
    bundle = make_bundle(built, tmp_path)
    with zipfile.ZipFile(bundle) as files:
        files.extract("check.py", tmp_path)
    other = changed(bundle, "awards.jsonl", more_paid, in_manifest=False)
    for path, status, sentence in ((bundle, 0, "everything agrees"), (other, 1, "do not agree")):
        ran = subprocess.run([sys.executable, "-I", tmp_path / "check.py", path], capture_output=True, text=True)
        assert (ran.returncode, sentence in ran.stdout) == (status, True), ran.stdout + ran.stderr


def test_a_file_that_is_no_bundle_is_refused(tmp_path: Path) -> None:
    (tmp_path / "b.zip").write_bytes(b"nonsense")
    assert check.check(tmp_path / "b.zip")[0].startswith("the bundle cannot be read")


@pytest.mark.parametrize("name", ["intervals.jsonl", "awards.jsonl", "events.jsonl", "balances.json"])
def test_a_file_that_one_changed_byte_makes_unreadable_has_its_name(built: Proven, tmp_path: Path, name: str) -> None:
    def no_json_any_more(contents: bytes) -> bytes:
        return contents.replace(b":", b";", 1)

    flaws = check.check(rewritten(make_bundle(built, tmp_path), name, no_json_any_more))
    assert flaws[0] == f"{name} was changed", flaws
    assert flaws[-1].startswith("the bundle cannot be read"), flaws


def test_a_signature_that_is_no_number_does_not_belong_to_the_list(built: Proven, tmp_path: Path) -> None:
    def no_number_any_more(contents: bytes) -> bytes:
        return contents.replace(b'"signature":"', b'"signature":"x', 1)

    flaws = check.check(rewritten(make_bundle(built, tmp_path), "signature.json", no_number_any_more))
    assert flaws == ["the signature does not belong to the list of files"]


def rewritten(bundle: Path, name: str, change: Callable[[bytes], bytes]) -> Path:
    """The bundle with other bytes in one file, and the list of files as it was."""
    with zipfile.ZipFile(bundle) as old:
        files = {entry: old.read(entry) for entry in old.namelist()}
    return write_files(bundle, files | {name: change(files[name])})


def cut(world: HasPool, path: Path, start: int, end: int, name: str) -> Path:
    pool, out = world.pool, path / name
    call_command(
        "audit_bundle", pool=pool.slug, start=at(pool, start), end=at(pool, end), out=out, stdout=io.StringIO()
    )
    return out


def test_bundles_of_periods_that_follow_each_other_begin_where_the_one_before_ends(
    built: Proven, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where nothing happened in one of them. What lies before a bundle is its writer's word, as long as it is
    alone."""
    path = tmp_path
    everything_finished()
    early, middle, late, empty = (
        cut(built, path, *period, name)
        for *period, name in ((-9, 5, "early"), (5, 12, "middle"), (12, 300, "late"), (300, 400, "empty"))
    )
    never = cut(built, path, 400, 500, "never")

    def lines_of(*bundles: Path) -> list[str]:
        status = check.main([*map(str, bundles)])
        *lines, verdict = capsys.readouterr().out.splitlines()
        assert (status == 0) == (verdict == "everything agrees") == (lines == [])
        return lines

    assert lines_of(early, middle, late, empty, never) == []
    assert lines_of(middle, late) == []
    begins = "it does not begin when the one before it ends"
    opens = "it opens with other balances than the one before it closes with"
    goes_on = "it does not go on where the one before it ends, in the chain of"
    gap = [begins, opens, *(f"{goes_on} {name}" for name in ("intervals", "answers"))]
    assert lines_of(early, late)[:4] == [f"{late}: {line}" for line in gap]
    assert lines_of(middle, early)[:2] == [f"{early}: {line}" for line in gap[:2]]
    other = SimpleNamespace(pool=built.elastic)
    elastic = cut(other, path, 5, 12, "elastic")
    assert f"{elastic}: it is of another pool than the one before it" in lines_of(early, elastic)

    files = files_of(middle)
    manifest, balances = json.loads(files["manifest.json"]), json.loads(files["balances.json"])
    first, second = list(manifest["opening"])[:2]
    for amounts in (manifest["opening"], balances["closing"]):
        amounts[first], amounts[second] = amounts.get(first, 0) + 5, amounts.get(second, 0) - 5
    moved = forged(middle, {**files, "manifest.json": line(manifest), "balances.json": line(balances)})
    assert lines_of(moved) == []
    assert lines_of(early, moved) == [f"{moved}: {opens}"]


def everything_finished() -> None:
    """The market's clocks are past every period of the tests."""
    LaneClock.objects.update(settled_slot=1_000)


def test_a_bundle_of_a_period_that_is_not_over_says_so(
    built: Proven, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What comes until its end, or is made up for by a late clock, is in no bundle unless it is written once more."""
    settled = LaneClock.objects.get(pool=built.pool, lane="batch").settled_slot
    over, not_yet = (cut(built, tmp_path, -9, settled + more, name) for more, name in ((1, "over"), (2, "not-yet")))
    following = cut(built, tmp_path, settled + 2, settled + 3, "following")
    assert "open" not in json.loads(files_of(over)["manifest.json"])
    assert check.main([str(over)]) == 0
    assert capsys.readouterr().out == "everything agrees\n"
    note = "The market had not finished the period: what came later is in no bundle yet."
    assert check.main([str(not_yet)]) == 0
    assert capsys.readouterr().out == f"{note}\neverything agrees\n"
    assert check.main([str(not_yet), str(following)]) == 1
    assert f"{following}: it follows one that was written before the market had finished its period" in (
        capsys.readouterr().out
    )
    output = io.StringIO()
    period = {"start": at(built.pool, 0), "end": at(built.pool, settled + 2)}
    call_command("audit_bundle", pool=built.pool.slug, **period, out=tmp_path / "c.zip", stdout=output)
    assert output.getvalue().endswith("write the bundle again once it has, for the next one to follow it.\n")


@pytest.mark.parametrize("words", [["--help"], ["--key"], ["b.zip", "--key"], [], ["b.zip", "--key", ""]])
def test_the_checker_says_how_it_is_called(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert check.main(words) == 2
    assert "python3 check.py BUNDLE.zip ... [--key HEX]" in capsys.readouterr().out


def test_the_checker_names_what_it_cannot_open(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check.main([str(tmp_path / "none.zip")]) == 1
    output = capsys.readouterr().out
    assert output == "the bundle cannot be read: No such file or directory\n1 thing does not agree\n"


def test_the_checker_knows_signatures_without_the_library_that_makes_them() -> None:
    """Of seeds of our own, and test 2 of RFC 8032, 7.1."""
    for number in range(4):
        seed, message = bytes([number] * 32), b"m" * number
        signature = sign(seed, message)
        assert check.signature_holds(public_key(seed), message, signature)
        assert not check.signature_holds(public_key(seed), message + b"!", signature)
        assert not check.signature_holds(public_key(bytes([9] * 32)), message, signature)
    seed = bytes.fromhex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb")
    assert public_key(seed).hex() == "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"
    answer = (
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
        "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
    )
    assert sign(seed, b"\x72").hex() == answer


def test_the_command_refuses_what_makes_no_bundle(built: Proven, tmp_path: Path) -> None:
    pool = built.pool
    usual = {"pool": pool.slug, "start": at(pool, 0), "end": at(pool, 9), "out": tmp_path / "b.zip"}
    for options in ({"pool": "nowhere"}, {"end": at(pool, -1)}):
        with pytest.raises(CommandError):
            call_command("audit_bundle", **(usual | options))
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").touch()
    with pytest.raises(CommandError, match=r"file/b\.zip: Not a directory"):
        call_command("audit_bundle", **(usual | {"out": tmp_path / "file" / "b.zip"}))
