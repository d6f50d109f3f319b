"""The report of a study: one file that loads nothing from outside, in light and dark, or the body of a page.

The one number comes first, then who gains, the days, the table, other rules, whether the replay can be believed, and
what was assumed. An owner reads it with only its own name.

Every number is a figure of `figures.csv`, and says which: `data-figure` has its key, `data-side` which of value, low
and high it is, `data-form` how it is written. So other code can check the report against the figures.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from pathlib import Path

from scheduling.lab.histories.history import History
from scheduling.lab.studies.figures import (
    ALL,
    LOG,
    POINTS,
    TOGETHER,
    HistoryFigures,
    Key,
    owners_by_loss,
)
from scheduling.lab.studies.pictures import days_picture, dots_picture, lines_picture
from scheduling.lab.studies.study import BACKFILL, KINDS, MARKET, PAPER, Study
from scheduling.lab.studies.worth import WORTHS
from tenants.ledger import amounts

STATIC = Path(__file__).parents[3] / "static"
STYLES = (STATIC / "tokens.css", STATIC / "look.css", STATIC / "lab.css")
OTHER_OWNER = "Another owner"
MONEY = ("earned", "spent", "net", "lent", "borrowed")  # measures that the operator has too
UNSEEN = "no difference seen"
LINES_SHOWN = 20
NAMED = 6  # most owners that the answer names
COUNTED = {"saved": "less waiting", "in_time_more": "more work done in time"}  # by which an owner gains
FORMS = {  # factor and digits; None: no digit from 100 on, else one
    "hours": (1.0, None),
    "minutes": (60.0, 1),
    "credits": (1.0, 2),
    "percent": (100.0, 1),
    "count": (1.0, 0),
}


def text_of(value: float, form: str, *, signed: bool = False) -> str:
    """Return a number as the report writes it, with a true minus sign."""
    if not math.isfinite(value):
        return "–"
    factor, digits = FORMS[form]
    scaled = value * factor
    if digits is None:
        digits = 0 if abs(scaled) >= 100 else 1
    text = amounts.rounded(scaled, digits)
    plus = "+" if signed and any(digit in "123456789" for digit in text) else ""
    return f"−{text[1:]}" if text.startswith("-") else plus + text


class ReportPage:
    """Writes figures by their keys. `reader` is the owner that reads the page and sees no other owner's name; None
    names everybody, and then each number says which figure it is."""

    def __init__(self, study: Study, history: History, figures: HistoryFigures, reader: str | None = None) -> None:
        self.study, self.history, self.figures, self.reader = study, history, figures, reader

    def owner(self, name: str) -> str:
        """Return the name of an owner on this page."""
        return name if self.reader in (None, name) else OTHER_OWNER

    def is_about_others(self, rule: str) -> bool:
        """Return whether a rule says something about an owner that is not named here, as its name may do so as well."""
        return self.reader is not None and any(owner != self.reader for owner in self.study.rule(rule).owners_named)

    def rule(self, name: str) -> str:
        """Return the name of a rule on this page."""
        if not self.is_about_others(name):
            return name
        return f"{self.study.rule(name).kind}, with something else about another owner"

    def owner_key(self, rule: str, owner: str, measure: str, worth: str = ALL) -> Key:
        """Return the key of an owner's figure, or of all owners together."""
        return Key("owner", rule, self.study.against, worth, owner, "", measure)

    def number(self, key: Key, form: str, side: str = "value", *, signed: bool = False, tag: str = "span") -> str:
        """Return one number as markup."""
        text = text_of(getattr(self.figures.by_key[key], side), form, signed=signed)
        if self.reader is not None:
            return f"<{tag}>{text}</{tag}>"
        return (
            f'<{tag} data-figure="{escape("|".join(key))}" data-side="{side}" data-form="{form}"'
            f"{' data-signed' if signed else ''}>{text}</{tag}>"
        )

    def holds(self, key: Key, form: str, *, signed: bool = False) -> str:
        """Return the interval: `18 to 65`."""
        low, high = (self.number(key, form, side, signed=signed) for side in ("low", "high"))
        return f"{low} to {high}"

    def cell(self, key: Key, form: str, head: str, *, is_difference: bool = False) -> str:
        """Return a cell with a figure and its interval; a difference that is not sure is grey and says so."""
        unseen = is_difference and not self.figures.by_key[key].is_seen
        number = self.number(key, form, signed=is_difference)
        # A narrow column breaks the words once: "no" does not stand by itself.
        words = f'<span class="holds">{UNSEEN.replace(" ", "&nbsp;", 1)}</span>' if unseen else ""
        return (
            f'<td class="num{" unsure" if unseen else ""}" data-h="{escape(head)}">{number}'
            f'<span class="holds">{self.holds(key, form, signed=is_difference)}</span>{words}</td>'
        )

    def count(self, measure: str) -> str:
        """Return what was counted of the history."""
        return self.number(Key("count", "", "", "", "", "", measure), "count")

    def verdict(self, rule: str, measure: str, worth: str = ALL) -> str:
        """Return how many owners gain, lose, or show no difference."""
        return self.number(Key("verdict", rule, self.study.against, worth, "", "", measure), "count")


def answer_line(study: Study, history: History, figures: HistoryFigures) -> str:
    """Return the answer for a terminal."""
    key = Key("owner", study.answer, study.against, ALL, TOGETHER, "", "saved")
    if key not in figures.by_key:
        return f"{study.answer}: nothing to set it beside"
    saved = figures.by_key[key]
    waited = figures.by_key[key._replace(measure="waited_against")]
    sure = "" if saved.is_seen else f"; {UNSEEN}"
    holds = f"{text_of(saved.low, 'hours')} to {text_of(saved.high, 'hours')}{sure}"
    if saved.value < 0:
        return (
            f"{study.answer} beside {study.against}: {text_of(saved.value, 'hours')} hours of waiting saved, {holds}: "
            f"jobs wait longer than the {text_of(waited.value, 'hours')} hours under {study.against}"
        )
    return (
        f"{study.answer} beside {study.against}: {text_of(saved.value, 'hours')} of {text_of(waited.value, 'hours')} "
        f"hours of waiting saved, {holds}"
    )


def counts_line(study: Study, figures: HistoryFigures) -> str:
    """Return, for a terminal, what the hours leave out: how many owners gain and lose, and jobs that never ended."""
    key = Key("owner", study.answer, study.against, ALL, TOGETHER, "", "undone")
    if key not in figures.by_key:
        return ""
    verdict = Key("verdict", study.answer, study.against, ALL, "", "", "")
    gain, lose, unsure, undone, undone_against = (
        text_of(figures.by_key[one].value, "count")
        for one in (
            *(verdict._replace(measure=f"owners_{what}") for what in ("gain", "lose", "unsure")),
            key,
            key._replace(measure="undone_against"),
        )
    )
    return (
        f"owners that gain: {gain}; that lose: {lose}; {UNSEEN}: {unsure}. Jobs that never ended: {undone} under "
        f"{study.answer}, {undone_against} under {study.against}; hours count those that ended under both"
    )


def report(study: Study, history: History, figures: HistoryFigures) -> str:
    """Return the whole file."""
    page = ReportPage(study, history, figures)
    styles = "\n".join(path.read_text(encoding="utf-8") for path in STYLES)
    title = escape(study.title)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<title>{title} · Bourse</title>\n<style>\n{styles}\n</style>\n</head>\n<body>\n"
        f'<div class="page"><main id="main">\n{_head(page)}\n{body_of(page)}\n</main>\n'
        f'<footer class="foot"><span>Days in {escape(history.zone)}. Amounts in credits.</span>'
        f'<span>Study <span class="mono">{study.digest[:12]}</span></span></footer></div>\n</body>\n</html>\n'
    )


def body_of(page: ReportPage) -> str:
    """Return the panels, one below the other."""
    study = page.study
    beside = [rule.name for rule in study.rules if rule.name != study.against]
    parts = []
    if study.answer in beside:
        parts += [_answer(page), _pictures(page), _winners(page)]
    if rules := [rule for rule in beside if not page.is_about_others(rule)]:
        parts.append(_rules(page, rules))
    parts.append(f'<div class="cols stretch">{_believed(page)}{_assumed(page)}</div>')
    return "\n".join(parts)


def _head(page: ReportPage) -> str:
    study, history = page.study, page.history
    rules = ", ".join(f"<b>{escape(rule.name)}</b>" for rule in study.rules)
    lead = (
        f'<span class="date">{history.dates[0]} to {history.dates[-1]}</span>: {page.count("jobs")} jobs, '
        f"{page.count('owners')} owners, {page.count('units')} units ({escape(history.unit)}) on "
        f"{page.count('machines')} machines. Decided again: {rules}."
    )
    title = f'<p class="crumb">Lab</p><h1>{escape(study.title)}</h1>'
    return f'<div class="head"><div>{title}<p class="lead">{lead}</p></div></div>'


def _answer(page: ReportPage) -> str:
    """Return the panel with the one number, how sure it is, and how many owners gain and lose."""
    rule, against = page.study.answer, page.study.against
    key = page.owner_key(rule, TOGETHER, "saved")
    is_seen = page.figures.by_key[key].is_seen
    waited = page.number(key._replace(measure="waited_against"), "hours")
    title, beside = escape(page.rule(rule)), escape(page.rule(against))
    doubt = "" if is_seen else f" <b>So {UNSEEN}.</b>"
    undone = [page.number(key._replace(measure=name), "count") for name in ("undone", "undone_against")]
    if page.figures.by_key[key].value < 0:
        what = f"of waiting saved: jobs wait longer than the {waited} hours under {beside}"
    else:
        what = f"of {waited} hours of waiting saved"
    counts = [page.verdict(rule, measure) for measure in ("owners_gain", "owners_lose", "owners_unsure")]
    sentences = (
        f"Under {title}, beside {beside}. Nine times in ten, under every assumption of worth, it is "
        f"<b>{page.holds(key, 'hours')}</b>.{doubt} Owners that gain: {counts[0]}; that lose: {counts[1]}; "
        f"{UNSEEN}: {counts[2]}. {_what_counts(page, rule)}Jobs that never ended: {undone[0]} under {title}, "
        f"{undone[1]} under {beside}; hours count only jobs that ended under both."
    )
    return (
        '<section class="panel" aria-labelledby="h-one"><div class="body">'
        '<h2 id="h-one" class="visually-hidden">The answer</h2>'
        f'<div class="figure-line"><p class="price{"" if is_seen else " unsure"}">{page.number(key, "hours")} h'
        f"<small>{what}</small></p><p>{sentences}</p></div></div></section>"
    )


def _what_counts(page: ReportPage, rule: str) -> str:
    """Return by which measures owners gain and lose, with those that gain and what in, and why plain backfill may save
    more hours than the market."""
    gains = {
        owner: [words for measure, words in COUNTED.items() if _gains(page, rule, owner, measure)]
        for owner in page.history.owners
        if not any(_gains(page, rule, owner, measure, -1) for measure in COUNTED)
    }
    named = "; ".join(f"{escape(page.owner(owner))}: {' and '.join(words)}" for owner, words in gains.items() if words)
    sentence = f"What counts is {' and '.join(COUNTED.values())}"
    sentence += f" ({named}). " if named and sum(map(bool, gains.values())) <= NAMED else ". "
    kinds = {each.kind for each in page.study.rules}
    if BACKFILL in kinds and kinds & {MARKET, PAPER}:
        sentence += (
            "Backfill may save more hours than the market, because it does not promise what the market does: that "
            "no owner is worse off than alone on its own units. "
        )
    return sentence


def _gains(page: ReportPage, rule: str, owner: str, measure: str, sign: int = 1) -> bool:
    figure = page.figures.by_key[page.owner_key(rule, owner, measure)]
    return figure.is_seen and sign * figure.value > 0


def _pictures(page: ReportPage) -> str:
    rule = page.study.answer
    owners = list(reversed(owners_by_loss(page.figures, page.study, page.history, rule)))
    keys = [page.owner_key(rule, owner, "saved") for owner in owners]
    values = [page.number(key, "hours", tag="tspan", signed=True) for key in keys]
    dots = dots_picture(
        [page.owner(owner) for owner in owners], [page.figures.by_key[key] for key in keys], values, UNSEEN
    )
    worths = [
        worth for worth in page.study.worths if page.owner_key(rule, TOGETHER, "saved", worth) in page.figures.by_key
    ]
    series = [_by_day(page, rule, worth) for worth in worths]
    days = days_picture(page.history.dates, series[0], [list(each) for each in zip(*series, strict=True)])
    if len(worths) > 1:
        band = "band: between the assumptions of worth"
    else:
        band = "one assumption of worth" if len(page.study.worths) == 1 else "worth makes no difference to these rules"
    line = "hours of waiting saved; line: where it lies nine times in ten; hollow and grey: not sure"
    return (
        '<div class="cols stretch">'
        + _panel("Who waits less", line, dots, half=True)
        + _panel("Day by day", f"hours saved, by the day of submission; {band}", days, half=True)
        + "</div>"
    )


def _by_day(page: ReportPage, rule: str, worth: str) -> list[float]:
    """Return the hours saved by all owners, by day."""
    keys = [Key("day", rule, page.study.against, worth, owner, "", "saved") for owner in page.history.owners]
    return [sum(page.figures.days.get(key._replace(day=day), 0.0) for key in keys) for day in page.history.dates]


def _winners(page: ReportPage) -> str:
    """Return the table with a row for each owner, the largest loser first."""
    rule, answer, against = page.study.answer, page.rule(page.study.answer), page.rule(page.study.against)
    columns: tuple[tuple[str, str, str], ...] = (
        ("waited_against", "hours", f"Waited, {against}, h"),
        ("waited", "hours", f"Waited, {answer}, h"),
        ("saved", "hours", "Saved, h"),
        ("in_time_against_part", "percent", f"In time, {against}, %"),
        ("in_time_part", "percent", f"In time, {answer}, %"),
        ("in_time_more", "hours", "In time more, unit-h"),
        ("earned", "credits", "Earned"),
        ("spent", "credits", "Spent"),
        ("net", "credits", "Net"),
        ("lent", "hours", "Lent, unit-h"),
        ("borrowed", "hours", "Borrowed, unit-h"),
    )
    undone = (
        ("undone_against", "count", f"Never ended, {against}"),
        ("undone", "count", f"Never ended, {answer}"),
    )
    if any(page.figures.by_key[page.owner_key(rule, TOGETHER, measure)].high for measure, *_ in undone):
        columns += undone  # else the answer says it for all owners
    differences = ("saved", "in_time_more", "net")
    operator = page.history.operator

    def row(owner: str, name: str) -> str:
        cells = ""
        for measure, form, head in columns:
            if owner == operator and measure not in MONEY:  # it has no jobs
                cells += f'<td class="num blank" data-h="{escape(head)}"></td>'
                continue
            # All together earn what they spend, so no draw can show a difference there.
            is_difference = measure in differences and not (measure == "net" and owner == TOGETHER)
            cells += page.cell(page.owner_key(rule, owner, measure), form, head, is_difference=is_difference)
        mine = ' class="me"' if page.reader == owner else ""
        return f'<tr{mine}><th scope="row" class="nowrap">{escape(name)}</th>{cells}</tr>'

    owners = owners_by_loss(page.figures, page.study, page.history, rule)
    body = "".join(row(owner, page.owner(owner)) for owner in owners) + row(operator, "Operator")
    words = (
        "the largest loser first; “in time” is work that ended within twice its run time; below each figure where it "
        "lies nine times in ten, under every assumption of worth"
    )
    heads = ["Owner", *(head for *_, head in columns)]
    table = _table("Winners and losers by owner", heads, body, row(TOGETHER, "Together"))
    return _panel("Winners and losers", words, table)


def _rules(page: ReportPage, rules: Sequence[str]) -> str:
    """Return the table of all rules, compared with the one that they are set against."""
    columns = (
        ("saved", "hours", "Saved, h"),
        ("in_time_part", "percent", "In time, %"),
        ("in_time_more", "hours", "In time more, unit-h"),
        ("undone", "count", "Never ended"),
        ("spent", "credits", "Spent"),
        ("borrowed", "hours", "Borrowed, unit-h"),
    )
    verdicts = (("owners_gain", "Owners that gain"), ("owners_lose", "Owners that lose"))
    rows = []
    for name in rules:
        cells = "".join(
            page.cell(
                page.owner_key(name, TOGETHER, measure), form, head, is_difference=measure in ("saved", "in_time_more")
            )
            for measure, form, head in columns
        )
        cells += "".join(
            f'<td class="num" data-h="{head}">{page.verdict(name, measure)}</td>' for measure, head in verdicts
        )
        words = escape(KINDS[page.study.rule(name).kind])
        rows.append(f'<tr><th scope="row">{escape(name)}<span class="holds">{words}</span></th>{cells}</tr>')
    heads = ["Rule", *(head for *_, head in columns), *(head for _, head in verdicts)]
    title = f"Every rule beside {page.rule(page.study.against)}"
    return _panel(title, "all owners together", _table("Rules", heads, "".join(rows)))


def _believed(page: ReportPage) -> str:
    """Return the panel that compares the log with the replay of its own rule."""
    rule = page.study.log_rule
    has_log = page.history.has_starts
    columns = [(LOG, "", "As the log has it")] * has_log + [(rule, "", f"Replayed, {page.rule(rule)}")]
    columns += [(rule, "log", "Difference")] * has_log
    measures = [("wait_sum", "hours", "Waiting, together, h"), ("wait_mean", "minutes", "Wait, mean, min")]
    measures += [(point, "minutes", f"Wait, {_point(point)}, min") for point in POINTS]
    measures.append(("use_part", "percent", "In use, %"))
    rows = "".join(
        f'<tr><th scope="row">{head}</th>'
        + "".join(
            page.cell(Key("log", name, beside, "", TOGETHER, "", measure), form, label, is_difference=bool(beside))
            for name, beside, label in columns
        )
        + "</tr>"
        for measure, form, head in measures
    )
    names = [name for name, beside, _ in columns if not beside]
    lines = {
        name: [
            page.figures.by_key[Key("log", name, "", "", TOGETHER, day, "use_part")].value for day in page.history.dates
        ]
        for name in names
    }
    legend = "solid: the log; dashed: the replay" if has_log else "the log does not say when jobs started"
    picture = lines_picture(page.history.dates, lines.get(LOG), lines[rule])
    name = f'<p class="chart-name">Units in use by day; the replay is {escape(KINDS[page.study.rule(rule).kind])}</p>'
    table = _table("Log beside replay", ["Measure", *(head for *_, head in columns)], rows)
    return _panel("Can the replay be believed?", legend, name + picture + table, half=True)


def _point(name: str) -> str:
    return f'<span class="level">{name.removeprefix("wait_")} of 100</span>'


def _assumed(page: ReportPage) -> str:
    """Return the panel with what each assumption of worth gives, what was read, and what had to be assumed besides."""
    study, rule = page.study, page.study.answer
    rows = []
    for worth in study.worths:
        key = page.owner_key(rule, TOGETHER, "saved", worth)
        if key in page.figures.by_key:
            counts = "".join(
                f'<td class="num" data-h="{head}">{page.verdict(rule, measure, worth)}</td>'
                for measure, head in (("owners_gain", "Owners that gain"), ("owners_lose", "Owners that lose"))
            )
            cell = page.cell(key, "hours", "Saved, h", is_difference=True)
            rows.append(f'<tr><th scope="row">{escape(WORTHS[worth])}</th>{cell}{counts}</tr>')
    heads = ["What an hour is worth", "Saved, h", "Owners that gain", "Owners that lose"]
    table = _table("Assumptions of worth", heads, "".join(rows)) if rows else ""
    facts = [("Lines of jobs", page.count("rows")), ("Lines that could not be read", page.count("bad_lines"))]
    facts += [(f"Left out: {why}", page.count(f"left out: {why}")) for why in page.history.left_out or {}]
    facts += [("Minutes of a slot", page.count("slot_minutes")), ("Days", page.count("days"))]
    entries = "".join(f"<dt>{escape(name)}</dt><dd>{value}</dd>" for name, value in facts)
    remarks = [] if page.reader else [*page.history.notes, *_bad_lines(page.history)]  # remarks may name owners
    notes = "".join(f'<p class="note told">{escape(note)}</p>' for note in remarks)
    body = f'<div class="stack">{table}<dl class="kv">{entries}</dl>{notes}</div>'
    return _panel("What was assumed", "a log says nothing about worth", body, half=True)


def _bad_lines(history: History) -> list[str]:
    return [f"Line {line.number} {line.why}" for line in history.bad[:LINES_SHOWN]]


def _panel(title: str, words: str, body: str, *, half: bool = False) -> str:
    name = "h-" + "".join(sign if sign.isalnum() else "-" for sign in title.lower())
    return (
        f'<section class="panel{" c6" if half else ""}" aria-labelledby="{escape(name)}">'
        f'<header><h2 id="{escape(name)}">{escape(title)}</h2><p>{escape(words)}</p></header>'
        f'<div class="body">{body}</div></section>'
    )


def _table(caption: str, heads: Sequence[str], body: str, foot: str = "") -> str:
    cells = "".join(f'<th scope="col"{" class=num" if k else ""}>{escape(head)}</th>' for k, head in enumerate(heads))
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}, table"><table class="cards">'
        f'<caption class="visually-hidden">{escape(caption)}</caption>'
        f"<thead><tr>{cells}</tr></thead><tbody>{body}</tbody>"
        f"{f'<tfoot>{foot}</tfoot>' if foot else ''}</table></div>"
    )
