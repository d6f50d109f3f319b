"""`bourse jobs ...` and `bourse explain`: submit, list, explain and cancel jobs."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from bourse_client.command import bulk, exits
from bourse_client.command.costs import AS_IT_IS, COSTS_MORE, cancel_if_agreed, is_asked
from bourse_client.command.packing import Packed, packed
from bourse_client.command.parser import ArrayNumber
from bourse_client.command.progress import Progress
from bourse_client.command.screen import Screen, count, credits, moment, numbers_line, plain, several, zone
from bourse_client.command.scripts import (
    UNNAMED,
    after_said,
    described,
    lines_told,
    pieces_said,
    script_of,
    waited_in_words,
)
from bourse_client.command.session import Session
from bourse_client.command.written import INPUT, asked_in, is_of_many, is_script, text_in
from bourse_client.errors import BourseError, Conflict, NotAllowed, NotFound
from bourse_client.shapes import (
    FINISHED,
    OVER,
    REJECTED,
    ArrayOfJob,
    CancelOutcome,
    Job,
    JobArray,
    JobWithSpec,
    Parsed,
    Reason,
)

MOST_AT_ONCE = 100  # jobs in one call to cancel
EVERY = 2.0  # seconds between two looks at a job that is waited for
T = TypeVar("T")


def submit(session: Session) -> int:
    words = session.words
    if words.bulk:
        return bulk.submit(session)
    _no_waiting(words)
    text = text_in(session, words.file)
    if is_script(text):
        if words.count:
            raise exits.UsageError("--count is for job files; a script says how many it is: #SBATCH --array=0-2.")
        return describe(session, text)
    if is_of_many(words.file, text):
        raise exits.UsageError(f"{words.file}: a file with a job on each line, as JSON, is submitted with --bulk.")
    if words.by or words.worth or words.later or words.dry_run or words.brings:
        why = "it is empty."
        if text.strip():
            why = "it begins with no #! and has no line with #SBATCH. One command needs no script: bourse run"
        raise exits.UsageError(
            f"--by, --worth, --later, --with and --dry-run are for batch scripts; {words.file} is none: {why}"
        )
    words_of_job = asked_in(session, text)
    otherwise = words.otherwise or words_of_job.otherwise
    asked_spec = {**words_of_job.spec, **pieces_said(words)}
    if words.count:
        _one_alone(words)
        if words_of_job.lane == "instant":
            session.screen.note("The file asks for the instant lane; jobs of an array wait for the batch lane.")
        spec = {"spec": asked_spec} | after_said(words)
        how: dict[str, Any] = {"count": words.count, "together": words.together, "key": session.key}
        return _array(session, session.client.array_submit(spec, pool=words_of_job.pool, name=words_of_job.name, **how))
    _no_array(words)
    options: dict[str, Any] = {
        "pool": words_of_job.pool,
        "name": words_of_job.name,
        "otherwise": otherwise,
        "key": session.key,
    }
    options |= after_said(words)
    return _end(session, session.client.job_submit(asked_spec, lane=words_of_job.lane, **options))


def run(session: Session) -> int:
    """Submit a command as a script: `bourse run --gpus 1 --hours 2 -- python train.py`."""
    _no_waiting(session.words)
    return describe(session, script_of(session.words))


def describe(session: Session, script: str) -> int:
    """Submit a batch script. What becomes of each line is shown before anything is submitted."""
    words, screen = session.words, session.screen
    pool = session.pool
    description = described(words, script)
    pack = packed(words.brings, Path.cwd()) if words.brings else None
    if pack is not None:
        description["archive"] = pack.digest
        screen.note(pack.sentence)
    named = {} if pack is None else {"files": list(pack.names)}
    parsed = session.client.job_parse(description | named, pool=pool)
    if parsed["name"] == UNNAMED and not words.name and getattr(words, "file", INPUT) != INPUT:
        # Programs are called after their jobs: all scripts of a tenant would be versions of one.
        description["name"] = Path(words.file).stem
        parsed = session.client.job_parse(description | named, pool=pool)
    if words.dry_run and screen.as_json:
        screen.document(parsed)
    else:
        lines_told(screen, parsed, whole=words.dry_run)
    if words.dry_run:
        return exits.DONE
    where: dict[str, Any] = {"pool": pool, "lane": words.lane or "batch", "otherwise": words.otherwise}
    if parsed["indexes"]:
        _one_alone(words)
    else:
        _no_array(words)
    if pack is not None:
        _send(session, parsed, pack)
    if parsed["indexes"]:
        together = getattr(words, "together", False)
        return _array(session, session.client.array_submit(description, pool=pool, together=together, key=session.key))
    return _end(session, session.client.job_describe(description, key=session.key, **where))


def _send(session: Session, parsed: Parsed, pack: Packed) -> None:
    """Send the files that come along, as the archive of the program that the script becomes, unless the program has
    them already."""
    document = parsed.get("program")
    if document is None:
        raise exits.UsageError("The server does not take files along with this script.")
    try:
        versions = session.client.program(str(document["name"]), owner=session.client.tenant)["versions"]
    except (NotFound, NotAllowed):  # there is no such program yet, or the token may not read it
        versions = []
    archives = {version["archive"] for version in versions if version["archive_bytes"]}
    if pack.digest not in archives:
        session.client.program_upload(document, pack.archive)


def _array(session: Session, array: JobArray) -> int:
    """Show an array in one line."""
    if session.screen.as_json:
        session.screen.document(array)
    else:
        jobs = several(array["jobs"], "job")
        name, price = plain(array["name"]), credits(array["price"])
        how = ", bought together" if array.get("together") else ""  # older servers do not say
        session.screen.line(f"Array A-{array['id']}  {name}  {jobs}{how}: {_states(array)}; they pay {price}")
    return exits.DONE


def _states(array: ArrayOfJob | JobArray) -> str:
    return ", ".join(f"{number:,} {state}" for state, number in array["states"].items())


def _one_alone(words: Namespace) -> None:
    if words.wait or words.otherwise or words.lane == "instant":
        raise exits.UsageError(
            "--wait, --otherwise and --lane instant are for one job; `bourse jobs list --array` shows an array's."
        )


def _no_array(words: Namespace) -> None:
    if getattr(words, "together", False):
        raise exits.UsageError("--together is for an array of jobs: give --count, or a script with --array.")


def _no_waiting(words: Namespace) -> None:
    if not words.wait and (names := [f"--{name}" for name in ("timeout", "every") if getattr(words, name)]):
        raise exits.UsageError(f"{names[0]} is for a job that is waited for: say --wait too.")


def _end(session: Session, job: JobWithSpec) -> int:
    words, screen = session.words, session.screen
    if job["state"] == REJECTED:
        return _report(screen, job, exits.REFUSED)
    if not words.wait:
        return _report(screen, job, exits.DONE)
    return _waited(session, job)


def _waited(session: Session, job: JobWithSpec) -> int:
    words, screen = session.words, session.screen
    progress = Progress(screen)
    try:
        every = words.every or EVERY
        for latest in session.client.job_followed(job["id"], every=every, patience=words.timeout):
            job = latest
            progress.show(job)
    except KeyboardInterrupt:
        progress.end()
        screen.note(f"The job goes on: bourse jobs show {job['id']}, or bourse jobs cancel {job['id']}")
        return exits.INTERRUPTED
    except BourseError:
        progress.end()
        screen.note(f"Job {job['id']} is submitted, and how it gets on is not known: bourse jobs show {job['id']}")
        raise
    finally:
        progress.end()
    if job["state"] in OVER:
        return _report(screen, job, exits.DONE if job["state"] == FINISHED else exits.ENDED_BADLY)
    screen.note(f"The time is over; the job goes on: bourse jobs show {job['id']}")
    return _report(screen, job, exits.STILL_WAITING)


def _report(screen: Screen, job: JobWithSpec, status: int) -> int:
    """Show the job on standard output; show why it went wrong on standard error as well, where no program overlooks
    it."""
    if screen.as_json:
        screen.document(job)
    else:
        _show(screen, job)
    if status in (exits.REFUSED, exits.ENDED_BADLY):
        screen.note(f"bourse: Job {job['id']} is {job['state']}: {job['reason']['sentence']}")
        for line in _more(job["reason"]):
            screen.note(line)
    return status


def _more(reason: Reason) -> list[str]:
    """Return the lines below a reason's sentence: its code and figures, and what would help. A program's last words are
    as long as a sentence, and stand there once."""
    numbers, advice = dict(reason["numbers"]), reason.get("help", "")
    if str(numbers.get("detail", "")).rstrip(".") in reason["sentence"]:
        numbers.pop("detail", None)
    figures = numbers_line(numbers)
    code = plain(f"  code {reason['code']}" + (f": {figures}" if figures else ""))
    return [code, plain(f"  {advice}")] if advice else [code]


def list_jobs(session: Session) -> int:
    words, screen = session.words, session.screen
    most = None if words.all else words.limit
    # A filter for a state or a name is about jobs; else each array is one line.
    folded = None if words.array or words.state or words.name else "folded"
    query = {"state": words.state, "lane": words.lane, "pool": words.pool, "name": words.name, "array": words.array}
    jobs = list(session.client.jobs(most=most, arrays=folded, **query))
    if screen.as_json:
        screen.document(jobs)
    elif jobs:
        heads = ("id", "name", "lane", "state", "price", "workers", f"starts ({zone()})", "ends", "why")
        rows = [_folded(job, job["array"]) if folded and job["array"] else _row(job) for job in jobs]
        screen.table(heads, rows, right=("id", "price", "workers"))
        if most is not None and len(jobs) == most:
            screen.note(f"The newest {most}; more with --limit or --all.")
    else:
        screen.note("There are no such jobs.")
    return exits.DONE


def _row(job: Job) -> tuple[str, ...]:
    times = (moment(_start(job)), moment(job["ended_at"] or job["ends_at"]))
    price, workers, reason = credits(job["price"]), count(job["workers"]), job["reason"]
    why = "" if reason["code"] == job["state"] else reason["sentence"]  # the other columns say what a state says
    return (str(job["id"]), job["name"], job["lane"], job["state"], price, workers, *times, why)


def _start(job: Job) -> str | None:
    """Return when the job starts or started; None where it ended before, as one that was cancelled in time."""
    start, end = job["starts_at"], job["ended_at"]
    early = start and end and datetime.fromisoformat(end) < datetime.fromisoformat(start)
    return None if early else start


def _folded(job: Job, array: ArrayOfJob) -> tuple[str, ...]:
    state, price = several(array["jobs"], "job"), credits(array["price"])
    return (f"A-{array['id']}", array["name"], job["lane"], state, price, "", "", "", _states(array))


def show(session: Session) -> int:
    if isinstance(session.words.job, ArrayNumber):
        return _array(session, session.client.array(session.words.job))
    return _report(session.screen, session.client.job(session.words.job), exits.DONE)


def pieces(session: Session) -> int:
    screen, pieces = session.screen, session.client.job_pieces(session.words.job)
    if screen.as_json:
        screen.document(pieces)
        return exits.DONE
    if not pieces["pieces"]:
        screen.note("bourse: It has no pieces: it is sold whole, runs on its tenant's own cells, or was not begun.")
        return exits.DONE
    heads = ("from", "until", "where", "state", "of the work", "paid")
    rows = [
        (
            moment(row["starts_at"]),
            moment(row["ends_at"]),
            "at home" if row["at_home"] else "rented",
            "lost, done again" if row["lost"] else row["state"],
            f"{0.0 if row['lost'] else row['percent']:.1f} %",
            credits(row["paid"]),
        )
        for row in pieces["pieces"]
    ]
    screen.table(heads, rows, right=("of the work", "paid"))
    worth = "" if pieces["worth"] is None else f"; to you that is worth {credits(pieces['worth'])}"
    screen.line(f"{pieces['percent']:.1f} % done or booked for {credits(pieces['paid'])}{worth}")
    return exits.DONE


def explain(session: Session) -> int:
    screen, answer = session.screen, session.client.job_explain(session.words.job)
    if screen.as_json:
        screen.document(answer)
        return exits.DONE
    screen.line(f"Job {answer['id']} is {screen.state_style(answer['state'])}. {plain(answer['reason']['sentence'])}")
    for line in _more(answer["reason"]):
        screen.line(line)
    projection = answer.get("projection")
    if projection is not None:
        screen.line(f"Its place at home is projected to begin at {moment(projection['starts_at'])}.")
        if projection["moved"] is not None:
            screen.line(projection["moved"]["sentence"])
        mine = projection["mine"]
        if mine["projections"]:
            screen.line(f"Of your last {mine['projections']} projected starts here, {mine['by_then']} held.")
    return exits.DONE


def cancel(session: Session) -> int:
    """Cancel jobs: a single one by its own call, so that its refusal has its status; many in as few calls as
    possible, or one by one where a person is asked about each that costs something."""
    words, screen, client = session.words, session.screen, session.client
    wanted = list(dict.fromkeys(words.job))
    if any(isinstance(number, ArrayNumber) for number in words.job):
        if len({type(number) for number in words.job}) > 1 or len(wanted) > 1:  # A-12 equals 12
            raise exits.UsageError("Cancel an array by itself: bourse jobs cancel A-12")
        array = _cancel_one(session, client.array_cancel, wanted[0], f"array A-{wanted[0]}")
        return exits.REFUSED if array is None else _array(session, array)
    if len(wanted) == 1:
        job = _cancel_one(session, client.job_cancel, wanted[0], f"job {wanted[0]}")
        return exits.REFUSED if job is None else _report(screen, job, exits.DONE)
    if words.most is not None:
        raise exits.UsageError("--most is for one job or one array: each of several has a cost of its own.")
    outcomes = list[CancelOutcome]()
    one_by_one = is_asked(session)
    try:
        for part in _one_by_one(session, wanted) if one_by_one else _cancelled(session, wanted):
            outcomes += part
            _tell(screen, part)
    except (BourseError, KeyboardInterrupt):
        if outcomes:
            screen.note(_rest(session, wanted[len(outcomes) :], 1 if one_by_one else MOST_AT_ONCE))
        raise
    finally:
        if screen.as_json and outcomes:
            screen.document(outcomes)
    return exits.DONE if all(outcome["cancelled"] for outcome in outcomes) else exits.REFUSED


def _cancel_one(session: Session, cancel: Callable[..., T], number: int, name: str) -> T | None:
    """Cancel a job or an array; return None where the person at the terminal would rather keep it."""
    if not is_asked(session):
        return cancel(number, most=session.words.most, key=session.key)
    outcome = cancel_if_agreed(session, cancel, number, name)
    if outcome is None:
        session.screen.note(AS_IT_IS)
    return outcome


def _one_by_one(session: Session, wanted: Sequence[int]) -> Iterator[list[CancelOutcome]]:
    """Cancel each job by a call of its own. A refusal that is not about this job alone ends all."""
    for number in wanted:
        try:
            job = cancel_if_agreed(session, session.client.job_cancel, number, f"job {number}")
            code, detail = ("", "") if job is not None else (COSTS_MORE, AS_IT_IS)
        except (NotFound, Conflict) as refused:
            code, detail = refused.code, refused.detail
        yield [{"id": number, "cancelled": not code, "code": code, "detail": detail}]


def _tell(screen: Screen, outcomes: Sequence[CancelOutcome]) -> None:
    for outcome in outcomes:
        if not outcome["cancelled"]:
            screen.note(f"bourse: Job {outcome['id']}: {outcome['detail']} ({outcome['code']})")
        elif not screen.as_json:
            screen.line(f"Job {outcome['id']} is cancelled.")


def _rest(session: Session, rest: Sequence[int], at_once: int) -> str:
    """Return a sentence about the jobs from a part on that came to nothing. A call has `at_once` of them."""
    doubtful = rest[:at_once] if session.is_unanswered else ()
    others = rest[len(doubtful) :]
    sentences = [f"Of {several(len(doubtful), 'job')} from {doubtful[0]} on it is not known."] if doubtful else []
    sentences += [f"Not cancelled: {several(len(others), 'job')} from {others[0]} on."] if others else []
    return " ".join(sentences)


def _cancelled(session: Session, wanted: Sequence[int]) -> Iterator[list[CancelOutcome]]:
    parts = [wanted[start : start + MOST_AT_ONCE] for start in range(0, len(wanted), MOST_AT_ONCE)]
    for number, part in enumerate(parts):
        key = session.key if len(parts) == 1 else session.key_of(number)
        yield session.client.jobs_cancel(part, key=key)


def queue(session: Session) -> int:
    return _report(session.screen, session.client.job_queue(session.words.job, key=session.key), exits.DONE)


def _show(screen: Screen, job: JobWithSpec) -> None:
    at = f"({zone()})"
    screen.pairs([
        ("job", f"{job['id']}"),
        ("name", job["name"]),
        ("state", job["state"]),
        ("why", job["reason"]["sentence"]),
        ("after", waited_in_words(job)),
        ("array", f"A-{array['id']}, index {array['index']}" if (array := job["array"]) else ""),
        ("lane", job["lane"]),
        ("pool", job["pool"]),
        ("price", credits(job["price"])),
        ("payer", job["payer"]),
        ("held", credits(job["hold"])),
        ("workers", count(job["workers"]) if job["workers"] else ""),
        ("parameter servers", count(job["parameter_servers"]) if job["parameter_servers"] else ""),
        ("submitted", f"{moment(job['submitted_at'])} {at}" + (f" by {by}" if (by := job["submitted_by"]) else "")),
        ("starts", f"{moment(start)} {at}" if (start := _start(job)) else ""),
        ("ends", f"{moment(job['ends_at'])} {at}" if job["ends_at"] and not job["ended_at"] else ""),
        ("ended", f"{moment(job['ended_at'])} {at}" if job["ended_at"] else ""),
    ])  # fmt: skip
