"""Readers of option values: each returns a number, a text or a small record, or a `BadValue` with what is wrong."""

from __future__ import annotations

import re
from dataclasses import dataclass

from scheduling.programs.fields import shown
from scheduling.programs.ordering import Waited, array_named, waited_in_order

MOST = 10**6  # the highest count of anything
MOST_INDEXES = 1_000  # jobs of one array
MOST_HOSTS = 1_000
MOST_SECONDS = 366 * 86_400
LONGEST = 200
MONTHS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


@dataclass(frozen=True)
class BadValue:
    """What is wrong with a value, and the nearest valid one."""

    sentence: str
    nearest: str = ""


@dataclass(frozen=True)
class Gpus:
    """A number of GPUs, of one type if `kind` is not empty."""

    count: int
    kind: str = ""


@dataclass(frozen=True)
class Nodes:
    """The least and the highest number of servers."""

    least: int
    most: int


@dataclass(frozen=True)
class When:
    """A moment: either `after_seconds` after the submission, or `at`, in the submitter's time zone, such as
    2026-12-01T08:00:00."""

    after_seconds: int | None = None
    at: str = ""


@dataclass(frozen=True)
class Export:
    """The variables that the script starts with. `everything` says that the submitter's are requested, too."""

    everything: bool
    variables: tuple[tuple[str, str], ...] = ()


def whole(text: str, *, least: int = 1, most: int = MOST) -> int | BadValue:
    """Read a whole number in digits."""
    if not re.fullmatch(r"[0-9]{1,12}", text, re.ASCII):
        return BadValue(f"must be a whole number, not {shown(text)}", str(least))
    number = int(text)
    if number < least:
        return BadValue(f"must be at least {least}, not {number}", str(least))
    if number > most:
        return BadValue(f"must be at most {most}, not {number}", str(most))
    return number


def plain_text(text: str) -> str | BadValue:
    """Read a short text that can be shown on one line."""
    if not text or len(text) > LONGEST or not text.isprintable():
        return BadValue(f"must be 1 to {LONGEST} printable characters, not {shown(text)}")
    return text


def nodes(text: str) -> Nodes | BadValue:
    """Read a number of servers, or a range of numbers: 2 or 2-4."""
    low, dash, high = text.partition("-")
    least = whole(low)
    most = whole(high) if dash else least
    if isinstance(least, BadValue) or isinstance(most, BadValue):
        return BadValue(f"must be a number of nodes or a range of two, not {shown(text)}", "2-4")
    if least > most:
        return BadValue(f"must be a range from low to high, not {shown(text)}", f"{most}-{least}")
    return Nodes(least, most)


def gpus(text: str) -> Gpus | BadValue:
    """Read a number of GPUs, or a type and a number: 4 or a100:4."""
    if "," in text:
        return BadValue("names several types of GPUs, and all workers of a job are alike", text.split(",")[0])
    kind, colon, count = text.rpartition(":")
    if colon and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", kind, re.ASCII):
        return BadValue(f"must be a number of GPUs or TYPE:NUMBER, not {shown(text)}", "a100:4")
    number = whole(count)
    if isinstance(number, BadValue):
        return BadValue(f"must be a number of GPUs or TYPE:NUMBER, not {shown(text)}", f"{kind}:1" if colon else "1")
    return Gpus(number, kind)


def gres(text: str) -> Gpus | BadValue:
    """Read GPUs of a node: gpu, gpu:2 or gpu:a100:2. No other generic resource is known here."""
    name, colon, rest = text.partition(":")
    if "," in text or name != "gpu":
        return BadValue(f"knows GPUs alone, not {shown(text)}", "gpu:1")
    if not colon:
        return Gpus(1)
    if re.fullmatch(r"[A-Za-z][A-Za-z0-9_.-]{0,63}", rest, re.ASCII):  # gpu:a100 is one of them
        return Gpus(1, rest)
    return gpus(rest)


def memory(text: str) -> int | BadValue:
    """Read mebibytes from a number with K, M, G or T, or M if it has no letter. Fractions are rounded up."""
    match = re.fullmatch(r"([0-9]{1,12})([KMGT]?)B?", text, re.ASCII | re.IGNORECASE)
    if not match:
        return BadValue(f"must be a number with K, M, G or T, not {shown(text)}", "16G")
    number, unit = int(match[1]), match[2].upper() or "M"
    if number == 0:
        return BadValue("asks for all the memory of a node, and a node may be shared here: say how much", "16G")
    mebibytes = -(-number // 1024) if unit == "K" else number * {"M": 1, "G": 1024, "T": 1024**2}[unit]
    return BadValue(f"must be at most 1024T, not {shown(text)}", "1024T") if mebibytes > 1024**3 else mebibytes


def duration(text: str) -> int | BadValue:
    """Read seconds from M, M:S, H:M:S, D-H, D-H:M or D-H:M:S, as Slurm does."""
    if text.lower() in ("0", "infinite", "unlimited", "-1"):
        return BadValue("must have an end: what is bought is so much time", "24:00:00")
    days, dash, clock = text.rpartition("-")
    parts = clock.split(":")
    if not all(re.fullmatch(r"[0-9]{1,9}", part, re.ASCII) for part in [*parts, *([days] if dash else [])]):
        return BadValue(f"must be M, M:S, H:M:S, D-H, D-H:M or D-H:M:S, not {shown(text)}", "6:00:00")
    if len(parts) > 3:
        return BadValue(f"must be M, M:S, H:M:S, D-H, D-H:M or D-H:M:S, not {shown(text)}", "6:00:00")
    numbers = [int(part) for part in parts]
    if dash:
        hours, minutes, seconds = [*numbers, 0, 0][:3]
    elif len(numbers) == 3:
        hours, minutes, seconds = numbers
    else:
        hours, (minutes, seconds) = 0, [*numbers, 0][:2]
    total = ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds
    if not 0 < total <= MOST_SECONDS:
        return BadValue(f"must be more than nothing and at most 366 days, not {shown(text)}", "6:00:00")
    return total


def indexes(text: str) -> tuple[int, ...] | BadValue:
    """Read the indexes of an array, and return them in rising order, each once: 0-9, 1,3,5-7 or 0-20:4."""
    if "%" in text:
        return BadValue("a limit of how many run at once cannot be kept", text.partition("%")[0])
    numbers: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9})(?::([0-9]{1,9}))?)?", part, re.ASCII)
        if not match:
            return BadValue(f"must be indexes and ranges such as 1,3,5-7 or 0-20:4, not {shown(text)}", "0-9")
        low, high, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
        if high < low or step < 1:
            return BadValue(f"must be ranges from low to high in steps of 1 or more, not {shown(part)}", "0-9")
        if (high - low) // step + 1 <= MOST_INDEXES:
            numbers.update(range(low, high + 1, step))
        if (high - low) // step + 1 > MOST_INDEXES or len(numbers) > MOST_INDEXES:
            last = low + (MOST_INDEXES - 1) * step
            return BadValue(f"must be at most {MOST_INDEXES} jobs", f"{low}-{last}" + (f":{step}" if step > 1 else ""))
    return tuple(sorted(numbers))


def after_ok(text: str) -> tuple[Waited, ...] | BadValue:
    """Read jobs that must have ended well, or arrays all of whose jobs must: afterok:12, afterok:12:15 or
    afterok:A-3."""
    if "?" in text:
        return BadValue("one of several conditions cannot be kept: all of them must hold", text.replace("?", ","))
    jobs: list[Waited] = []
    for part in text.split(","):
        kind, colon, rest = part.partition(":")
        numbers = rest.split(":")
        if kind != "afterok" or not colon:
            return BadValue(f"knows afterok alone, not {shown(kind)}", f"afterok:{rest or '12'}")
        if not all(re.fullmatch(r"(A-)?[0-9]{1,18}", number, re.ASCII) for number in numbers):
            return BadValue(
                f"must be afterok: with numbers of jobs, or arrays as A-3, not {shown(text)}", "afterok:12:15"
            )
        jobs += [array_named(int(each[2:])) if each.startswith("A-") else int(each) for each in numbers]
    return tuple(waited_in_order(jobs))


def moment(text: str) -> When | BadValue:
    """Read a moment: now, now+2hours, 2026-12-01, 2026-12-01T08:00 or 2026-12-01T08:00:00."""
    if text == "now":
        return When(0)
    later = re.fullmatch(r"now\+([0-9]{1,9})(seconds?|minutes?|hours?|days?|weeks?)?", text, re.ASCII)
    if later:
        unit = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}[(later[2] or "s")[0]]
        seconds = int(later[1]) * unit
        if seconds > MOST_SECONDS:
            return BadValue("must be within 366 days", "now+52weeks")
        return When(seconds)
    day = re.fullmatch(r"([0-9]{4})-([0-9]{2})-([0-9]{2})(?:T([0-9]{2}):([0-9]{2})(?::([0-9]{2}))?)?", text, re.ASCII)
    if not day:
        return BadValue(f"must be now+2hours or 2026-12-01T08:00, not {shown(text)}", "now+2hours")
    year, month, date, hour, minute, second = (int(part or 0) for part in day.groups())
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    there_is = 1 <= month <= 12 and 1 <= date <= MONTHS[month - 1] - (month == 2 and not leap)
    if not (there_is and year >= 1970 and hour < 24 and minute < 60 and second < 60):
        return BadValue(f"there is no such moment: {shown(text)}", "2026-12-01T08:00")
    return When(at=f"{year:04}-{month:02}-{date:02}T{hour:02}:{minute:02}:{second:02}")


def pattern(text: str) -> str | BadValue:
    """Read a file's name, which may have %j, %A, %a, %x, %N, %n, %s, %t, %u or %% in it."""
    name = plain_text(text)
    if isinstance(name, BadValue):
        return name
    for match in re.finditer(r"%([0-9]*)(.?)", text):
        if match[2] not in tuple("jJAaxNnstub%"):
            return BadValue(f"has {shown(match[0])}, which stands for nothing", "%j")
    return text


def path(text: str) -> str | BadValue:
    """Read a folder's name."""
    return plain_text(text)


def constraint(text: str) -> tuple[str, ...] | BadValue:
    """Read the features that every server must have: a100 or a100&nvlink."""
    features = text.split("&")
    if not all(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", feature, re.ASCII) for feature in features):
        names = re.findall(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", text, re.ASCII)
        return BadValue(f"must be features joined by &, not {shown(text)}", names[0] if names else "a100")
    return tuple(dict.fromkeys(features))


def hosts(text: str) -> tuple[str, ...] | BadValue:
    """Read names of servers, with ranges in brackets: n1,n[3-5,8]."""
    names: list[str] = []
    rest = text
    while rest:
        match = re.match(r"([A-Za-z0-9][A-Za-z0-9_.-]{0,63})(?:\[([0-9,-]{1,200})\])?(?:,(?=.)|\Z)", rest, re.ASCII)
        if not match:
            return BadValue(f"must be names of servers such as n1,n[3-5,8], not {shown(text)}", "n[1-4]")
        numbers = [""] if match[2] is None else _numbers(match[2], MOST_HOSTS + 1 - len(names))
        if numbers is None:
            return BadValue(f"must be names of servers such as n1,n[3-5,8], not {shown(text)}", "n[1-4]")
        names += [match[1] + number for number in numbers]
        if len(names) > MOST_HOSTS:
            return BadValue(f"must name at most {MOST_HOSTS} servers", "n[1-4]")
        rest = rest[match.end() :]
    return tuple(dict.fromkeys(names)) or BadValue("must name a server", "n1")


def _numbers(text: str, most: int) -> list[str] | None:
    """Return the numbers in brackets with their leading zeros, at most `most`; None if it is not such a list."""
    texts: list[str] = []
    for part in text.split(","):
        low, dash, high = part.partition("-")
        high = high if dash else low
        if not (low.isdigit() and high.isdigit() and len(low) <= 9 and len(high) <= 9 and int(low) <= int(high)):
            return None
        count = min(int(high) - int(low) + 1, most - len(texts))
        texts += [f"{int(low) + k:0{len(low)}}" for k in range(count)]
    return texts


def export(text: str) -> Export | BadValue:
    """Read ALL, NONE, or variables with their values: ALL,SEED=3."""
    if text == "NONE":
        return Export(everything=False)
    everything, variables = False, dict[str, str]()
    parts = text.split(",")
    if nothing := next((part for part in parts if part in ("NONE", "NIL")), ""):
        rest = ",".join(_with_value(part) for part in parts if part not in ("NONE", "NIL"))
        return BadValue(
            f"must be NONE alone, or variables without {nothing}: without ALL they are all that is set", rest or "NONE"
        )
    for part in parts:
        name, equals, value = part.partition("=")
        if part == "ALL":
            everything = True
        elif not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,63}", name, re.ASCII):
            return BadValue(f"must be ALL, NONE or NAME=VALUE, not {shown(part)}", "ALL,NAME=VALUE")
        elif not equals:
            nearest = ",".join(map(_with_value, parts))
            return BadValue(f"needs the value of {name}: what is set where you submit is not known here", nearest)
        elif name.startswith("BOURSE_"):
            nearest = ",".join(f"MY_{each}" if each == part else each for each in parts)
            return BadValue(f"{name} is set for every process, and cannot be another value", nearest)
        elif not value.isprintable():
            return BadValue(f"the value of {name} has characters that cannot be shown")
        else:
            variables[name] = value
    return Export(everything, tuple(sorted(variables.items())))


def _with_value(part: str) -> str:
    return part if part == "ALL" or "=" in part else f"{part}=..."
