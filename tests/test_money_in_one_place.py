"""One module reads, rounds, writes and exports amounts of money: `tenants.ledger.amounts`. Nobody else does.

What a credit is counted in, and how an amount of the core is rounded, it has from `scheduling.core.currency`; the
program in a bundle stands alone on purpose (tests/ledger/test_amounts.py compares the two), and engines know no money.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MODULE = "tenants/ledger/amounts.py"
NOT_OURS = ("scheduling/core/", "scheduling/engines/", "scheduling/audit/bundle/check.py")
# Figures of scenarios; what is said there about the live market must not name money below.
LAB = ("scheduling/lab/", "scheduling/management/")

ROUNDING = frozenset({"round", "floor", "ceil", "trunc", "rint", "around", "quantize", "to_integral_value"})
MONEY = re.compile(
    r"\b\w*(credit|price|paid|pays|worth|cost|budget|earned|spent|refund|returned|revenue|payout|per_slot|max_pay)\w*\b"
)
MILLION = ("MICRO", "1000000", "1000000.0", "1e-06")

# What is rounded elsewhere, and is no money. Whoever adds a file here says what it is.
ROUNDED_ELSEWHERE = {
    "client/bourse_client/command/lab.py": "minutes",
    "client/bourse_client/command/market.py": "units",
    "client/bourse_client/command/packing.py": "mebibytes",
    "client/bourse_client/command/parser.py": "parts of one",
    "client/bourse_client/command/programs.py": "hours",
    "client/bourse_client/command/progress.py": "seconds",
    "client/bourse_client/command/scripts.py": "seconds",
    "client/bourse_client/command/screen.py": "the texts of the interface, whose digits all stay",
    "marketplace/processes/children.py": "seconds",
    "marketplace/upkeep/doctor.py": "seconds and gibibytes",
    "marketplace/management/commands/doctor.py": "rows and bytes",
    "marketplace/processes/restarts.py": "seconds",
    "scheduling/learner/pages/forms.py": "per cent",
    "scheduling/learner/pages/learning.py": "places in a picture",
    "tenants/views/places.py": "values of rows, whose digits all stay",
    "scheduling/learner/promotion.py": "limits of settings",
    "scheduling/jobs/pages/outlook_picture.py": "losses",
    "scheduling/jobs/describing.py": "seconds",
    "scheduling/jobs/projections.py": "slots",
    "scheduling/jobs/read_courses.py": "slots",
    "scheduling/jobs/read_outlook.py": "epochs",
    "scheduling/quotes/api/quotes.py": "slots and workers of a change",
    "scheduling/common/steps.py": "milliseconds",
    "scheduling/models/market.py": "units",
    "scheduling/runs/engines.py": "seconds",
    "scheduling/runs/read_ran.py": "seconds",
    "scheduling/programs/hours.py": "seconds and coefficients of a speed",
    "scheduling/programs/ordering.py": "seconds",
    "scheduling/programs/saving.py": "slots",
    "scheduling/programs/worth.py": "seconds",
    "scheduling/quotes/pages/submit_catalogue.py": "bounds of a parameter",
    "scheduling/quotes/pages/submit_target.py": "bounds of a threshold",
    "scheduling/quotes/pages/submit_hours.py": "hours, amounts of resources",
    "scheduling/programs/parameters.py": "bounds of a parameter",
    "scheduling/reasons.py": "units and bandwidths",
    "scheduling/market/reads/market.py": "units, and parts of them in per cent",
    "scheduling/runs/read_measured.py": "seconds and bandwidths",
    "scheduling/market/reads/now.py": "seconds",
    "scheduling/market/reads/share_units.py": "units",
    "scheduling/market/settle/use.py": "units",
    "scheduling/market/pages/use_picture.py": "places in a picture",
    "scheduling/market/pages/use_week.py": "places in a picture, per cent",
    "scheduling/market/pages/how.py": "places in a picture, workers",
    "scheduling/quotes/elastic_quotes.py": "slots",
    "scheduling/market/view/pieces.py": "mini-batches",
    "scheduling/jobs/read_life.py": "parts of the work",
    "client/bourse_client/command/jobs.py": "parts of the work",
    "scheduling/market/decide/estimates.py": "slots and parameter servers",
    "scheduling/demo/outside.py": "what the demonstration makes up",
    "scheduling/demo/habits.py": "what the demonstration makes up",
    "scheduling/market/decide/promises.py": "units",
    "scheduling/webhooks/calls.py": "seconds",
    "scheduling/audit/verification/ends.py": "units",
    "scheduling/audit/verification/jobs.py": "units",
    "scheduling/what_if/otherwise.py": "slots",
    "scheduling/market/view/demands.py": "amounts of resources",
    "scheduling/market/pages/board.py": "places in a picture",
    "scheduling/fairness/pages/alerts.py": "limits of ratios",
    "scheduling/fairness/pages/picture.py": "places in a picture, ratios, units",
    "scheduling/fairness/pages/tables.py": "ratios and units",
    "scheduling/market/pages/gantt.py": "places in a picture",
    "scheduling/market/pages/gantt_bars.py": "places in a picture",
    "scheduling/jobs/pages/loss_picture.py": "places in a picture, losses",
    "scheduling/jobs/pages/number_pictures.py": "places in a picture",
    "scheduling/market/pages/servers_chart.py": "places in a picture",
    "scheduling/books/pages/statements.py": "worker-slots",
    "scheduling/quotes/pages/submit_quote.py": "slots and workers of a change",
    "scheduling/quotes/pages/value_picture.py": "places in a picture, slots",
    "tenants/api/reference/fields.py": "bounds in the schema",
    "tenants/templatetags/look.py": "units",
}
WRITES_DECIMALS = {
    MODULE,
    "client/bourse_client/command/screen.py",
    "tenants/views/places.py",
    # Least amounts and steps of resources, which are no money.
    "scheduling/operator/api/pool_fields.py",
    "scheduling/models/cluster.py",
    "scheduling/market/view/demands.py",
    "scheduling/market/view/intake.py",
    "scheduling/operator/pages/pool_forms.py",
}


@cache
def sources() -> tuple[tuple[str, str, ast.Module], ...]:
    """(name, text, tree) of every module that this is about."""
    return tuple(_sources())


def _sources() -> Iterator[tuple[str, str, ast.Module]]:
    for folder in ("tenants", "scheduling", "marketplace", "client/bourse_client"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            name = str(file.relative_to(ROOT))
            if name != MODULE and "/migrations/" not in name and not name.startswith(NOT_OURS):
                text = file.read_text(encoding="utf-8")
                yield name, text, ast.parse(text)


def roundings(tree: ast.AST) -> Iterator[ast.expr]:
    """Calls that round, and values that a text has with so many digits."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in ROUNDING:
            yield node
        elif isinstance(node, ast.FormattedValue) and isinstance(node.format_spec, ast.JoinedStr):
            last = node.format_spec.values[-1]
            spec = last.value if isinstance(last, ast.Constant) else ""
            if spec[-1:] in ("f", "e", "g") and "%" not in spec:
                yield node.value


def conversions(tree: ast.AST) -> Iterator[ast.expr]:
    """Credits turned into micro-credits or back: every use of a million but as the unit of a whole number."""
    whole = ROUNDING | {"int", "float", "Decimal"}
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    turned = [call for call in calls if ast.unparse(call.func).split(".")[-1] in whole]
    within = {id(inner) for call in turned for inner in ast.walk(call)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.BinOp):
            continue
        sides = [ast.unparse(side) for side in (node.left, node.right)]
        is_unit = "MICRO" in sides and isinstance(node.op, ast.Mult) and id(node) not in within
        if not is_unit and any(side in MILLION for side in sides):
            yield node


def test_nobody_else_rounds_or_formats_money() -> None:
    places, names = [], set()
    for name, _, tree in sources():
        for node in roundings(tree):
            names.add(name)
            words = ast.unparse(node)
            if MONEY.search(words) or not (name in ROUNDED_ELSEWHERE or name.startswith(LAB)):
                places.append(f"{name}:{node.lineno}: {words}")
    assert places == []
    assert set(ROUNDED_ELSEWHERE) - names == set()  # and nobody stands in the list for nothing


def test_nobody_else_turns_credits_into_micro_credits() -> None:
    places = [
        f"{name}:{node.lineno}: {ast.unparse(node)}"
        for name, _, tree in sources()
        for node in conversions(tree)
        if "seconds" not in ast.unparse(node)
    ]
    assert places == []


def test_nobody_else_reads_or_computes_decimals() -> None:
    users = {
        name
        for name, _, tree in sources()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom | ast.Import) and "decimal" in ast.unparse(node)
    }
    assert users | {MODULE} == WRITES_DECIMALS


def test_forms_have_no_field_that_reads_a_number_in_another_way() -> None:
    loose = re.compile(r"\bforms\.(Decimal|Float|Integer)Field\(")
    assert [name for name, text, _ in sources() if loose.search(text)] == []


@pytest.mark.parametrize("folder", ["templates", "static"])
def test_pages_round_no_money_by_themselves(folder: str) -> None:
    filters = re.compile(r"\{\{\s*([\w.]+)[^}]*\|(floatformat|stringformat|intcomma)")
    places = []
    for file in sorted((ROOT / folder).rglob("*")):
        if not file.is_file() or "vendor" in file.parts or file.suffix not in (".html", ".txt", ".js"):
            continue
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            phrases = [name for name, _ in filters.findall(line)] if folder == "templates" else []
            phrases += [line] if folder == "static" and "toFixed" in line else []
            places += [f"{file.name}:{number}: {words}" for words in phrases if MONEY.search(words)]
    assert places == []


@pytest.mark.parametrize(
    "line",
    [
        "x = round(cost * MICRO)",
        "x = f'{price:,.2f}'",
        "x = f'{award.paid:.{digits}f}'",
        "x = math.ceil(job.max_price)",
        "x = f'{row.budget:g}'",
    ],
)
def test_planted_rounding_is_found(line: str) -> None:
    assert [node for node in roundings(ast.parse(line)) if MONEY.search(ast.unparse(node))]


@pytest.mark.parametrize(
    "line", ["x = paid / MICRO", "x = paid // 1_000_000", "x = int(cost * MICRO)", "x = paid * 1e-6", "x = cost * 1e6"]
)
def test_planted_conversion_is_found(line: str) -> None:
    assert list(conversions(ast.parse(line)))


def test_whole_credits_in_micro_credits_are_no_conversion() -> None:
    assert list(conversions(ast.parse("MOST = 10**9 * MICRO"))) == []
