"""Checks audit bundles: python3 check.py BUNDLE.zip ... [--key HEX]

Plain Python 3.9 or later, nothing to install, no connection to the market. It recomputes
  the signature over the list of files, and the digest of each file;
  the digest of every interval, and that each names the one before it;
  the same of every answer of the instant lane, with the pool as it found it, and of every seal of the feed;
  every event against the seal that closed over it, and every submission against the event that told of it;
  that every interval, answer and award of which an event told is there;
  what every award pays and who earns it in each slot, from the plan of its interval or the answer that gave it;
  the digest of every transaction, that its lines add up to zero, and that it is what its award asks for;
  what came back of open rents, from the plan of the interval that settled them;
  that what events told of as paid is in the book, and that nothing stays set aside for slots that are over;
  every account's closing balance from its opening balance and the lines in between.
Of several bundles, in the order of their periods, each is to begin where the one before it ends: with its balances, and
in every chain. Of one alone, what lies before it is its writer's word.
It ends with status 0 if everything agrees, and 1 with one line for each thing that does not.
Give --key with the public key noted when the market was set up: otherwise the signature proves only that the bundle is
as its writer left it, whoever that was.
"""

# mypy: allow-untyped-defs, allow-untyped-calls, disable-error-code="var-annotated"

import hashlib
import json
import math
import sys
import zipfile
from datetime import datetime, timedelta, timezone
from fractions import Fraction

PRIME = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, PRIME - 2, PRIME) % PRIME
ROOT = pow(2, (PRIME - 1) // 4, PRIME)
FORMAT = "bourse-audit/5"
# Read too: /4 lacks what seals close over beside an event of an older version, and some awards whose money came back;
# /3 also lacks supplies (the payouts of each booking stand in it), and may lack what came back of an award.
READ_TOO = ("bourse-audit/4", "bourse-audit/3")
DIGITS_UNSAID = 6  # of a credit, where the list of files states none: as it was before any did
ROWS = ("intervals", "frames", "answers", "awards", "seals", "events", "submissions", "transactions")
FILES = ("README.txt", *(f"{name}.jsonl" for name in ROWS), "balances.json")
MEMBER = 40  # bytes in a seal for each event: 8 of its number, 32 of its digest


# ---- the signature: Ed25519 (RFC 8032). A point is (X, Y, Z, T) with x = X/Z, y = Y/Z, xy = T/Z.


def point_add(p, q):
    a, b = (p[1] - p[0]) * (q[1] - q[0]) % PRIME, (p[1] + p[0]) * (q[1] + q[0]) % PRIME
    c, d = 2 * p[3] * q[3] * D % PRIME, 2 * p[2] * q[2] % PRIME
    e, f, g, h = b - a, d - c, d + c, b + a
    return (e * f % PRIME, g * h % PRIME, f * g % PRIME, e * h % PRIME)


def point_times(number, p):
    total = (0, 1, 1, 0)
    while number:
        if number & 1:
            total = point_add(total, p)
        p, number = point_add(p, p), number >> 1
    return total


def point_read(raw):
    """Return the point, or None if these 32 bytes are no point."""
    y, odd = int.from_bytes(raw, "little") & (2**255 - 1), raw[31] >> 7
    if len(raw) != 32 or y >= PRIME:
        return None
    square = (y * y - 1) * pow(D * y * y + 1, PRIME - 2, PRIME) % PRIME
    x = pow(square, (PRIME + 3) // 8, PRIME)
    if (x * x - square) % PRIME:
        x = x * ROOT % PRIME
    if (x * x - square) % PRIME or (x == 0 and odd):
        return None
    x = PRIME - x if x % 2 != odd else x
    return (x, y, 1, x * y % PRIME)


def point_bytes(p):
    inverse = pow(p[2], PRIME - 2, PRIME)
    x, y = p[0] * inverse % PRIME, p[1] * inverse % PRIME
    return (y | (x & 1) << 255).to_bytes(32, "little")


def number_of(*parts):
    return int.from_bytes(hashlib.sha512(b"".join(parts)).digest(), "little") % ORDER


BASE = point_read((4 * pow(5, PRIME - 2, PRIME) % PRIME).to_bytes(32, "little"))


def signature_holds(public, message, signature):
    if len(public) != 32 or len(signature) != 64:
        return False
    key, commitment, s = point_read(public), point_read(signature[:32]), int.from_bytes(signature[32:], "little")
    if key is None or commitment is None or s >= ORDER:
        return False
    right = point_add(commitment, point_times(number_of(signature[:32], public, message), key))
    return point_bytes(point_times(s, BASE)) == point_bytes(right)


# ---- the files


def check(path, known_key=""):
    """What is wrong with the bundle, one sentence each. What was found before it could not be read any further stands
    first: a file that was changed has its name there."""
    findings = []
    try:
        with zipfile.ZipFile(path) as bundle:
            manifest, signed = bundle.read("manifest.json"), json.loads(bundle.read("signature.json"))
            contents = {name: bundle.read(name) for name in (*FILES, "check.py")}
            findings += check_manifest(manifest, signed, contents, bundle.namelist(), known_key)
        rows = {name: [json.loads(line) for line in contents[name].splitlines()] for name in FILES if name[-1] == "l"}
        stated, closing = json.loads(manifest), json.loads(contents["balances.json"])["closing"]
        plans, awards = {}, {row["id"]: row for row in rows["awards.jsonl"]}
        findings += check_intervals(stated["chain"], rows["intervals.jsonl"], plans)
        findings += check_answers(stated["answers"], rows["answers.jsonl"], rows["frames.jsonl"], plans)
        digits = stated.get("digits", DIGITS_UNSAID)
        is_whole = stated.get("format") == FORMAT
        findings += check_rows_of_awards(rows["awards.jsonl"], stated.get("format"))
        findings += check_awards(awards, plans, digits)
        findings += check_events(stated["feed"], rows["seals.jsonl"], rows["events.jsonl"], is_whole)
        findings += check_submissions(rows["submissions.jsonl"], rows["events.jsonl"])
        findings += check_heads(rows)
        findings += check_end_of_seals(rows)
        findings += check_decisions(rows, awards)
        findings += check_transactions(rows["transactions.jsonl"], awards, stated["chain"]["pool"], is_whole)
        findings += check_holds(rows, awards, stated["period"], is_whole)
        findings += check_payments(rows, stated["chain"]["pool"])
        findings += check_rests(rows, awards)
        findings += check_refunds(rows["intervals.jsonl"], rows["transactions.jsonl"], awards, digits)
        findings += check_period(rows, stated["period"])
        return findings + list(check_balances(rows["transactions.jsonl"], stated["opening"], closing))
    except OSError as error:
        return [f"the bundle cannot be read: {error.strerror}"]
    except Exception as error:  # whatever is wrong with it, it is not a bundle that can be trusted
        return [*findings, f"the bundle cannot be read: {type(error).__name__}: {error}"]


def check_manifest(manifest, signed, contents, names, known_key):
    stated = json.loads(manifest)
    files = stated.get("files", {})
    if stated.get("format") not in (FORMAT, *READ_TOO):
        yield f"this program checks bundles of the form {FORMAT}"
    public, signature = bytes_of(signed["public_key"]), bytes_of(signed["signature"])
    if known_key and signed["public_key"] != known_key.lower():
        yield "the bundle is signed with another key than the one you gave"
    if not signature_holds(public, manifest, signature):
        yield "the signature does not belong to the list of files"
    if set(files) != {*FILES, "check.py"}:
        yield "the list of files is not the list of a bundle"
    if sorted(names) != sorted([*files, "manifest.json", "signature.json"]):
        yield "the files are not those of the list"
    for name, content in contents.items():
        if files.get(name) != hashlib.sha256(content).hexdigest():
            yield f"{name} was changed"


def bytes_of(digits):
    """Return the bytes of hexadecimal digits, or none at all if some are no such digits: that signs nothing."""
    try:
        return bytes.fromhex(digits)
    except ValueError:
        return b""


def check_intervals(chain, intervals, plans):
    before = {"number": chain["first_interval"] - 1, "digest": chain["previous_digest"]}
    for row in intervals:
        name = f"interval {row['number']}"
        if row["pool"] != chain["pool"]:
            yield f"{name} is of another pool"
        if (row["number"], row["previous"]) != (before["number"] + 1, before["digest"]):
            yield f"{name} does not follow the interval before it"
        where = {key: row[key] for key in ("pool", "number", "slot", "decided_at", "code_version")}
        parts = [row[key] for key in PARTS] + ([row["heads"]] if row["heads"] else [])
        if link(row["previous"], where, parts) != row["digest"]:
            yield f"{name} was changed: its digest is another"
        view, plan = json.loads(row["view"]), json.loads(row["plan"])
        owners = [int(tenant["name"]) for tenant in view["cluster"]["tenants"]] + [0]
        tenants = {job["number"]: owners[job["tenant"]] for job in view["jobs"]}
        supplies = [contributions_of(supply, len(owners)) for supply in plan.get("supplies", [])]
        # A job that goes on in pieces may have two: one that is rented, and its place at home that follows.
        bookings = {
            (booking["job"], booking["start"]): {**booking, "tenant": tenants[booking["job"]], "supplies": supplies}
            for booking in plan["bookings"]
        }
        plans["interval", row["number"]] = (owners, bookings)
        before = row
    if before["digest"] != chain["last_digest"]:
        yield "the last interval is not the one that the bundle ends with"


PARTS = ("policy", "view", "plan", "windows")


def link(previous, where, parts):
    """The digest of a row in a chain: over the one before it, where it stands, and its texts with their lengths."""
    digest = hashlib.sha256(previous.encode())
    for part in (json.dumps(where, sort_keys=True, separators=(",", ":")), *parts):
        raw = part if isinstance(part, bytes) else part.encode()
        digest.update(len(raw).to_bytes(8, "big") + raw)
    return digest.hexdigest()


def check_answers(chain, answers, frames, plans):
    pools = {row["digest"]: row["content"] for row in frames}
    for digest, content in pools.items():
        if hashlib.sha256(content.encode()).hexdigest() != digest:
            yield f"frame {digest[:12]} was changed: its digest is another"
    before = {"number": chain["first_answer"] - 1, "digest": chain["previous_digest"]}
    for row in answers:
        name = f"answer {row['number']}"
        if (row["number"], row["previous"], row["pool"]) != (before["number"] + 1, before["digest"], chain["pool"]):
            yield f"{name} does not follow the answer before it"
        where = {key: row[key] for key in ("pool", "job", "award", "at", "code_version", "frame", "resold", "interval")}
        if link(row["previous"], where, [row["input"], row["plan"]]) != row["digest"]:
            yield f"{name} was changed: its digest is another"
        if row["frame"] not in pools:
            yield f"{name}: the pool as it found it is missing"
            continue
        cluster, plan = json.loads(pools[row["frame"]])["cluster"], json.loads(row["plan"])
        submission = json.loads(row["input"])["submission"]
        if submission["job"] != row["job"]:
            yield f"{name} is about another job than its submission"
        owners = [int(tenant["name"]) for tenant in cluster["tenants"]] + [0]
        booked = [] if plan["refusals"] else plan["bookings"]  # one that could not be paid was taken back
        bookings = {
            (booking["job"], booking["start"]): {**booking, "tenant": submission["tenant"]} for booking in booked
        }
        plans["answer", row["number"]] = (owners, bookings)
        before = row
    if before["digest"] != chain["last_digest"]:
        yield "the last answer is not the one that the bundle ends with"


def check_rows_of_awards(awards, form):
    numbers = set()
    for row in awards:
        if row["id"] in numbers:
            yield f"award {row['id']} is there twice"
        if "adjusted" not in row and form != READ_TOO[-1]:
            yield f"award {row['id']} does not say what came back of it"
        numbers.add(row["id"])


def check_awards(awards, plans, digits):
    served = {}
    for number, award in awards.items():
        name = f"award {number} of job {award['job']}"
        if sum(amount for slot in award["charges"] for _, amount in slot) != award["paid"]:
            yield f"{name}: its charges do not add up to what it pays"
        kind = "answer" if award["interval"] is None else "interval"
        if (kind, award[kind]) not in plans:
            continue
        owners, bookings = plans[kind, award[kind]]
        places = served.setdefault((kind, award[kind]), set())
        if (award["job"], award["start"]) in places:
            yield f"{name}: its {kind} gave the job another one for these slots"
        places.add((award["job"], award["start"]))
        booking = bookings.get((award["job"], award["start"]))
        if booking is None and award["job"] not in {job for job, _ in bookings}:
            yield f"{name}: its {kind} gives the job nothing"
        elif booking is None or award["end"] != booking["end"]:
            yield f"{name}: its slots are not those of its {kind}"
        elif award["tenant"] != booking["tenant"]:
            yield f"{name}: its tenant is not that of its {kind}"
        elif award["charges"] != charges_of(booking, owners, digits):
            yield f"{name}: who earns what is not what its {kind} decided"
    for (kind, number), (_, bookings) in plans.items():
        for job, _ in sorted(set(bookings) - served.get((kind, number), set())):
            yield f"{kind} {number}: the award of job {job} is missing"


def check_events(stated, seals, events, is_whole):
    """Each event of the pool against the seal that closed over it. Of other pools' events a seal has digests alone, and
    those after the last seal are not closed over yet."""
    before, sealed = {"number": stated["first_seal"] - 1, "digest": stated["previous_digest"]}, {}
    for row in seals:
        name, members = f"seal {row['number']} of the feed", bytes.fromhex(row["members"])
        if (row["number"], row["previous"]) != (before["number"] + 1, before["digest"]):
            yield f"{name} does not follow the seal before it"
        where = {key: row[key] for key in ("number", "last_event", "sealed_at")}
        if link(row["previous"], where, [members]) != row["digest"]:
            yield f"{name} was changed: its digest is another"
        pieces = [members[begin : begin + MEMBER] for begin in range(0, len(members), MEMBER)]
        sealed.update((int.from_bytes(piece[:8], "big"), piece[8:]) for piece in pieces)
        before = row
    if before["digest"] != stated["last_digest"]:
        yield "the last seal is not the one that the bundle ends with"
    last = None
    for row in events:
        if last is not None and row["id"] <= last:
            yield f"event {row['id']} does not come after the one before it"
        last = row["id"]
        columns = [row[key] for key in ("id", "pool", "tenant", "kind", "subject", "at")]
        text = "\n".join(
            [json.dumps(columns, separators=(",", ":")), row["data"], *([row["beside"]] if "beside" in row else [])]
        )
        inside = row["id"] <= max(sealed, default=0) and (is_whole or not is_of_older_version(row))
        if inside and sealed.get(row["id"]) != hashlib.sha256(text.encode()).digest():
            yield f"event {row['id']} ({row['kind']}) is not as its seal closed over it"


def is_of_older_version(row):
    """Return whether an older version wrote this event: its seal also closes over a row, which bundles of before do
    not have."""
    data = json.loads(row["data"])
    if row["kind"] == "job_awarded":
        return data.get("lane") == "instant" and "answer" not in data
    return row["kind"] == "job_submitted" and "digest" not in data


def check_submissions(submissions, events):
    """An event of an older version has no digest of what was submitted; its seal closes over the digest beside it."""
    submitted = [row for row in events if row["kind"] == "job_submitted"]
    digests = {row["subject"]: json.loads(row["data"]).get("digest", row.get("beside")) for row in submitted}
    digests = {subject: digest for subject, digest in digests.items() if digest is not None}
    for row in submissions:
        if digests.pop(f"job:{row['job']}", None) != hashlib.sha256(row["submission"].encode()).hexdigest():
            yield f"job {row['job']} is not what was submitted"
    for subject in sorted(digests):
        yield f"{subject} was submitted, and is missing"


def check_heads(rows):
    """What intervals name as the ends of the other chains is there, as far as the bundle reaches."""
    digests = {("answers", row["number"]): row["digest"] for row in rows["answers.jsonl"]}
    digests.update((("feed", row["number"]), row["digest"]) for row in rows["seals.jsonl"])
    for row in rows["intervals.jsonl"]:
        for chain, (number, digest) in (json.loads(row["heads"]) if row["heads"] else {}).items():
            if digests.get((chain, number), digest) != digest:
                yield f"interval {row['number']} saw another {chain} {number}"


def check_end_of_seals(rows):
    """Where events come after the last seal, no interval of the bundle saw a later one: it would close over them."""
    last_seal, unsealed = max((row["number"] for row in rows["seals.jsonl"]), default=None), events_unsealed(rows)
    for row in rows["intervals.jsonl"]:
        number = json.loads(row["heads"])["feed"][0] if row["heads"] else 0
        if unsealed and last_seal is not None and number > last_seal:
            yield f"interval {row['number']} saw seal {number} of the feed, and the bundle ends with seal {last_seal}"


def events_unsealed(rows):
    """How many events come after the last seal, so that none closes over them."""
    last = max((row["last_event"] for row in rows["seals.jsonl"]), default=0)
    return sum(row["id"] > last for row in rows["events.jsonl"])


def check_decisions(rows, awards):
    """Each interval, answer and award of which an event of the period tells is there."""
    # An older version may not have written a name: then nothing is told of it.
    intervals = {None, *(row["number"] for row in rows["intervals.jsonl"])}
    answers, numbers = {None, *(row["digest"] for row in rows["answers.jsonl"])}, {None, *awards}
    for row in rows["events.jsonl"]:
        data = json.loads(row["data"])
        if row["kind"] == "interval_closed" and data.get("number") not in intervals:
            yield f"interval {data['number']}, of which the feed told, is missing"
        if row["kind"] == "job_awarded" and data.get("answer") not in answers:
            yield f"the answer to {row['subject']}, of which the feed told, is missing"
        if row["kind"] == "job_awarded" and data.get("award") not in numbers:
            yield f"award {data.get('award')} of {row['subject']}, of which the feed told, is missing"


def charges_of(booking, owners, digits):
    """Per slot [owner, amount]: the payment is split among owners by their payouts, each part among slots. Amounts are
    whole numbers of the last of so many digits of a credit."""
    paid = rounded(booking["paid"], digits)
    rows = payouts_of(booking, len(owners))
    if not paid or not rows:
        return []
    totals = [0.0] * len(owners)
    for row in rows:
        totals = [total + max(amount, 0.0) for total, amount in zip(totals, row)]  # noqa: B905  not in Python 3.9
    parts = [split(part, [row[place] for row in rows]) for place, part in enumerate(split(paid, totals))]
    places = range(len(owners))
    return [[[owners[p], parts[p][slot]] for p in places if parts[p][slot]] for slot in range(len(rows))]


def rounded(amount, digits):
    """Credits in whole numbers of their last digit, half up."""
    return math.floor(Fraction(repr(amount)) * 10**digits + Fraction(1, 2))


def contributions_of(supply, width):
    """The first slot, and of each resource in each slot the owners' parts of one: by what they sell of it."""
    units = array_of(supply["units"], supply["units"]["shape"][2])  # a row for each resource and owner in it
    contributions = []
    for begin in range(0, len(units), width):
        columns = [(column, sum(column)) for column in zip(*units[begin : begin + width])]  # noqa: B905
        contributions.append([[one / total if total > 0 else 0.0 for one in column] for column, total in columns])
    return supply["start"], contributions


def payouts_of(booking, width):
    """Credits per slot and owner. They stand in the booking, or follow from a supply: in each slot, what is paid for a
    resource goes to the owners by their parts of it. The part of a payer whose own part is not charged is 0."""
    stored = booking["slot_payouts"]
    if not stored or "runs" in stored:
        return array_of(stored, width)
    start, contributions = booking["supplies"][stored["supply"]]
    rows = [[0.0] * width for _ in range(booking["start"], booking["end"])]
    for costs, by_slot in zip(array_of(stored["costs"], len(rows)), contributions):  # noqa: B905  not in Python 3.9
        for place, cost in enumerate(costs):
            parts = by_slot[booking["start"] - start + place]
            rows[place] = [amount + cost * part for amount, part in zip(rows[place], parts)]  # noqa: B905
    for row in rows:
        if stored["payer"] is not None:
            row[stored["payer"]] = 0.0
    return rows


def array_of(stored, width):
    flat = [value for length, value in stored["runs"] for _ in range(length)] if stored else []
    return [flat[begin : begin + width] for begin in range(0, len(flat), width)]


def split(amount, weights):
    """Whole parts by largest remainder; among equal remainders the first."""
    exact = [Fraction(max(weight, 0.0)) for weight in weights]
    if not amount:
        return [0] * len(weights)
    shares = [amount * weight / sum(exact) for weight in exact]
    parts = [math.floor(share) for share in shares]
    order = sorted(range(len(parts)), key=lambda place: parts[place] - shares[place])
    for place in order[: amount - sum(parts)]:
        parts[place] += 1
    return parts


def check_transactions(transactions, awards, pool, is_whole):
    keys, entries = set(), {row["id"]: row["entries"] for row in transactions}
    for row in transactions:
        name = f"transaction {row['key']}"
        if row["key"] in keys:
            yield f"{name} is there twice"
        keys.add(row["key"])
        lines = ", ".join(f"[{account}, {amount}]" for account, amount in row["entries"])
        corrects = "null" if row["corrects"] is None else row["corrects"]
        text = (
            f'["{row["key"]}", "{row["kind"]}", "{row["subject"]}", {row["at"]}, {corrects}, {row["facts"]}, [{lines}]]'
        )
        if hashlib.sha256(text.encode()).hexdigest() != row["digest"]:
            yield f"{name} was changed: its digest is another"
        if sum(amount for _, amount in row["entries"]):
            yield f"{name} does not add up to zero"
        payers, payees = ([account for account, amount in row["entries"] if sign * amount > 0] for sign in (-1, 1))
        moves = [(payer, payee) for payer in payers for payee in payees if not may_move(payer, payee)]
        # What is undone goes back as it came.
        if moves and entries.get(row["corrects"]) != [[account, -amount] for account, amount in row["entries"]]:
            yield "{} moves money from account {} to account {}, as the market never does".format(name, *moves[0])
        award = awards.get(json.loads(row["facts"]).get("award"))
        if award is None and is_whole and row["key"].startswith(f"settle:{pool}:"):
            yield f"{name} is of an award that the bundle does not have"
        right = entries_of(row, award, pool) if award else None
        if right is not None and right != dict(map(tuple, row["entries"])):
            yield f"{name} is not what award {award['id']} owes"


def may_move(payer, payee):
    """Money comes from outside (account 2) to what a tenant may spend, and the operator's (1) goes outside. Of a
    tenant's accounts (8 * id and the two after it), what is available is set aside or leaves; what is set aside comes
    back, or pays owners and the operator; what was earned becomes available or leaves."""
    if payer < 8:
        return payee == 2 if payer == 1 else payee >= 8 and payee % 8 == 0
    if payer % 8 == 0:
        return payee in (payer + 1, 2)
    if payer % 8 == 1:
        return payee in (payer - 1, 1) or (payee >= 8 and payee % 8 == 2)
    return payee in (payer - 2, 2)


def check_holds(rows, awards, period, is_whole):
    """The price of each award that was decided in the period is set aside at the moment of its decision, and no other
    one in the period. The answer of an award of an older version may have no record: an event tells of the award."""
    keys = {row["key"] for row in rows["transactions.jsonl"]}
    start, end = (datetime.fromisoformat(period[name]) for name in ("start", "end"))
    answers = {("answer", row["number"]): datetime.fromisoformat(row["at"]) for row in rows["answers.jsonl"]}
    present = {("interval", row["number"]) for row in rows["intervals.jsonl"]} | answers.keys()
    # Of two answers at once the later one may come first in the chain, so that one from outside the period is there.
    decided = present - {answer for answer, at in answers.items() if not start <= at < end}
    awarded = [json.loads(row["data"]) for row in rows["events.jsonl"] if row["kind"] == "job_awarded"]
    without_answer = {row.get("award") for row in awarded if row.get("lane") == "instant" and "answer" not in row}
    for number, award in awards.items():
        by = ("answer", award["answer"]) if award["interval"] is None else ("interval", award["interval"])
        name, is_held = f"award {number} of job {award['job']}", f"award:{number}" in keys
        if award["paid"] and by in decided and not is_held:
            yield f"{name}: what it pays was never set aside"
        if is_whole and is_held and by not in present and number not in without_answer:
            yield f"{name}: its price was set aside in the period, and nothing in the bundle decided it"


def check_payments(rows, pool):
    """At each moment of which an event says what was paid, the book has no less: that no payment is too much is checked
    with its award. One that was forgotten and paid later has no event."""
    paid, sums = {}, {}
    for row in rows["transactions.jsonl"]:
        if row["key"].startswith(f"settle:{pool}:"):
            amount = sum(amount for _, amount in row["entries"] if amount > 0)
            paid[row["at"]] = paid.get(row["at"], 0) + amount
    for row in rows["events.jsonl"]:
        if row["kind"] in PAYING:
            amount = json.loads(row["data"]).get(PAYING[row["kind"]], 0)
            sums[row["at"]] = sums.get(row["at"], 0) + amount
    for at in sorted(sums):
        if paid.get(at, 0) < sums[at]:
            moment = (BEGIN + timedelta(microseconds=at)).isoformat()
            yield f"at {moment} the feed told of payments of {sums[at]}, and the book has {paid.get(at, 0)}"


PAYING = {"slot_settled": "paid", "interval_closed": "arrears", "market_stopped": "arrears"}  # kind -> the sum in it


def check_rests(rows, awards):
    """What is still set aside for an award that was decided in the period is no more than its slots to come cost, from
    the last interval's on, and than the book says of it after the period, which the next bundle has: a rent that is
    settled later, and what came back later because the market's clock was behind."""
    if not rows["intervals.jsonl"]:
        return
    first_to_come, rests, keys = rows["intervals.jsonl"][-1]["slot"], {}, set()
    for row in rows["transactions.jsonl"]:
        keys.add(row["key"])
        award = awards.get(json.loads(row["facts"]).get("award"))
        if award:
            amount = sum(amount for account, amount in row["entries"] if account == award["tenant"] * 8 + 1)
            rests[award["id"]] = rests.get(award["id"], 0) + amount
    for number, rest in sorted(rests.items()):
        award = awards[number]
        if f"award:{number}" not in keys or "later" not in award:  # an older version did not write it
            continue
        slots = enumerate(reduced(award["charges"], award.get("adjusted", 0)), award["start"])
        owed = sum(amount for slot, parts in slots if slot >= first_to_come for _, amount in parts)
        if rest < 0:
            yield f"award {number} of job {award['job']}: {-rest} more was paid or came back than was set aside"
        if rest > owed + award["later"]:
            rest -= award["later"]
            yield f"award {number} of job {award['job']}: {rest} is still set aside, and its slots to come cost {owed}"


def entries_of(row, award, pool):
    """Account -> amount that the award asks for, and nothing where it asks for no such hold or settlement; None for a
    kind of transaction that the award does not fix."""
    held = award["tenant"] * 8 + 1
    if row["key"] == f"award:{award['id']}":
        return {held - 1: -award["paid"], held: award["paid"]}
    if row["kind"] == "hold":
        return {}
    if row["key"] == f"refund:{award['id']}:alone" and "adjusted" in award:
        return {held - 1: award["adjusted"], held: -award["adjusted"]}
    if row["kind"] != "settle":
        return None
    slot, entries = json.loads(row["facts"]).get("slot"), {}
    charges = dict(enumerate(reduced(award["charges"], award.get("adjusted", 0)), award["start"]))
    if row["key"] != f"settle:{pool}:{slot}:{award['id']}":
        return {}
    for owner, amount in charges.get(slot, ()):
        account = owner * 8 + 2 if owner else 1
        entries[account] = entries.get(account, 0) + amount
        entries[held] = entries.get(held, 0) - amount
    return {account: amount for account, amount in entries.items() if amount}


def reduced(charges, amount):
    """Charges less what came back at the settlement of an open rent: from each owner by what it would have got in all,
    and from each slot by what it would have got in that."""
    if not amount:
        return charges
    owners = list(dict.fromkeys(owner for slot in charges for owner, _ in slot))
    parts = {owner: [part for slot in charges for who, part in slot if who == owner] for owner in owners}
    less = {}
    for owner, share in zip(owners, split(amount, [sum(parts[owner]) for owner in owners])):  # noqa: B905  as above
        less[owner] = iter(split(share, parts[owner]))
    return [[[owner, part - next(less[owner])] for owner, part in slot] for slot in charges]


def check_refunds(intervals, transactions, awards, digits):
    """What came back at the settlements of open rents against what their intervals decided, by job."""
    decided, refunded = {}, {}
    if not all("adjusted" in award for award in awards.values()):
        return  # a bundle of an older version does not say it
    for row in intervals:
        for settled in json.loads(row["plan"]).get("settlements", []):
            decided[row["number"], settled["job"]] = rounded(settled["refund"], digits)
    for row in transactions:
        facts = json.loads(row["facts"])
        award = awards.get(facts.get("award"))
        if award and row["key"] == f"refund:{award['id']}:alone":
            refunded.setdefault((facts.get("interval"), award["job"]), []).append(award)
    inside = {row["number"] for row in intervals}
    for number, job in sorted(key for key in decided.keys() | refunded.keys() if key[0] in inside):
        rents, right = refunded.get((number, job), []), decided.get((number, job), 0)
        back = sum(award["adjusted"] for award in rents)
        whole = rents and all(award["adjusted"] == award["paid"] for award in rents)  # never more than was paid
        if back != right and not (whole and back < right):
            yield f"interval {number}: {back} came back of the rents of job {job}, and {right} was decided"


def check_period(rows, period):
    start, end = (datetime.fromisoformat(period[name]) for name in ("start", "end"))
    if not start < end:
        yield "the period ends before it begins"
    for row in rows["intervals.jsonl"]:
        if not start <= datetime.fromisoformat(row["decided_at"]) < end:
            yield f"interval {row['number']} was not decided in the period"
    for row in rows["events.jsonl"]:
        if not start <= BEGIN + timedelta(microseconds=row["at"]) < end:
            yield f"event {row['id']} is not of the period"
    for row in rows["transactions.jsonl"]:
        if not start <= BEGIN + timedelta(microseconds=row["at"]) < end:
            yield f"transaction {row['key']} is not about the period"


def check_follows(before, after, ends):
    """Whether a bundle begins where the one before it ends. `ends` has, by chain, the number and digest of each row of
    the last bundle that had any, and is brought to this one: periods may share the rows at their border."""
    if before["chain"]["pool"] != after["chain"]["pool"]:
        yield "is of another pool than the one before it"
    if before["is_open"]:
        yield "follows one that was written before the market had finished its period: write that one again"
    if before["period"]["end"] != after["period"]["start"]:
        yield "does not begin when the one before it ends"
    if before["closing"] != after["opening"]:
        yield "opens with other balances than the one before it closes with"
    for name, digests in after["digests"].items():
        start = min(digests, default=None)
        if digests and name in ends and ends[name].get(start) != digests[start]:
            yield f"does not go on where the one before it ends, in the chain of {name}"


CHAINS = (
    ("intervals", "chain", "first_interval"),
    ("answers", "answers", "first_answer"),
    ("seals", "feed", "first_seal"),
)


def stated_in(path):
    """What a bundle states of its ends, with the digests of each chain by number, from the one that its first row
    follows on. None for one that cannot be read, which is named already."""
    try:
        with zipfile.ZipFile(path) as bundle:
            stated = json.loads(bundle.read("manifest.json"))
            closing = json.loads(bundle.read("balances.json"))["closing"]
            digests = {}
            for name, chain, first in CHAINS:
                rows = [json.loads(row) for row in bundle.read(f"{name}.jsonl").splitlines()]
                of_rows = {row["number"]: row["digest"] for row in rows}
                digests[name] = {stated[chain][first] - 1: stated[chain]["previous_digest"], **of_rows} if rows else {}
            names = ("seals", "events", "awards")
            rest = {f"{n}.jsonl": [json.loads(row) for row in bundle.read(f"{n}.jsonl").splitlines()] for n in names}
        events = events_unsealed(rest), len(rest["events.jsonl"])
        is_older = stated["format"] in READ_TOO or any("later" not in row for row in rest["awards.jsonl"])
        ends = {"closing": closing, "digests": digests, "events": events, "is_older": is_older}
        ends["is_open"] = stated.get("open", False)
        return {name: stated[name] for name in STATED} | ends
    except Exception:
        return None


STATED = ("period", "opening", "chain")


BEGIN = datetime(1970, 1, 1, tzinfo=timezone.utc)  # noqa: UP017  not in Python 3.9


def check_balances(transactions, opening, closing):
    """From what the signed list of files states at the beginning of the period."""
    opening, closing = ({int(a): amount for a, amount in named.items()} for named in (opening, closing))
    for name, amounts in (("opening", opening), ("closing", closing)):
        if sum(amounts.values()):
            yield f"the {name} balances do not add up to zero"
    for row in transactions:
        for account, amount in row["entries"]:
            opening[account] = opening.get(account, 0) + amount
    for account in sorted(opening.keys() | closing.keys()):
        if opening.get(account, 0) != closing.get(account, 0):
            yield f"account {account} closes with {closing.get(account, 0)}, and should with {opening.get(account, 0)}"


def main(arguments):
    known_key = ""
    if "--key" in arguments[:-1]:
        place = arguments.index("--key")
        known_key, arguments = arguments[place + 1], arguments[:place] + arguments[place + 2 :]
        if not known_key.strip():  # as where a script's variable is empty: without a key nothing would be compared
            arguments = []
    if not arguments or any(word.startswith("-") for word in arguments):
        print(__doc__)
        return 2
    findings, before, ends, is_older, notes = [], None, {}, False, []
    for path in arguments:
        name = "" if len(arguments) == 1 else f"{path}: "
        findings += [f"{name}{line}" for line in check(path, known_key)]
        stated = stated_in(path)
        if before and stated:
            findings += [f"{name}it {line}" for line in check_follows(before, stated, ends)]
        if stated:
            ends.update((chain, digests) for chain, digests in stated["digests"].items() if digests)
            is_older = is_older or stated["is_older"]
            unsealed, events = stated["events"]
            if unsealed:
                notes.append(f"{name}No seal closes over {unsealed} of {events} events: they are their writer's word.")
            if stated["is_open"]:
                notes.append(f"{name}The market had not finished the period: what came later is in no bundle yet.")
        before = stated
    for line in [*findings, *notes]:
        print(line)
    if is_older:
        print("An older version wrote this bundle: some events, and payments of some awards, cannot be compared.")
    count = "1 thing does" if len(findings) == 1 else f"{len(findings)} things do"
    print(f"{count} not agree" if findings else "everything agrees")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
