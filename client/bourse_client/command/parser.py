"""The words of the command line. Nothing here loads the network's code, so that help is there at once."""

from __future__ import annotations

import re
from argparse import SUPPRESS, ArgumentParser, ArgumentTypeError, RawDescriptionHelpFormatter
from typing import Any

from bourse_client import __version__
from bourse_client.command.exits import CODES

STATES = ("queued", "awarded", "running", "finished", "rejected", "expired", "cancelled", "failed", "stopped")
SERVER_STATES = ("in_service", "draining", "lost")
METHODS = ("GET", "POST", "PUT")  # the interface has no others
LANES = ("batch", "instant")
LEVELS = ("debug", "info", "warning", "error")
LATER = ("nothing", "half", "hardly")
SETTINGS = ("pool", "tenant")
ALL = "all"  # runs of a job
LONGEST_KEY = 200  # signs
MOST_SECONDS = 100_000_000  # three years
ENVIRONMENT = """settings: BOURSE_URL, BOURSE_TOKEN, BOURSE_TENANT and BOURSE_POOL, or the file that `bourse login`
writes and `bourse config set` changes (BOURSE_CONFIG names another one). NO_COLOR turns colours off."""


def parser_made() -> ArgumentParser:
    parser = ArgumentParser(
        prog="bourse",
        description="Jobs, quotes, prices and money of Bourse, the marketplace for a shared cluster.",
        epilog=f"{ENVIRONMENT}\n\n{CODES}",
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"bourse {__version__}")
    _add_common(parser, top=True)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_login(commands)
    _add_jobs(commands)
    _add_run(commands)
    _add_quote(commands)
    _add_one_job(commands)
    _add_programs(commands)
    _add_lab(commands)
    _add_market(commands)
    _add_cluster(commands)
    _add_money(commands)
    _add_events(commands)
    _add_api(commands)
    _add_rest(commands)
    return parser


def _add_common(parser: ArgumentParser, *, top: bool = False) -> None:
    """Add options that are understood before the command and after it. Only those before it have defaults."""

    def default(value: Any) -> Any:
        return value if top else SUPPRESS

    group = parser.add_argument_group("of every command")
    group.add_argument("--url", default=default(""), help="address of the server, as https://bourse.example")
    group.add_argument("--tenant", default=default(""), metavar="NAME", help="the tenant's short name")
    group.add_argument("--json", action="store_true", default=default(False), help="answers as JSON, for programs")
    group.add_argument(
        "--patience",
        type=_seconds,
        default=default(35.0),  # as in `transport.Pace`, which help does not load
        metavar="SECONDS",
        help="wait this long for one answer, and three times as long for a call with its repetitions (35)",
    )


def _add(commands: Any, name: str, command: str, text: str) -> ArgumentParser:
    parser: ArgumentParser = commands.add_parser(name, help=text, description=text, allow_abbrev=False)
    parser.set_defaults(command=command)
    _add_common(parser)
    return parser


def _add_login(commands: Any) -> None:
    parser = _add(commands, "login", "login:login", "keep address and token in a file that only you can read")
    parser.add_argument("--token-stdin", action="store_true", help="read the token from standard input, without asking")
    _add(commands, "logout", "login:logout", "forget address and token")
    _add(commands, "tenants", "login:tenants", "who you are, and your tenants with your role in each")
    config = commands.add_parser("config", help="what is meant where a command does not say it", allow_abbrev=False)
    config.description = "The pool and the tenant that are meant where a command names none."
    words = config.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add(words, "show", "login:config_show", "what is set")
    change = _add(words, "set", "login:config_set", "set one of them")
    change.add_argument("name", choices=SETTINGS)
    change.add_argument("value", metavar="VALUE", help="its short name")
    removal = _add(words, "unset", "login:config_unset", "forget one of them")
    removal.add_argument("name", choices=SETTINGS)


def _add_jobs(commands: Any) -> None:
    jobs = commands.add_parser("jobs", help="submit, list, show and cancel jobs", allow_abbrev=False)
    jobs.description = "Jobs of the tenant."
    words = jobs.add_subparsers(title="commands", metavar="COMMAND", required=True)
    submit = _add(words, "submit", "jobs:submit", "submit a job: a file of YAML, JSON, or a batch script of Slurm")
    _add_job_file(submit)
    submit.add_argument("--count", type=_number, metavar="N", help="an array of so many jobs (a script has --array)")
    submit.add_argument("--bulk", action="store_true", help="the file has a job on each line, as JSON: submit them all")
    submit.add_argument("--together", action="store_true", help="buy the array's jobs in one interval, all or none")
    _add_worth(submit)
    _add_submission(submit)
    listing = _add(words, "list", "jobs:list_jobs", "list jobs, the newest first")
    listing.add_argument("--state", action="append", choices=STATES, help="only in this state; may be repeated")
    listing.add_argument("--lane", choices=LANES, help="only of this lane")
    listing.add_argument("--pool", help="only in this pool")
    listing.add_argument("--name", help="only of exactly this name")
    listing.add_argument("--array", type=_array, metavar="A-12", help="the members of this array")
    _add_most(listing, 20)
    show = _add(words, "show", "jobs:show", "one job, with its reason and its times")
    show.add_argument("job", type=_job_or_array, metavar="ID", help="of a job, or A-12 of an array")
    pieces = _add(words, "pieces", "jobs:pieces", "what each piece of a job did and cost, where it rents in pieces")
    pieces.add_argument("job", type=_job, metavar="ID")
    cancel = _add(words, "cancel", "jobs:cancel", "cancel one job or many, or an array")
    cancel.add_argument("job", type=_job_or_array, nargs="+", metavar="ID", help="of a job, or A-12 of an array")
    cancel.add_argument("--most", metavar="CREDITS", help="only if it costs no more of what is held")
    cancel.add_argument("--yes", action="store_true", help="do not ask; else a terminal does where it costs something")
    _add_key(cancel)
    queue = _add(words, "queue", "jobs:queue", "let a job that the instant lane refused wait for the next interval")
    queue.add_argument("job", type=_job, metavar="ID")
    _add_key(queue)


def _add_run(commands: Any) -> None:
    run = _add(commands, "run", "jobs:run", "run a command on so many GPUs for so long")
    run.add_argument("--gpus", type=_number, required=True, metavar="N", help="how many, all alike")
    run.add_argument("--hours", type=_positive, required=True, metavar="H", help="how long it takes with them")
    run.add_argument("--lane", choices=LANES, help="batch waits for the next interval, instant is answered now (batch)")
    run.add_argument("--pool", default="", help="the pool's short name; else the one that is set, or the only one")
    run.add_argument("--name", default="", help="what the job is called")
    run.set_defaults(max_price=None, until_converged=None, in_a_row=None)
    _add_worth(run)
    _add_submission(run)
    run.add_argument("words", nargs="*", metavar="COMMAND", help="what runs, behind two dashes")


def _add_worth(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("of batch scripts and commands")
    group.add_argument("--by", default="", metavar="MOMENT", help="by when: now+6hours, or 2026-12-01T08:00")
    group.add_argument("--worth", type=_amount, metavar="CREDITS", help="what it is worth to you by then")
    group.add_argument("--later", choices=LATER, help="what is left of it later: nothing, half after as long again")
    group.add_argument(
        "--with",
        dest="brings",
        action="append",
        default=[],
        metavar="PATH",
        help="a file or folder below the current one that comes along, as train.py or src/; repeatable",
    )
    group.add_argument("--dry-run", action="store_true", help="say what comes of each line, and submit nothing")


def _add_submission(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--after",
        action="append",
        type=_job_or_array,
        metavar="ID",
        help="begin once this job has ended well, or all jobs of the array A-12; repeatable",
    )
    pieces = parser.add_mutually_exclusive_group()
    pieces.add_argument(
        "--divisible",
        action="store_const",
        const=True,
        help="it can be saved and go on later, so it may rent in pieces (else: as its program can)",
    )
    pieces.add_argument(
        "--whole", dest="divisible", action="store_const", const=False, help="sell it as a whole, never in pieces"
    )
    parser.add_argument("--otherwise", choices=("batch",), help="refused by the instant lane, it waits for an interval")
    parser.add_argument("--wait", action="store_true", help="wait until the job is over; its end is the exit status")
    parser.add_argument("--timeout", type=_seconds, metavar="SECONDS", help="with --wait: not longer than this")
    parser.add_argument("--every", type=_seconds, metavar="SECONDS", help="with --wait: how often (2)")
    _add_key(parser)


def _add_quote(commands: Any) -> None:
    parser = _add(commands, "quote", "quotes:quote", "what would become of a job, without submitting it")
    _add_job_file(parser)


def _add_one_job(commands: Any) -> None:
    explain = _add(commands, "explain", "jobs:explain", "why a job is where it is")
    explain.add_argument("job", type=_job, metavar="ID")
    what_if = _add(commands, "what-if", "what_if:what_if", "what if a job had said something else in an interval")
    what_if.add_argument("job", type=_job, metavar="ID")
    what_if.add_argument("field", metavar="FIELD", help="as max_price, value or max_workers; or arrival, in slots")
    what_if.add_argument("value", metavar="VALUE", help="a number, a word, or JSON; null: as if it were not given")
    what_if.add_argument("--interval", type=_number, required=True, metavar="N", help="that decided about the job")
    what_if.add_argument("--pool", default="", help="the pool's short name; else the job's own")
    what_if.add_argument("--every", type=_seconds, default=1.0, metavar="SECONDS", help="how often to look (1)")
    _add_key(what_if)
    logs = _add(commands, "logs", "logs:logs", "what a job's programs wrote")
    logs.add_argument("job", type=_job, metavar="ID")
    which = logs.add_mutually_exclusive_group()
    which.add_argument("-f", "--follow", action="store_true", help="go on until the job is over")
    which.add_argument(
        "--run",
        type=_number_or_all,
        metavar="N",
        help="of this run, 1 is the job's first, or of all; else of the newest",
    )
    logs.add_argument("--search", default="", metavar="TEXT", help="only lines with this text, in whichever case")
    logs.add_argument("--level", choices=LEVELS, help="only lines that say this level or a graver one")
    logs.add_argument("--who", default="", metavar="NAME", help='only lines of this one, as "worker 1"')
    logs.add_argument("--every", type=_seconds, default=2.0, metavar="SECONDS", help="with --follow: how often (2)")
    files = _add(commands, "files", "files:files", "the files that a job's program wrote: listed, or brought here")
    files.add_argument("job", type=_job, metavar="ID")
    files.add_argument(
        "--fetch",
        nargs="+",
        metavar=("DIR", "PATH"),
        help="write them below this folder: all, or the files and folders that are named",
    )
    files.add_argument("--force", action="store_true", help="with --fetch: overwrite what is there")


def _add_programs(commands: Any) -> None:
    programs = commands.add_parser("programs", help="what a job may run", allow_abbrev=False)
    programs.description = "Programs that jobs of the tenant may name, and the tenant's own."
    words = programs.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add(words, "list", "programs:list_programs", "list programs, the tenant's own first")
    show = _add(words, "show", "programs:show", "one program: what it did, its parameters, its versions, its words")
    show.add_argument("name", metavar="NAME")
    show.add_argument("--version", dest="number", type=_number, metavar="N", help="which one; without it, the newest")
    register = _add(words, "register", "programs:register", "a program of the tenant's own, or its next version")
    register.add_argument("file", metavar="PROGRAM.YAML", help="the program as YAML or JSON; - is standard input")
    register.add_argument("--archive", metavar="FILE.TAR.GZ", help="unpacked into the folder of each job")
    _add_key(register)
    retire = _add(words, "retire", "programs:retire", "let no new job name a program; jobs that have it keep it")
    retire.add_argument("name", metavar="NAME")
    _add_key(retire)
    archive = _add(words, "archive", "programs:archive", "write the archive of a version to a file")
    archive.add_argument("name", metavar="NAME")
    archive.add_argument("output", metavar="FILE.TAR.GZ")
    archive.add_argument("--force", action="store_true", help="overwrite the file if it is there")
    archive.add_argument(
        "--version", dest="number", type=_number, metavar="N", help="which one; without it, the newest"
    )
    for parser in (show, archive):
        parser.add_argument("--owner", default="", metavar="NAME", help="whose; else the tenant's, or the operator's")


def _add_lab(commands: Any) -> None:
    lab = commands.add_parser("lab", help="a cluster's past, decided again", allow_abbrev=False)
    lab.description = "Studies of a cluster's past: who would have won and lost under other rules. For the staff."
    words = lab.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add(words, "list", "lab:list_studies", "list studies, the newest first")
    create = _add(words, "create", "lab:create", "send a study with the files that it names, and see what it will take")
    create.add_argument("file", metavar="STUDY.YAML", help="the study as YAML or JSON; - is standard input")
    create.add_argument("--pool", default="", help="of this pool's own past, in place of a log")
    create.add_argument("--from", dest="start", metavar="TIME", help="with --pool: as 2026-10-01T00:00:00Z")
    create.add_argument("--to", dest="end", metavar="TIME", help="with --pool: the first moment after it")
    create.add_argument("--start", dest="at_once", action="store_true", help="begin without a look at the cost")
    show = _add(words, "show", "lab:show", "one study: how far it is, and what came of it")
    begin = _add(words, "start", "lab:start", "begin a study that is ready")
    cancel = _add(words, "cancel", "lab:cancel", "call a study off; what it has done is kept")
    resume = _add(words, "resume", "lab:resume", "go on with a study that was called off")
    download = _add(words, "download", "lab:download", "write the report of a study to a file")
    for parser in (show, begin, cancel, resume, download):
        parser.add_argument("study", type=_number, metavar="ID")
    for parser in (create, begin, resume):
        parser.add_argument("--every", type=_seconds, default=2.0, metavar="SECONDS", help="how often to look (2)")
    for parser in (create, begin, cancel, resume):
        _add_key(parser)
    download.add_argument("output", metavar="FILE")
    download.add_argument("--force", action="store_true", help="overwrite the file if it is there")
    download.add_argument("--figures", action="store_true", help="every number as CSV in place of the report")


def _add_market(commands: Any) -> None:
    parser = _add(commands, "prices", "market:prices", "prices of both lanes, now and ahead")
    parser.add_argument("--pool", default="", help="the pool's short name; needed where there are several")
    parser.add_argument("--watch", action="store_true", help="again and again, until interrupted")
    parser.add_argument("--every", type=_seconds, default=5.0, metavar="SECONDS", help="with --watch: how often (5)")


def _add_cluster(commands: Any) -> None:
    servers = _add(commands, "servers", "cluster:servers", "servers of a pool: their state, their units, and whose")
    servers.add_argument("--state", action="append", choices=SERVER_STATES, help="only in this state; may be repeated")
    share = _add(commands, "share", "cluster:share", "what the tenant's own units do now, and what it lends and rents")
    share.add_argument("--servers", action="store_true", help="server by server, also those that it rents on")
    for parser in (servers, share):
        parser.add_argument(
            "--pool", default="", help="the pool's short name; else the one that is set, or the only one"
        )


def _add_money(commands: Any) -> None:
    _add(commands, "balance", "money:balance", "the tenant's credits: available, held, earned")
    parser = _add(commands, "statement", "money:statement", "a month of the tenant's account")
    parser.add_argument("--month", type=_month, required=True, metavar="YYYY-MM")
    parser.add_argument("--csv", action="store_true", help="as CSV, for a spreadsheet")


def _add_events(commands: Any) -> None:
    parser = _add(commands, "events", "events:events", "what happened lately, the oldest first")
    parser.add_argument("-f", "--follow", action="store_true", help="go on as it happens, until interrupted")
    parser.add_argument("--after", type=_number_from_0, metavar="ID", help="only what came after this event")
    _add_most(parser, 50)


def _add_api(commands: Any) -> None:
    parser = _add(commands, "api", "api:api", "any call of the interface, with your token")
    parser.description = "Any call of the interface, with your token. The page Interface lists all of them."
    parser.add_argument("method", type=str.upper, choices=METHODS, metavar="METHOD", help=", ".join(METHODS))
    parser.add_argument("path", metavar="/PATH", help="below /api/v1; {tenant} and {pool} are yours")
    parser.add_argument(
        "-F",
        "--field",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="of the query of a GET, else of the body, where true, 12 and [1] are JSON; @FILE: what the file holds",
    )
    parser.add_argument(
        "-f", "--raw-field", action="append", default=[], metavar="NAME=TEXT", help="the same, always a text"
    )
    parser.add_argument("--input", default="", metavar="FILE", help="the whole body, as JSON; - is standard input")
    parser.add_argument("--all", action="store_true", help="of a list, every page, as one document")
    parser.add_argument("--output", default="", metavar="FILE", help="write the answer there, as it comes")
    _add_key(parser)


def _add_rest(commands: Any) -> None:
    parser = _add(commands, "completion", "completion:completion", "print what completes these words in a shell")
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))


def _add_job_file(parser: ArgumentParser) -> None:
    parser.add_argument("file", metavar="JOB.YAML", help="the job as YAML or JSON; - is standard input")
    parser.add_argument("--lane", choices=LANES, help="goes before what the file says (batch)")
    parser.add_argument("--pool", default="", help="goes before what the file says, and before the one that is set")
    parser.add_argument("--name", default="", help="goes before what the file says")
    parser.add_argument("--max-price", type=_positive, metavar="CREDITS", help="pay at most this for the whole job")
    parser.add_argument(
        "--until-converged",
        type=_percent,
        metavar="PERCENT",
        help="end once the loss falls by less than this in an epoch, in per cent of its largest, as 1",
    )
    parser.add_argument("--in-a-row", type=_number, metavar="EPOCHS", help="and that in so many epochs in a row (3)")


def _add_most(parser: ArgumentParser, usual: int) -> None:
    parser.add_argument("--limit", type=_number, default=usual, metavar="N", help=f"at most so many ({usual})")
    parser.add_argument("--all", action="store_true", help="all there are")


def _add_key(parser: ArgumentParser) -> None:
    parser.add_argument("--key", type=_key, help="Idempotency-Key: with the same one, the same thing is done once")


def _positive(text: str) -> float:
    """Read a number strictly: `float` would also take 1_000, 1e3 and blanks."""
    _require_plain(text, "a number", before=15, behind=15)
    return float(text)


def _require_plain(text: str, what: str, *, before: int, behind: int) -> None:
    """Refuse a text that is not in plain digits, has more of them than are read before or behind its point, or is 0."""
    digits = re.fullmatch(r"([0-9]+)(?:\.([0-9]+))?", text)
    if digits is None:
        raise ArgumentTypeError(f"{text} must be {what} of more than 0 in plain digits, such as 12.5")
    if len(digits[1]) > before or len(digits[2] or "") > behind:
        most = f"at most {before} digits before its point and {behind} behind it"
        raise ArgumentTypeError(f"{text} must be {what} with {most}")
    if not text.strip("0."):
        raise ArgumentTypeError(f"{text} must be {what} of more than 0, such as 12.5")


def _seconds(text: str) -> float:
    """Read a time that the clocks of machines can wait."""
    seconds = _positive(text)
    if seconds > MOST_SECONDS:
        raise ArgumentTypeError(f"{text} must be at most {MOST_SECONDS} seconds")
    return seconds


def _percent(text: str) -> float:
    """Read per cent as a part of one."""
    return float(f"{_positive(text.removesuffix('%')) / 100:.12g}")


def _amount(text: str) -> str:
    """Check an amount strictly, and return it as it was typed: the interface takes amounts as texts, and knows how many
    digits they may have."""
    _require_plain(text, "an amount", before=13, behind=18)
    return text


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 18 and int(text) > 0):
        raise ArgumentTypeError(f"{text} must be a number from 1 on")
    return int(text)


def _job(text: str) -> int:
    if text.upper().startswith("A-"):
        array = f"A-{_array(text)}"
        raise ArgumentTypeError(
            f"{array} is an array: name one of its jobs; bourse jobs list --array {array} lists them"
        )
    return _job_number(text)


def _job_number(text: str) -> int:
    """Read the number of a job, also as pages and sentences write it, J-88."""
    try:
        return _number(text[2:] if text.upper().startswith("J-") else text)
    except ArgumentTypeError:
        raise ArgumentTypeError(f"{text} must be the number of a job, as 88 or J-88") from None


def _number_or_all(text: str) -> int | str:
    try:
        return ALL if text == ALL else _number(text)
    except ArgumentTypeError as error:
        raise ArgumentTypeError(f"{error}, or {ALL}") from None


def _number_from_0(text: str) -> int:
    return 0 if text == "0" else _number(text)


class ArrayNumber(int):
    """The number of an array of jobs, which is written A-12."""


def _array(text: str) -> ArrayNumber:
    try:
        return ArrayNumber(_number(text.upper().removeprefix("A-")))
    except ArgumentTypeError:
        raise ArgumentTypeError(f"{text} must be the number of an array, as A-12") from None


def _job_or_array(text: str) -> int:
    return _array(text) if text.upper().startswith("A-") else _job_number(text)


def _month(text: str) -> str:
    month = text.rpartition("-")[2]
    if not (re.fullmatch(r"[0-9]{4}-[0-9]{2}", text) and 1 <= int(month) <= 12):
        raise ArgumentTypeError(f"{text} must be a month as 2026-11")
    return text


def _key(text: str) -> str:
    if not (0 < len(text) <= LONGEST_KEY and text.isascii() and text.isprintable()):
        raise ArgumentTypeError(f"must have 1 to {LONGEST_KEY} printable ASCII characters")
    return text
