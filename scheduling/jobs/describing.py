"""Jobs as people describe them, in hours or by a batch script: what a description means in a pool, as a specification.

`job_understood` reads a description and stores nothing; `job_describe` submits it. A specification cannot say when the
job may begin, so that is a field of its own beside it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta, tzinfo
from typing import IO, Any

from scheduling.common import as_sentence
from scheduling.jobs.intake import Intake
from scheduling.jobs.script_program import (
    INDEX,
    files_brought,
    has_commands,
    next_version,
    script_document,
    script_lines,
    script_register,
)
from scheduling.jobs.submission import (
    InvalidJob,
    Submitted,
    job_submit,
    spec_checked,
    submission_before,
)
from scheduling.market.view import SpecRead, arrival_of
from scheduling.models import PROGRAM, Described, JobDescription, Lane, Pool
from scheduling.programs import hours, worth
from scheduling.programs.fields import FieldRefusal, path_of
from scheduling.programs.hours import InHours
from scheduling.programs.ordering import Waited, members, until, waited_in_order
from scheduling.programs.saving import DIVISIBLE, saves_in
from scheduling.programs.sbatch import LineRefusal, OptionLine, Script
from scheduling.programs.sbatch import read as script_read
from scheduling.programs.sbatch.files_missing import FileNames
from scheduling.programs.sbatch.request import GPUS, ask, lines_here
from scheduling.programs.sbatch.values import BadValue, When
from scheduling.programs.sbatch.values import moment as when_read
from scheduling.programs.worth import Worth
from tenants.access import Access, Refused
from tenants.ledger.amounts import DIGITS_IN_WORDS, MOST, amount_read, credits_of, shown
from tenants.roles import Permission
from tenants.scoping import scope
from tenants.services.members import NOT_ALLOWED

UNNAMED = {Described.HOURS.value: "job", Described.SCRIPT.value: "sbatch"}  # the latter is Slurm's default name
MOST_AHEAD = timedelta(days=366)
# Options that a batch script may have and that this market cannot fulfil yet.
UNKEPT = {
    "constraint": "the market places the workers, and cannot be told on which kind of server",
    "nodelist": "the market places the workers, and cannot be told on which servers",
    "exclude": "the market places the workers, and cannot be told on which servers not",
}


@dataclass(frozen=True)
class JobWording:
    """A job in a person's words. It has either a `script`, or `hours` (the answers of `scheduling.programs.hours`;
    without `worker` each worker has a GPU) and the `program` of the catalogue that it runs, if any. `worth` holds
    `credits` as a text, `later`, and `by` or `within_seconds`. `zone` is the time zone of moments that name none.
    `index` selects one job of an array. `after` holds jobs that must have ended well before, beside those that a script
    names. `divisible` says whether the job rents in pieces; None means as its script says, else as its program can.
    `archive` is the digest of the files that come along with a script. `files` are their names, if they are given
    before the files are sent; a folder whose content is not given ends with a slash. `files_field` is the field that
    takes them, where the description comes from a form."""

    worth: Mapping[str, Any]
    hours: Mapping[str, Any] | None = None
    script: str | None = None
    name: str = ""
    begin: datetime | None = None
    zone: tzinfo = UTC
    program: Mapping[str, Any] | None = None
    index: int | None = None
    after: tuple[Waited, ...] = ()
    divisible: bool | None = None
    archive: str = ""
    files: tuple[str, ...] | None = None
    files_field: str = ""

    @property
    def how(self) -> str:
        return Described.SCRIPT.value if self.script is not None else Described.HOURS.value

    @property
    def document(self) -> dict[str, Any]:
        """The wording as it is stored with the job."""
        script = self.script is not None
        document: dict[str, Any] = {"script": self.script} if script else {"hours": dict(self.hours or {})}
        document |= {"program": dict(self.program)} if self.program else {}
        document |= {"worth": dict(self.worth), "zone": str(self.zone)}
        document |= {"name": self.name} if self.name else {}
        document |= {"index": self.index} if self.index is not None else {}
        document |= {"archive": self.archive} if self.archive else {}
        document |= {"after": list(self.after)} if self.after else {}
        document |= {DIVISIBLE: self.divisible} if self.divisible is not None else {}
        return document | ({"begin": self.begin.isoformat()} if self.begin else {})


def is_array(wording: JobWording) -> bool:
    """Return whether the wording is a readable script with `--array`, and selects no single job of it by `index`."""
    script = script_read(wording.script) if wording.script is not None and wording.index is None else ()
    return not isinstance(script, tuple) and bool(script.options.array)


@dataclass(frozen=True)
class Understood:
    """A description as the pool understands it: the specification, and what became of each line of a script. The job
    starts no sooner than `begin`."""

    how: str
    wording: Mapping[str, Any]
    name: str
    spec: Mapping[str, Any]
    run: InHours
    lines: tuple[OptionLine, ...] = ()
    begin: datetime | None = None
    document: Mapping[str, Any] | None = None  # of the program that a script becomes; None if it runs nothing
    parameters: Mapping[str, Any] = field(default_factory=dict)  # of that program
    indexes: tuple[int, ...] = ()  # of the script's array
    after: tuple[Waited, ...] = ()
    after_line: int = 0  # the line of the script that names them
    worth_from: datetime | None = None  # the worth counts from then at the latest, however late the job arrives
    # The specification as the batch lane reads it now. None if the job begins later, or if its program is registered
    # only with the submission.
    read: SpecRead | None = None

    @property
    def row(self) -> JobDescription:
        """The description as it is stored with its job."""
        lines = [[line.number, line.option, line.verdict, line.sentence] for line in self.lines]
        return JobDescription(how=self.how, said=self.wording, lines=lines)


@dataclass(frozen=True)
class NotUnderstood(InvalidJob):
    """The refusal of a description. `faults` are all that is wrong, each with the line of the script (or null), the
    option, the field, a sentence, and the nearest value that is allowed."""

    faults: tuple[Mapping[str, Any], ...]


Fault = LineRefusal | FieldRefusal


def job_understood(
    *, pool: Pool, wording: JobWording, by: Access, at: datetime, together: bool = False, intake: Intake | None = None
) -> Understood | Refused:
    """Return the description as this pool understands it now, or a refusal with all that is wrong. Nothing is stored.
    `together` says that it is an array whose jobs are bought all or none. `intake` is that of pool and tenant now, if
    the caller checks many descriptions."""
    if by.tenant is None:
        return NOT_ALLOWED
    intake = intake or Intake(pool, by.tenant, by.user, at)
    files = _files(wording, by)
    outcome = understand(wording, [each.name for each in intake.rows.resources], float(pool.slot_seconds), at, files)
    if isinstance(outcome, tuple):
        return refusal_of(outcome)
    with scope(by.tenant):
        unfinished = intake.unfinished(outcome.after)
    if isinstance(unfinished, str):
        fault: Fault = FieldRefusal("after", unfinished)
        if outcome.after_line:
            fault = LineRefusal(outcome.after_line, "--dependency", f"--dependency {unfinished}")
        return refusal_of([fault])
    if outcome.document is not None:
        program = next_version(outcome.document, outcome.parameters, by)
        if isinstance(program, Refused):
            return program
        outcome = replace(outcome, spec={**outcome.spec, **program})
    arrival, lane = arrival_of(pool, outcome.begin or at), Lane.BATCH.value
    saves = None if outcome.document is None else saves_in(outcome.document)
    options: dict[str, Any] = {"unregistered": saves, "together": together}
    checked = spec_checked(intake, outcome.name, outcome.spec, lane, arrival, **options)
    if isinstance(checked, Refused):
        return checked
    spec, read = checked
    return replace(outcome, spec=spec, read=read if outcome.document is None and outcome.begin is None else None)


def job_describe(
    *,
    pool: Pool,
    wording: JobWording,
    lane: str,
    by: Access,
    at: datetime,
    client_key: str | None = None,
    otherwise: str | None = None,
    archive: IO[bytes] | None = None,
) -> Submitted | Refused:
    """Submit a job as a person describes it. A script is first registered as a program of the tenant, and stays one
    even if the job is refused: the same script is the same version the next time. `archive` holds the files that come
    along with it, if they were not sent before."""
    if not by.allows(Permission.JOBS_SUBMIT):
        return NOT_ALLOWED
    wish: dict[str, Any] = {"pool": pool, "lane": lane, "otherwise": otherwise, "by": by, "client_key": client_key}
    before = submission_before(wording=wording.document, **wish)
    if isinstance(before, Refused):
        return before
    if before is not None:  # the wording may be invalid by now; the earlier submission is completed
        row = JobDescription(how=wording.how, said=wording.document)
        return job_submit(name=before.job.name, spec=before.job.spec, at=at, description=row, **wish)
    understood = job_understood(pool=pool, wording=wording, by=by, at=at)
    if isinstance(understood, Refused):
        return understood
    if understood.indexes and wording.index is None:
        sentence = "index: a script with --array goes to the batch lane as a whole; a job of it alone needs its index."
        return InvalidJob("invalid_job", sentence, "index")
    spec = understood.spec
    if understood.document is not None:
        program = script_register(understood.document, understood.parameters, by=by, at=at, archive=archive)
        if isinstance(program, Refused):
            return program
        spec = {**spec, **program}
    described: dict[str, Any] = {"description": understood.row, "begin": understood.begin, "after": understood.after}
    described |= {"worth_from": understood.worth_from}
    return job_submit(name=understood.name, spec=spec, at=at, **wish, **described)


@dataclass(frozen=True)
class JobHead:
    """A description without its worth. If `run` is None, the `faults` say why. If `deadline_unread`, the script may
    have a deadline, which its faults hide."""

    name: str
    run: InHours | None = None
    faults: tuple[Fault, ...] = ()
    begin: datetime | None = None
    deadline: datetime | None = None
    deadline_line: int = 0
    deadline_unread: bool = False
    lines: tuple[OptionLine, ...] = ()
    document: Mapping[str, Any] | None = None
    indexes: tuple[int, ...] = ()
    after: tuple[Waited, ...] = ()
    after_line: int = 0
    divisible: bool | None = None


def understand(
    wording: JobWording, resources: Sequence[str], slot_seconds: float, at: datetime, files: FileNames | None = None
) -> Understood | tuple[Fault, ...]:
    """Return what a wording means, or all that is wrong with it. Reads no database. `resources` are the pool's. `files`
    are the names of files that come along with a script, or None if they are not known."""
    if wording.script is None:
        head = _of_hours(wording, resources)
    else:
        head = _of_script(wording, wording.script, resources, at, files)
    faults: list[Fault] = [*head.faults]
    begin = head.begin
    if begin is not None and begin > at + MOST_AHEAD:
        faults.append(FieldRefusal("begin", f"must be within {MOST_AHEAD.days} days"))
        begin = None
    arrival = max(at, begin or at)
    answer = _worth(wording, at, arrival, head)
    worth_from = arrival if wording.worth.get("within_seconds") is None else None
    if head.run is not None and head.deadline is not None and isinstance(answer, Worth):
        by_deadline = until(answer, 0.0, (head.deadline - arrival).total_seconds(), head.run.seconds)
        if isinstance(by_deadline, FieldRefusal):
            faults.append(LineRefusal(head.deadline_line, "--deadline", f"--deadline {by_deadline.sentence}"))
        else:
            # A time from the arrival on moves with the arrival, but to no later end than the deadline.
            ends = by_deadline.until_seconds or by_deadline.within_seconds
            worth_from = worth_from or max(arrival, head.deadline - timedelta(seconds=ends))
            answer = by_deadline
    faults += _faults(answer)
    if faults or head.run is None or not isinstance(answer, Worth):
        return tuple(faults)
    spec = hours.specification(head.run, worth.value(answer, slot_seconds))
    divisible = head.divisible if wording.divisible is None else wording.divisible
    spec |= {DIVISIBLE: divisible} if divisible is not None else {}
    return Understood(
        how=wording.how,
        wording=wording.document,
        name=head.name if wording.index is None else f"{head.name}[{wording.index}]",
        spec=spec | ({PROGRAM: dict(wording.program)} if wording.program is not None else {}),
        run=head.run,
        lines=head.lines,
        begin=arrival if arrival > at else None,
        document=head.document,
        parameters={INDEX: head.indexes[0] if wording.index is None else wording.index} if head.indexes else {},
        indexes=head.indexes,
        after=tuple(waited_in_order({*wording.after, *head.after})),
        after_line=head.after_line,
        worth_from=worth_from,
    )


def _of_hours(wording: JobWording, resources: Sequence[str]) -> JobHead:
    name = wording.name or UNNAMED[wording.how]
    job = hours.read({"worker": _gpu(resources), **(wording.hours or {})}, resources)
    if isinstance(job, InHours):
        return JobHead(name, job, begin=wording.begin)
    return JobHead(name, faults=tuple(replace(each, field=f"hours.{each.field}") for each in job), begin=wording.begin)


def _files(wording: JobWording, by: Access) -> FileNames | None:
    """Return the names of the files that come along, or None if they are not known."""
    if wording.files is not None or not wording.archive:
        return FileNames.of(wording.files or ())
    return files_brought(wording.archive, by)


def _of_script(
    wording: JobWording, text: str, resources: Sequence[str], at: datetime, files: FileNames | None
) -> JobHead:
    script = script_read(text)
    if isinstance(script, tuple):
        return JobHead("", faults=script, deadline_unread=True)
    options = script.options
    name = wording.name or options.job_name or UNNAMED[wording.how]
    request = ask(script, resources)
    faults: list[Fault] = [*_faults(request), *_unkept(script), *_not_in_array(script, wording.index, name)]
    moments = {"begin": options.begin, "deadline": options.deadline}
    moments_by_option = {option: _moment(when, at, wording.zone) for option, when in moments.items()}
    faults += [
        LineRefusal(script.place(option), f"--{option}", f"--{option} {moment}")
        for option, moment in moments_by_option.items()
        if isinstance(moment, str)
    ]
    begin, deadline = (None if isinstance(moment, str) else moment for moment in moments_by_option.values())
    begin = begin or wording.begin
    place, unread = script.place("deadline"), isinstance(moments_by_option["deadline"], str)
    if isinstance(request, tuple):
        return JobHead(name, None, tuple(faults), begin, deadline, place, unread)
    document = script_document(script, request, name, wording.archive) if has_commands(script) else None
    if isinstance(document, tuple):
        return JobHead(name, None, (*faults, *document), begin, deadline, place, unread)
    if document is None and wording.archive:
        faults.append(FieldRefusal("archive", "belongs to a script that runs something"))
        return JobHead(name, None, tuple(faults), begin, deadline, place, unread)
    lines = tuple(script_lines(script, request, name, lines_here(script, request), files, wording.files_field))
    return JobHead(
        name,
        request.job,
        tuple(faults),
        begin,
        deadline,
        place,
        unread,
        lines,
        document,
        indexes=options.array or (),
        after=options.dependency or (),
        after_line=script.place("dependency"),
        divisible=options.divisible,
    )


def refusal_of(faults: Sequence[Fault]) -> NotUnderstood:
    """Return the refusal of a description with these faults. Its sentence is the first fault's."""
    rows = tuple(map(_fault_row, faults))
    first = rows[0]
    place = f"Line {first['line']}" if first["line"] else first["field"]
    nearest = f"; nearest is {first['nearest']}" if first["nearest"] else ""
    return NotUnderstood("invalid_job", as_sentence(f"{place}: {first['sentence']}{nearest}"), first["field"], rows)


def _fault_row(fault: Fault) -> dict[str, Any]:
    if isinstance(fault, LineRefusal):
        return asdict(fault) | {"field": "script"}
    return {"line": None, "option": "", "field": fault.field, "sentence": fault.sentence, "nearest": ""}


def _faults(outcome: object) -> tuple[Any, ...]:
    return outcome if isinstance(outcome, tuple) else ()


def _gpu(resources: Sequence[str]) -> dict[str, int]:
    """Return the demand of a worker if the description has none: a GPU, or nothing if the pool has no GPUs under a
    usual name."""
    name = next((name for name in GPUS if name in resources), None)
    return {} if name is None else {name: 1}


def _unkept(script: Script) -> Iterator[LineRefusal]:
    for name, sentence in UNKEPT.items():
        if getattr(script.options, name) is not None:
            option = f"--{name}"
            yield LineRefusal(script.place(name), option, f"{option} cannot be kept: {sentence}")


def _not_in_array(script: Script, index: int | None, name: str) -> Iterator[Fault]:
    indexes = script.options.array
    if index is not None and index not in (indexes or ()):
        yield FieldRefusal("index", "must be one of the script's --array")
    if indexes and isinstance(flaw := members(name, indexes), FieldRefusal):
        yield LineRefusal(script.place("array"), "--array", f"{flaw.field} {flaw.sentence}")


def _worth(wording: JobWording, at: datetime, arrival: datetime, head: JobHead) -> Worth | tuple[Fault, ...]:
    """Return the worth from its three answers, with times counted from the arrival. If the script has a deadline, `by`
    and `within_seconds` may both be absent; what is wrong with that moment is then told at the deadline's line."""
    answers, deadline = wording.worth, head.deadline
    unknown = [name for name in answers if name not in ("by", "within_seconds", "credits", "later")]
    faults: list[Fault] = [FieldRefusal(f"worth.{path_of(name)}", "is no answer that is asked for") for name in unknown]
    by, within = answers.get("by"), answers.get("within_seconds")
    seconds: object = within
    if by is not None and within is not None:
        faults.append(FieldRefusal("worth.by", "and within_seconds say the same: leave one out"))
    elif by is None and within is None and head.deadline_unread:
        seconds = worth.MOST_SECONDS  # so that the other answers are checked; the script is refused anyway
    elif by is None and within is None and deadline is None:
        faults.append(FieldRefusal("worth.by", "must be said: by when do you want it?"))
    elif within is None:
        moment = deadline if by is None else _moment_said(by, at, wording.zone)
        if isinstance(moment, str):
            faults.append(FieldRefusal("worth.by", moment))
        elif moment is not None and at < moment <= arrival:
            too_early = FieldRefusal("within_seconds", "must be a moment after the one at which the job may begin")
            faults.append(_worth_fault(too_early, head, by_deadline=by is None, by_moment=True))
        elif moment is not None:
            # Slots end with whole seconds, so a run that ends at that very moment is in time.
            seconds = math.ceil((moment - arrival).total_seconds())
    elif isinstance(within, int) and not isinstance(within, bool):
        seconds = within - int((arrival - at).total_seconds())
    credits = _credits_said(answers.get("credits"))
    if isinstance(credits, str):
        faults.append(FieldRefusal("worth.credits", credits))
    if faults:
        return tuple(faults)
    answer = worth.read({"within_seconds": seconds, "credits": credits, "later": answers.get("later")})
    if isinstance(answer, Worth):
        return answer
    return tuple(_worth_fault(each, head, by_deadline=by is None, by_moment=within is None) for each in answer)


def _worth_fault(flaw: FieldRefusal, head: JobHead, *, by_deadline: bool, by_moment: bool) -> Fault:
    """Return the flaw of an answer at the place where it was said."""
    if flaw.field == "within_seconds" and by_moment:
        if by_deadline:
            return LineRefusal(head.deadline_line, "--deadline", f"--deadline {flaw.sentence}")
        return replace(flaw, field="worth.by")
    return replace(flaw, field=f"worth.{flaw.field}")


def _credits_said(answer: object) -> float | str:
    """Return the credits of an answer, or a sentence that says what is wrong with it. Pages and the command send texts,
    as they were typed; only a program can send anything else."""
    if answer is None or answer == "":
        return "must be said: what is it worth to you by then?"
    if not isinstance(answer, str):
        return 'must be an amount as a text, such as "260"'
    amount = amount_read(answer)
    if amount is None:
        most = f"at most {shown(MOST, 0)}, with at most {DIGITS_IN_WORDS} digits after its point"
        return f"must be an amount in plain digits, such as 12.5: {most}"
    return credits_of(amount)


def _moment_said(text: object, at: datetime, zone: tzinfo) -> datetime | str:
    """Return the moment that a text names, as the interface writes moments or as a batch script does; or a sentence
    that says what is wrong with it."""
    try:
        moment = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        moment = None
    if moment is not None and moment.tzinfo is not None:
        return _in_utc(moment)
    when = when_read(text) if isinstance(text, str) else BadValue("must be a moment as a text")
    if isinstance(when, BadValue):
        return when.sentence
    return _moment(when, at, zone) or "must be a moment to come"


def _moment(when: When | None, at: datetime, zone: tzinfo) -> datetime | str | None:
    """Return the moment that `when` means, None if there is no `when`, or a sentence if the calendar ends before it."""
    if when is None:
        return None
    if when.after_seconds is not None:
        return at + timedelta(seconds=when.after_seconds)
    return _in_utc(datetime.fromisoformat(when.at).replace(tzinfo=zone))


def _in_utc(moment: datetime) -> datetime | str:
    """Return the moment in UTC, or a sentence if the calendar ends before it, or begins after it."""
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        return "is beyond the calendar"
