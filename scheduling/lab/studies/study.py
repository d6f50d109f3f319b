"""A study as a value: which history, which rules, which measures. It is read strictly from YAML, and identified by its
digest."""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from datetime import date, datetime
from pathlib import Path
from typing import Any

from scheduling.core.scenario import BadScenario, Section
from scheduling.core.scenario.fields import quoted, text
from scheduling.core.types import KEEP, RENEW
from scheduling.lab.files import reason, scenario_load, table_lines, text_load
from scheduling.lab.histories import sacct as slurm
from scheduling.lab.histories import swf as standard
from scheduling.lab.histories.assembling import Wishes, assemble
from scheduling.lab.histories.history import History, Machine, log_later, zone_of
from scheduling.lab.histories.jobs_table import jobs_table
from scheduling.lab.histories.machines import alike, machines_read
from scheduling.lab.histories.scenarios import NOTE, scenario_log
from scheduling.lab.studies.study_text import study_document
from scheduling.lab.studies.worth import WORTHS

VERSION = 5  # of the meaning of a replay and of its figures; another version finds no replays of this one
# The columns that may name the owners in a log of each format; it is the first unless a study says otherwise.
FORMATS: dict[str, tuple[str, ...]] = {
    "sacct": (*slurm.OWNERS,),
    "swf": (*standard.OWNERS,),
    "jobs": ("tenant",),
    "scenario": ("tenant",),
}
UNITS = (*slurm.UNITS, "processor")  # whatever a log counts; Slurm counts no processors but CPUs
UNDATED = ("jobs", "scenario")  # formats whose times begin at no known moment
LARGEST_MACHINES = 2**28  # characters of a file of machines

ALONE, BACKFILL, FIFO, FAIR_SHARE, MARKET, PAPER = "alone", "backfill", "fifo", "fair_share", "market", "market_paper"
KINDS = {
    ALONE: "everybody alone on its own units, first come, first served, with backfill",
    BACKFILL: "shared: first come, first served, with backfill",
    FIFO: "shared: first come, first served, nobody overtakes",
    FAIR_SHARE: "shared: dominant resource fairness",
    MARKET: "the market with the guarantee",
    PAPER: "the market as published",
}
MARKETS = (MARKET, PAPER)
MOST_RULES, MOST_DRAWS = 20, 10_000
FIELDS = (
    "title",
    "history",
    "rules",
    "against",
    "answer",
    "log_rule",
    "worth",
    "draws",
    "seed",
    "credits_per_unit_hour",
)
HISTORY_FIELDS = (
    *("format", "file", "zone", "unit", "owner", "machines", "nodes", "quotas", "most_owners", "first_day", "days"),
    *("slot_minutes", "strict", "begins"),
)
RULE_FIELDS = ("name", "rule", "policy", "add_nodes", "quotas", "double", "keep", "nights", "leave", "pieces", "plan")
LENDING = ("keep", "nights", "leave")  # lists of owners, in a market


@dataclass(frozen=True)
class StudyRule:
    """A way to decide, and what would have been different about the cluster and its owners."""

    name: str
    kind: str
    policy: Mapping[str, Any]  # fields of the market's policy that differ
    add_nodes: Mapping[str, int]  # by owner, how many more machines, of the size that most machines have
    quotas: Mapping[str, int]  # by owner, its units, where the cluster is split differently; empty: as in the history
    double: tuple[str, ...]  # owners each of whose jobs comes twice
    keep: tuple[str, ...]  # owners that lend nothing
    nights: tuple[str, ...]  # owners that lend only at night
    leave: tuple[str, ...]  # owners that neither lend nor rent
    pieces: float | None = None  # minutes that a save and the load after it lose, where jobs rent in pieces
    plan: str = KEEP  # of all owners, where a market has the guarantee: places at home are kept or renewed

    @property
    def has_worth(self) -> bool:
        """Return whether the worth of jobs makes a difference."""
        return self.kind in MARKETS

    @property
    def facts(self) -> Mapping[str, Any]:
        """Return everything that the rule says. A field that was added later is left out where it says nothing, so that
        digests stay what they were."""
        unsaid = {"pieces": None, "plan": KEEP}
        return {name: fact for name, fact in asdict(self).items() if name not in unsaid or fact != unsaid[name]}

    @property
    def owners_named(self) -> tuple[str, ...]:
        """Return every owner that the rule says something about."""
        return tuple(
            dict.fromkeys((*self.add_nodes, *self.quotas, *self.double, *self.keep, *self.nights, *self.leave))
        )


@dataclass(frozen=True)
class Study:
    """Everything that decides the bytes of a report. `history` is as written; `files` are the digests of the files that
    it names."""

    title: str
    history: Mapping[str, Any]
    files: Mapping[str, str]
    rules: tuple[StudyRule, ...]
    against: str
    answer: str
    log_rule: str
    worths: tuple[str, ...]
    draws: int
    seed: int
    credits_per_unit_hour: float

    @property
    def digest(self) -> str:
        """Return the SHA-256 over the study and the content of its files."""
        return digest_of({"version": VERSION, **asdict(self), "rules": [rule.facts for rule in self.rules]})

    def replay_digest(self, rule: StudyRule, worth: str) -> str:
        """Return the digest of one replay: over whatever it depends on, and nothing else, so that another study can use
        it again."""
        value = [self.seed, self.credits_per_unit_hour, worth] if rule.has_worth else []
        facts = {name: fact for name, fact in rule.facts.items() if name != "name"}
        return digest_of([VERSION, self.history, self.files, facts, value])

    def rule(self, name: str) -> StudyRule:
        """Return the rule of that name."""
        return next(rule for rule in self.rules if rule.name == name)

    def worths_of(self, rule: StudyRule) -> tuple[str, ...]:
        """Return the assumptions under which a rule is replayed; where they make no difference, the first is used for
        all."""
        return self.worths if rule.has_worth else self.worths[:1]


def digest_of(value: object) -> str:
    """Return the SHA-256 of a value as canonical JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()


def study_read(path: Path) -> Study:
    """Read the study in a file; every flaw is one line with its place."""

    def digest(name: str) -> str:
        hasher = hashlib.sha256()
        try:
            with (path.parent / name).open("rb") as file:
                while piece := file.read(2**20):
                    hasher.update(piece)
        except (OSError, ValueError) as error:  # a file's name cannot have a NUL
            raise BadScenario(f"{path.parent / name}"[:200], f"cannot be read ({reason(error)})") from None
        return hasher.hexdigest()

    return study_of(study_document(path), path.stem, digest)


def study_of(document: Mapping[str, Any], title: str, digest: Callable[[str], str]) -> Study:
    """Return the study that a document describes. `digest` returns that of a file by its name; `title` is used where
    the document has none."""
    top = Section(document, "", FIELDS)
    history = dict(top.object("history"))
    rules = tuple(_rule(row, f"rules[{k}]") for k, row in enumerate(top.array("rules", [ALONE, BACKFILL, MARKET])))
    names = [rule.name for rule in rules]
    if not 1 <= len(rules) <= MOST_RULES or len(set(names)) < len(names):
        raise BadScenario("rules", f"must be 1 to {MOST_RULES}, no two of one name")
    worths = tuple(top.array("worth", list(WORTHS)))
    if not worths or any(worth not in list(WORTHS) for worth in worths) or len(set(worths)) < len(worths):
        raise BadScenario("worth", f"must be a list of {', '.join(WORTHS)}, each at most once")
    _history_words(history)
    return Study(
        title=top.text("title", title),
        history=history,
        files={name: digest(name) for name in files_named(history)},
        rules=rules,
        against=top.choice("against", names, names[0]),
        answer=top.choice("answer", names, names[-1]),
        log_rule=top.choice("log_rule", names, next((n for n in (BACKFILL, FAIR_SHARE, FIFO) if n in names), names[0])),
        worths=worths,
        draws=top.whole("draws", 200, least=20, most=MOST_DRAWS),
        seed=top.whole("seed", 1, least=0),
        credits_per_unit_hour=top.number("credits_per_unit_hour", 1.0, above=0.0, most=1e6),
    )


def _rule(entry: object, place: str) -> StudyRule:
    """Read a rule from its name, or from an object with what differs in it."""
    fields = entry if isinstance(entry, Mapping) else {"rule": entry}
    row = Section(fields, place, RULE_FIELDS)
    kind = row.choice("rule", KINDS)
    policy = dict(row.object("policy", {}))
    owners = {
        field: tuple(text(owner, f"{place}.{field}") for owner in row.array(field, ()))
        for field in ("double", *LENDING)
    }
    lending = [owner for field in LENDING for owner in owners[field]]
    pieces = row.number("pieces", None, least=0.0, most=24 * 60.0)
    if kind not in MARKETS and (policy or lending):
        raise BadScenario(place, f"only a market has a policy, and owners that lend or leave; {kind} has none")
    if kind != MARKET and pieces is not None:
        raise BadScenario(f"{place}.pieces", f"only a market with the guarantee rents in pieces; {kind} does not")
    if len(set(lending)) < len(lending):
        raise BadScenario(place, f"an owner stands in one of {', '.join(LENDING)} alone")
    if fixed := sorted({"name", "mode"} & policy.keys()):
        raise BadScenario(f"{place}.policy.{fixed[0]}", f"is what `rule: {kind}` says already")
    plan = row.choice("plan", (KEEP, RENEW), KEEP)
    if plan != KEEP and kind != MARKET:
        raise BadScenario(f"{place}.plan", f"is for {MARKET} alone; {kind} makes no plans at home")
    added = dict(row.object("add_nodes", {}))
    if any(isinstance(count, bool) or not isinstance(count, int) or not 0 < count <= 1000 for count in added.values()):
        raise BadScenario(f"{place}.add_nodes", "must be a number from 1 to 1,000 for each owner")
    quotas = _counts(row, "quotas") or {}
    name = row.text("name", kind, longest=60)
    return StudyRule(name, kind, policy, added, quotas, **owners, pieces=pieces, plan=plan)


def files_named(history: Mapping[str, Any]) -> list[str]:
    """Return the files that a history names."""
    named = [history.get(field) for field in ("file", "machines", "nodes")]
    return [name for name in named if isinstance(name, str)]


@dataclass(frozen=True)
class _HistoryWords:
    """The choices of a study about its history, without what is in files."""

    row: Section
    form: str
    owner: str
    strict: bool
    wishes: Wishes  # without nodes
    begins: int | None


def _history_words(history: Mapping[str, Any]) -> _HistoryWords:
    """Check everything that can be checked before a file is read, so that a person who sends a log gets these errors at
    once."""
    row = Section(history, "history", HISTORY_FIELDS)
    form = row.choice("format", FORMATS)
    row.text("file")
    units = slurm.UNITS if form == "sacct" else UNITS
    unit = row.choice("unit", units, "processor" if form == "swf" else "gpu")
    owner = row.choice("owner", FORMATS[form], FORMATS[form][0])
    # Slurm prints local times: the study must name their zone, as it is never guessed.
    zone = row.text("zone") if form == "sacct" else row.text("zone", "UTC")
    try:
        zone_of(zone)
    except (KeyError, ValueError, OSError):
        raise BadScenario("history.zone", f"{quoted(zone)} is no zone like Europe/Berlin or UTC") from None
    if not isinstance(strict := row.raw("strict", False), bool):
        raise BadScenario("history.strict", f"must be true or false, not {quoted(strict)}")
    if row.has("machines") and not isinstance(row.raw("machines"), str):
        _machines(row, Path(), unit)
    minutes = row.whole("slot_minutes", None, most=24 * 60)
    wishes = Wishes(
        zone=zone,
        unit=unit,
        first_day=_first_day(row),
        days=row.whole("days", None),
        slot_seconds=None if minutes is None else 60 * minutes,
        most_owners=row.whole("most_owners", 12, least=2, most=200),
        quotas=_quotas(row),
    )
    return _HistoryWords(row, form, owner, strict, wishes, _begins(row, form) if row.has("begins") else None)


def history_read(study: Study, folder: Path) -> History:
    """Read the history that a study names; its files are in `folder`, or where their names say."""
    words = _history_words(study.history)
    row, form, owner, strict = words.row, words.form, words.owner, words.strict
    zone, unit = words.wishes.zone, words.wishes.unit
    path, name = folder / row.text("file"), row.text("file")
    machines, quotas = _machines(row, folder, unit), words.wishes.quotas
    notes: list[str] = []
    if form == "scenario":
        log, of_scenario, owned = scenario_log(scenario_load(path))
        machines, notes = machines or of_scenario, [NOTE]
        quotas = owned if quotas is None and not row.has("nodes") else quotas
    else:
        with closing(table_lines(path, errors="replace")) as lines:
            if form == "sacct":
                log = slurm.sacct(lines, zone=zone_of(zone), owner=owner, unit=unit, strict=strict, place=name)
            elif form == "swf":
                log = standard.swf(lines, owner=owner, strict=strict, place=name)
            else:
                log = jobs_table(lines, strict=strict, place=name)
    if words.begins is not None:
        log = log_later(log, words.begins)
    wishes = replace(words.wishes, nodes=_nodes(row, folder), quotas=quotas)
    history = assemble(log, machines, wishes)
    history = replace(history, notes=(*notes, *history.notes))
    for rule in study.rules:
        for owner_named in rule.owners_named:
            if owner_named not in history.owners:
                names = ", ".join(history.owners)
                message = f"{quoted(owner_named)} is none of the owners, who are {names[:200]}"
                raise BadScenario(f"rules: {rule.name}", message)
        if sum(rule.quotas.values()) > history.units:
            raise BadScenario(f"rules: {rule.name}", f"quotas sum to more than the cluster's {history.units:,} units")
    return history


def _machines(row: Section, folder: Path, unit: str) -> tuple[Machine, ...] | None:
    if not row.has("machines"):
        return None
    entry = row.raw("machines")
    if isinstance(entry, str):
        return machines_read(text_load(folder / entry, LARGEST_MACHINES), unit, entry)
    numbers = Section(entry, "history.machines", ("servers", "units"))
    return alike(numbers.whole("servers", most=20_000), numbers.whole("units", most=100_000))


def _nodes(row: Section, folder: Path) -> Mapping[str, str] | None:
    """Return by owner its nodes, from an object in the study, or from a table of owner,nodes."""
    if not row.has("nodes"):
        return None
    entry = row.raw("nodes")
    if isinstance(entry, Mapping):
        return {str(owner): str(nodes) for owner, nodes in entry.items()}
    path = folder / row.text("nodes")
    nodes: dict[str, str] = {}
    with closing(table_lines(path)) as lines:
        try:
            for number, row_cells in enumerate(csv.reader(lines), 1):
                cells = [cell.strip() for cell in row_cells]
                if any(cells) and [cell.lower() for cell in cells] != ["owner", "nodes"]:
                    if len(cells) < 2 or not cells[0]:
                        raise BadScenario(
                            f"{path}, line {number}", "must be an owner and its nodes, like vision,n[1-4]"
                        )
                    nodes[cells[0]] = ",".join(part for part in (nodes.get(cells[0]), *cells[1:]) if part)
        except csv.Error as error:
            raise BadScenario(str(path), f"is not CSV ({error})") from None
    if not nodes:
        raise BadScenario(str(path), "names no owner")
    return nodes


def _quotas(row: Section) -> Mapping[str, int] | None:
    if not row.has("quotas"):
        return None
    if row.has("nodes"):
        raise BadScenario("history.quotas", "cannot be given beside nodes")
    return _counts(row, "quotas")


def _counts(row: Section, field: str) -> Mapping[str, int] | None:
    """Return by owner a number of units."""
    if not row.has(field):
        return None
    section = Section(row.object(field), f"{row.place}.{field}", row.object(field))
    return {owner: section.whole(owner, least=0) for owner in section.fields}


def _begins(row: Section, form: str) -> int:
    """Return the moment from which a log without dates counts its seconds or slots, as seconds since 1970."""
    entry = row.raw("begins")
    if form not in UNDATED:
        raise BadScenario("history.begins", f"is for {' and '.join(UNDATED)}; {form} says when jobs came")
    try:
        moment = datetime.fromisoformat(str(entry))
        if moment.tzinfo is not None and 1970 <= moment.year < 2100:
            return int(moment.timestamp())
        raise ValueError
    except ValueError:
        message = f"must be a moment with its zone, like 2026-10-01T00:00:00+00:00, not {quoted(entry)}"
        raise BadScenario("history.begins", message) from None


def _first_day(row: Section) -> date | None:
    if not row.has("first_day"):
        return None
    try:
        day = date.fromisoformat(str(row.raw("first_day")))
        if 1970 <= day.year < 2100:
            return day
        raise ValueError
    except ValueError:
        raise BadScenario(
            "history.first_day", f"must be a day like 2026-10-01, not {quoted(row.raw('first_day'))}"
        ) from None
