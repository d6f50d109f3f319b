"""The words of the command line. Nothing here reaches for the network, so that help is there at once."""

from __future__ import annotations

import math
from argparse import SUPPRESS, ArgumentParser, ArgumentTypeError, RawDescriptionHelpFormatter
from typing import Any

from bourse_client.command.exits import CODES

STATES = ("queued", "awarded", "running", "finished", "rejected", "expired", "cancelled", "failed", "stopped")
LANES = ("batch", "instant")
ENVIRONMENT = """settings: BOURSE_URL, BOURSE_TOKEN and BOURSE_TENANT, or the file that `bourse login` writes
(BOURSE_CONFIG names another one). NO_COLOR turns colours off."""


def parser_made() -> ArgumentParser:
    parser = ArgumentParser(
        prog="bourse",
        description="Jobs, quotes, prices and money of Bourse, the marketplace for a shared cluster.",
        epilog=f"{ENVIRONMENT}\n\n{CODES}",
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version="bourse 0.1.0")
    _add_common(parser, top=True)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_login(commands)
    _add_jobs(commands)
    _add_quote(commands)
    _add_one_job(commands)
    _add_market(commands)
    _add_money(commands)
    _add_events(commands)
    _add_rest(commands)
    return parser


def _add_common(parser: ArgumentParser, *, top: bool = False) -> None:
    """Understood before the command and after it; only the first place sets what is meant when nothing is said."""

    def default(value: Any) -> Any:
        return value if top else SUPPRESS

    group = parser.add_argument_group("of every command")
    group.add_argument("--url", default=default(""), help="address of the server, as https://bourse.example")
    group.add_argument("--tenant", default=default(""), metavar="NAME", help="the tenant's short name")
    group.add_argument("--json", action="store_true", default=default(False), help="answers as JSON, for programs")
    group.add_argument(
        "--patience",
        type=_positive,
        default=default(30.0),
        metavar="SECONDS",
        help="wait this long for one answer, and three times as long for a call with its repetitions (30)",
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


def _add_jobs(commands: Any) -> None:
    jobs = commands.add_parser("jobs", help="submit, list, show and cancel jobs", allow_abbrev=False)
    jobs.description = "Jobs of the tenant."
    words = jobs.add_subparsers(title="commands", metavar="COMMAND", required=True)
    submit = _add(words, "submit", "jobs:submit", "submit a job")
    _add_job_file(submit)
    submit.add_argument("--otherwise", choices=("batch",), help="refused by the instant lane, it waits for an interval")
    submit.add_argument("--wait", action="store_true", help="wait until the job is over; its end is the exit status")
    submit.add_argument("--timeout", type=_positive, metavar="SECONDS", help="with --wait: not longer than this")
    submit.add_argument("--every", type=_positive, default=2.0, metavar="SECONDS", help="with --wait: how often (2)")
    _add_key(submit)
    listed = _add(words, "list", "jobs:listed", "list jobs, the newest first")
    listed.add_argument("--state", action="append", choices=STATES, help="only in this state; may be repeated")
    listed.add_argument("--lane", choices=LANES, help="only of this lane")
    listed.add_argument("--pool", help="only in this pool")
    listed.add_argument("--name", help="only of exactly this name")
    _add_most(listed, 20)
    show = _add(words, "show", "jobs:show", "one job, with its reason and its times")
    show.add_argument("job", type=_number, metavar="ID")
    cancel = _add(words, "cancel", "jobs:cancel", "cancel one job or many")
    cancel.add_argument("job", type=_number, nargs="+", metavar="ID")
    _add_key(cancel)
    queue = _add(words, "queue", "jobs:queue", "let a job that the instant lane refused wait for the next interval")
    queue.add_argument("job", type=_number, metavar="ID")
    _add_key(queue)


def _add_quote(commands: Any) -> None:
    parser = _add(commands, "quote", "quotes:quote", "what would become of a job, without submitting it")
    _add_job_file(parser)


def _add_one_job(commands: Any) -> None:
    explain = _add(commands, "explain", "jobs:explain", "why a job is where it is")
    explain.add_argument("job", type=_number, metavar="ID")
    what_if = _add(commands, "what-if", "what_if:what_if", "what if a job had said something else in an interval")
    what_if.add_argument("job", type=_number, metavar="ID")
    what_if.add_argument("field", metavar="FIELD", help="as max_price, value or max_workers; or arrival, in slots")
    what_if.add_argument("value", metavar="VALUE", help="a number, a word, or JSON; null: as if it were not given")
    what_if.add_argument("--interval", type=_number, required=True, metavar="N", help="that decided about the job")
    what_if.add_argument("--pool", default="", help="the pool's short name; needed where there are several")
    what_if.add_argument("--every", type=_positive, default=1.0, metavar="SECONDS", help="how often to look (1)")
    _add_key(what_if)
    logs = _add(commands, "logs", "logs:logs", "what a job's programs wrote")
    logs.add_argument("job", type=_number, metavar="ID")
    logs.add_argument("-f", "--follow", action="store_true", help="go on until the job is over")
    logs.add_argument("--every", type=_positive, default=2.0, metavar="SECONDS", help="with --follow: how often (2)")


def _add_market(commands: Any) -> None:
    parser = _add(commands, "prices", "market:prices", "prices of both lanes, now and ahead")
    parser.add_argument("--pool", default="", help="the pool's short name; needed where there are several")
    parser.add_argument("--watch", action="store_true", help="again and again, until interrupted")
    parser.add_argument("--every", type=_positive, default=5.0, metavar="SECONDS", help="with --watch: how often (5)")


def _add_money(commands: Any) -> None:
    _add(commands, "balance", "money:balance", "the tenant's credits: available, held, earned")
    parser = _add(commands, "statement", "money:statement", "a month of the tenant's account")
    parser.add_argument("--month", type=_month, required=True, metavar="YYYY-MM")
    parser.add_argument("--csv", action="store_true", help="as CSV, for a spreadsheet")


def _add_events(commands: Any) -> None:
    parser = _add(commands, "events", "events:events", "what happened lately, the oldest first")
    parser.add_argument("-f", "--follow", action="store_true", help="go on as it happens, until interrupted")
    parser.add_argument("--after", type=int, metavar="ID", help="only what came after this event")
    _add_most(parser, 50)


def _add_rest(commands: Any) -> None:
    parser = _add(commands, "completion", "completion:completion", "print what completes these words in a shell")
    parser.add_argument("shell", choices=("bash", "zsh"))


def _add_job_file(parser: ArgumentParser) -> None:
    parser.add_argument("file", metavar="JOB.YAML", help="the job as YAML or JSON; - is standard input")
    parser.add_argument("--lane", choices=LANES, help="goes before what the file says (batch)")
    parser.add_argument("--pool", default="", help="goes before what the file says; needed where there are several")
    parser.add_argument("--name", default="", help="goes before what the file says")
    parser.add_argument("--max-price", type=_positive, metavar="CREDITS", help="pay at most this for the whole job")


def _add_most(parser: ArgumentParser, usual: int) -> None:
    parser.add_argument("--limit", type=_number, default=usual, metavar="N", help=f"at most so many ({usual})")
    parser.add_argument("--all", action="store_true", help="all there are")


def _add_key(parser: ArgumentParser) -> None:
    parser.add_argument("--key", type=_key, help="Idempotency-Key: with the same one, the same thing is done once")


def _positive(text: str) -> float:
    number = float(text)
    if not (number > 0 and math.isfinite(number)):
        raise ArgumentTypeError(f"{text} must be more than 0")
    return number


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 18 and int(text) > 0):
        raise ArgumentTypeError(f"{text} must be a number from 1 on")
    return int(text)


def _month(text: str) -> str:
    year, _, month = text.partition("-")
    if not (len(year) == 4 and len(month) == 2 and text.replace("-", "").isdigit() and 1 <= int(month) <= 12):
        raise ArgumentTypeError(f"{text} must be a month as 2026-11")
    return text


def _key(text: str) -> str:
    if not (0 < len(text) <= 200 and text.isascii() and text.isprintable()):
        raise ArgumentTypeError("must have 1 to 200 printable ASCII characters")
    return text
