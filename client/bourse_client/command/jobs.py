"""`bourse jobs ...` and `bourse explain`."""

from __future__ import annotations

from bourse_client.client import Client
from bourse_client.command import exits
from bourse_client.command.progress import Progress
from bourse_client.command.screen import Screen, count, credits, moment, numbers_line, zone
from bourse_client.command.session import Session
from bourse_client.command.written import asked_of
from bourse_client.shapes import FINISHED, OVER, REJECTED, CancelOutcome, Job, JobWithSpec

MOST_AT_ONCE = 100  # jobs in one call to cancel


def submit(session: Session) -> int:
    words, screen = session.words, session.screen
    asked = asked_of(session)
    said = {"pool": asked.pool, "name": asked.name, "otherwise": words.otherwise, "key": words.key}
    job = session.client.job_submit(asked.spec, lane=asked.lane, **said)
    if job["state"] == REJECTED:
        return _told(screen, job, exits.REFUSED)
    if not words.wait:
        return _told(screen, job, exits.DONE)
    return _waited(session, job)


def _waited(session: Session, job: JobWithSpec) -> int:
    words, screen = session.words, session.screen
    progress = Progress(screen)
    try:
        for latest in session.client.job_followed(job["id"], every=words.every, patience=words.timeout):
            job = latest
            progress.show(job)
    except KeyboardInterrupt:
        progress.end()
        screen.note(f"The job goes on: bourse jobs show {job['id']}, or bourse jobs cancel {job['id']}")
        return exits.INTERRUPTED
    finally:
        progress.end()
    if job["state"] in OVER:
        return _told(screen, job, exits.DONE if job["state"] == FINISHED else exits.ENDED_BADLY)
    screen.note(f"The time is over; the job goes on: bourse jobs show {job['id']}")
    return _told(screen, job, exits.STILL_WAITING)


def _told(screen: Screen, job: JobWithSpec, status: int) -> int:
    """The job on standard output; why it went wrong on standard error as well, where no program overlooks it."""
    if screen.as_json:
        screen.document(job)
    else:
        _show(screen, job)
    if status in (exits.REFUSED, exits.ENDED_BADLY):
        figures = numbers_line(job["reason"]["numbers"])
        screen.note(f"bourse: job {job['id']} is {job['state']}: {job['reason']['sentence']}")
        screen.note(f"  code {job['reason']['code']}" + (f": {figures}" if figures else ""))
    return status


def listed(session: Session) -> int:
    words, screen = session.words, session.screen
    most = None if words.all else words.limit
    jobs = session.client.jobs(most=most, state=words.state, lane=words.lane, pool=words.pool, name=words.name)
    found = list(jobs)
    if screen.as_json:
        screen.document(found)
    elif found:
        heads = ("id", "name", "lane", "state", "price", "workers", f"starts ({zone()})", "ends", "reason")
        screen.table(heads, [_row(job) for job in found], right=("id", "price", "workers"))
        if most is not None and len(found) == most:
            screen.note(f"The newest {most}; more with --limit or --all.")
    else:
        screen.note("There are no such jobs.")
    return exits.DONE


def _row(job: Job) -> tuple[str, ...]:
    times = (moment(job["starts_at"]), moment(job["ends_at"]))
    price, workers = credits(job["price"]), count(job["workers"])
    return (str(job["id"]), job["name"], job["lane"], job["state"], price, workers, *times, job["reason"]["code"])


def show(session: Session) -> int:
    return _told(session.screen, session.client.job(session.words.job), exits.DONE)


def explain(session: Session) -> int:
    screen, found = session.screen, session.client.job_explain(session.words.job)
    if screen.as_json:
        screen.document(found)
        return exits.DONE
    screen.line(f"Job {found['id']} is {screen.state_style(found['state'])}. {found['reason']['sentence']}")
    figures = numbers_line(found["reason"]["numbers"])
    screen.line(f"  code {found['reason']['code']}" + (f": {figures}" if figures else ""))
    return exits.DONE


def cancel(session: Session) -> int:
    """One by itself, so that its refusal has its status; many in as few calls as can be."""
    words, screen = session.words, session.screen
    wanted = list(dict.fromkeys(words.job))
    if len(wanted) == 1:
        return _told(screen, session.client.job_cancel(wanted[0], key=words.key), exits.DONE)
    outcomes = _cancelled(session.client, wanted, words.key)
    if screen.as_json:
        screen.document(outcomes)
    for outcome in outcomes:
        if not outcome["cancelled"]:
            screen.note(f"bourse: job {outcome['id']}: {outcome['detail']} ({outcome['code']})")
        elif not screen.as_json:
            screen.line(f"Job {outcome['id']} is cancelled.")
    return exits.DONE if all(outcome["cancelled"] for outcome in outcomes) else exits.REFUSED


def _cancelled(client: Client, wanted: list[int], key: str | None) -> list[CancelOutcome]:
    parts = [wanted[start : start + MOST_AT_ONCE] for start in range(0, len(wanted), MOST_AT_ONCE)]
    keys = [key and (key if len(parts) == 1 else f"{key[:190]}-{number}") for number in range(len(parts))]
    return [outcome for part, own in zip(parts, keys, strict=True) for outcome in client.jobs_cancel(part, key=own)]


def queue(session: Session) -> int:
    return _told(session.screen, session.client.job_queue(session.words.job, key=session.words.key), exits.DONE)


def _show(screen: Screen, job: JobWithSpec) -> None:
    at = f"({zone()})"
    screen.pairs([
        ("job", f"{job['id']}"),
        ("name", job["name"]),
        ("state", job["state"]),
        ("why", job["reason"]["sentence"]),
        ("lane", job["lane"]),
        ("pool", job["pool"]),
        ("price", credits(job["price"])),
        ("payer", job["payer"]),
        ("held", credits(job["hold"])),
        ("workers", count(job["workers"]) if job["workers"] else ""),
        ("parameter servers", count(job["parameter_servers"]) if job["parameter_servers"] else ""),
        ("submitted", f"{moment(job['submitted_at'])} {at}" + (f" by {by}" if (by := job["submitted_by"]) else "")),
        ("starts", f"{moment(job['starts_at'])} {at}" if job["starts_at"] else ""),
        ("ends", f"{moment(job['ends_at'])} {at}" if job["ends_at"] else ""),
        ("ended", f"{moment(job['ended_at'])} {at}" if job["ended_at"] else ""),
    ])  # fmt: skip
