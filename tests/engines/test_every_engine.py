"""What holds for every engine: it has the whole contract, says its words alone, and can be found from both ends.

An engine is the class of `engine.py` in a folder of `scheduling/engines`; the two of the soak are engines as well.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from scheduling.engines import base
from scheduling.engines.base import Engine
from scheduling.runs import engines as engine_makers
from scheduling.runs.figures import CAUSES
from tests.soak.cluster.engine import Cluster
from tests.soak.engine import Double
from tests.sources import trees

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "scheduling" / "engines"
STATES = {base.ACCEPTED, base.WAITING, base.RUNNING, base.STOPPING, base.ENDED, base.UNKNOWN}
ENDS = {base.FINISHED, base.STOPPED, base.FAILED, base.LOST, base.PAUSED}
OF_SERVERS = {base.UP, base.DRAINING, base.DOWN, base.UNKNOWN}
CALLS = {name for name, each in vars(Engine).items() if inspect.isfunction(each) and not name.startswith("_")}


# Modules outside of the kinds that import from one kind, or ask whether an engine is the local one.
KNOWING = {
    "marketplace/embedded/programs.py",  # copies programs into place as the local engine does
    "marketplace/management/commands/up.py",
    "scheduling/audit/verification/settings.py",  # the engine of a pool of which none is stored
    "scheduling/engines/folders.py",
    "scheduling/management/commands/engine.py",
    "scheduling/operator/cluster_import.py",
    "scheduling/operator/pages/pool_forms.py",  # the engine of a pool for which none is chosen
    "scheduling/operator/pools.py",
    "scheduling/runs/engines.py",
}


def engine_of(kind: str) -> type[Any]:
    """The one class of the module that can be asked to submit."""
    module = import_module(f"scheduling.engines.{kind}.engine")
    (engine,) = (
        each for each in vars(module).values()
        if inspect.isclass(each) and each.__module__ == module.__name__ and hasattr(each, "submit")
    )  # fmt: skip
    return engine


KINDS = {file.parent.name: engine_of(file.parent.name) for file in sorted(FOLDER.glob("*/engine.py"))}
ENGINES = [*KINDS.values(), Double, Cluster]


def parameters(call: Any) -> list[tuple[str, Any, Any]]:
    return [(each.name, each.kind, each.default) for each in inspect.signature(call).parameters.values()]


def literals(kind: str) -> Iterator[tuple[str, str]]:
    """Texts that the engine's modules give as a state or an end of a gang or a server, and where."""
    for file in sorted((FOLDER / kind).glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("Status", "ServerHealth", "replace"):
                first = [] if ast.unparse(node.func) == "replace" else node.args[:1]
                for value in [*first, *(each.value for each in node.keywords if each.arg in ("state", "end"))]:
                    if isinstance(value, ast.Constant):
                        yield f"{file.name}:{value.lineno}", str(value.value)


def test_the_kinds_are_those_that_the_product_can_make() -> None:
    makers = [
        each for name, each in vars(engine_makers).items() if inspect.isfunction(each) and name.endswith("_engine")
    ]
    assert {"local", "slurm"} <= set(KINDS)
    assert {get_type_hints(maker)["return"] for maker in makers} == set(KINDS.values())


def test_who_else_asks_for_the_kind_of_an_engine_is_listed() -> None:
    """Whoever adds a kind looks at each of them. The head of `scheduling/runs/engines.py` says what they ask."""
    makers = {name for name in vars(engine_makers) if name == "LOCAL" or name.startswith(("local_", "slurm_"))}
    kinds = tuple(f"scheduling.engines.{kind}" for kind in KINDS)
    own = tuple(f"scheduling/engines/{kind}/" for kind in KINDS)
    knowing = {
        path
        for path, tree in trees("marketplace", "scheduling", "tenants", naming=(*kinds, *makers))
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and not path.startswith(own)
        if f"{node.module}.".startswith(tuple(f"{kind}." for kind in kinds))
        or ((node.module or "").startswith("scheduling.runs") and makers & {alias.name for alias in node.names})
    }
    assert knowing - {"scheduling/runs/__init__.py"} == KNOWING


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.__name__)
def test_it_has_the_whole_contract_and_is_asked_as_the_contract_says(engine: type[Any]) -> None:
    assert {"submit", "observe", "change", "stop", "touch", "report", "check"} <= CALLS
    assert {name for name in CALLS if not callable(getattr(engine, name, None))} == set()
    assert {name for name in CALLS if parameters(getattr(engine, name)) != parameters(getattr(Engine, name))} == set()
    own_names = inspect.signature(engine).parameters
    assert [name for name in ("name", "timings") if not hasattr(engine, name) and name not in own_names] == []


@pytest.mark.parametrize("kind", KINDS)
def test_its_states_and_ends_are_words_of_the_contract_and_no_texts_of_its_own(kind: str) -> None:
    assert list(literals(kind)) == []


def test_the_words_of_the_contract_are_all_different_and_one_of_the_three_kinds() -> None:
    texts = {name: text for name, text in vars(base).items() if name.isupper() and isinstance(text, str)}
    words, reasons = STATES | ENDS | OF_SERVERS, set(CAUSES.values())
    assert len(set(texts.values())) == len(texts)
    assert {name for name, text in texts.items() if text not in words and text not in reasons} == set()


def test_each_reason_of_a_loss_is_said_by_somebody() -> None:
    sources = [file.read_text(encoding="utf-8") for file in FOLDER.rglob("*.py") if file.name != "base.py"]
    reasons = [name for name, text in vars(base).items() if name.isupper() and text in CAUSES.values()]
    assert len(reasons) >= 5
    assert [name for name in reasons if not any(name in source for source in sources)] == []


@pytest.mark.parametrize("kind", KINDS)
def test_the_map_names_it(kind: str) -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").partition("## Map")[2].partition("\n## ")[0]
    paragraph = next(each for each in text.split("\n\n") if each.startswith("`scheduling/engines` "))
    assert f"`{kind}/`" in paragraph
