"""Finds every code that the product may tell somebody, in its source, which is read with `ast` and not run.

A code is what a `Reason`, a `Cause`, a refusal or a `Problem` is made with, what a job's `reason_code` is set to, and
what an event names as a "reason". It is found where it is written as a text, as a constant of a module, or as an
argument of a function that passes it on.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).parent.parent
APPS = ("marketplace", "scheduling", "tenants")
# Constructors that take a code, each with the code's place among the arguments.
REASONS = {"Reason": 0, "Cause": 0}
PROBLEMS = {"Problem": 1, "Unavailable": 0}
REFUSED = "Refused"
# Classes with such a name that are something else.
OTHERS = {
    "scheduling/operator/api/pool_fields.py": {"Reason"},
}
# Keys of written-out dictionaries whose values are codes, in modules that decide. On pages, in the interface and on the
# command line a "reason" is what a person wrote.
KEYS = {"reason", "reason_code"}
WITHOUT_KEYS = ("/pages/", "/api/", "/management/", "/lab/", "/app/", "/engines/", "/models/", "/read_", "/reads/")


@dataclass(frozen=True)
class Code:
    """A code that was found. `kind` is reason, refusal or problem. `numbers` are the names of its numbers where they
    are written out, and `maker` is the class to which it is given."""

    kind: str
    code: str
    place: str
    maker: str = ""
    numbers: frozenset[str] | None = None
    state: str | None = None  # that a Refusal around it names: the constant, or "WAITING" by default


@dataclass
class Module:
    path: str
    tree: ast.Module
    imported: dict[str, str] = field(default_factory=dict)  # name in this module -> name in the other
    constants: dict[str, str] = field(default_factory=dict)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(self.tree))


@dataclass(frozen=True)
class PassedOn:
    """A parameter of a function that is used as a code inside it."""

    kind: str
    function: str
    place: int
    name: str
    default: ast.expr | None


@dataclass
class Codes:
    codes: list[Code] = field(default_factory=list)
    open: list[str] = field(default_factory=list)  # "path: expression" of those whose code cannot be read


@cache
def modules(root: Path = ROOT, apps: Sequence[str] = APPS) -> list[Module]:
    paths = [path for app in apps for path in sorted((root / app).rglob("*.py")) if "migrations" not in path.parts]
    return [module_of(path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")) for path in paths]


def module_of(path: str, source: str) -> Module:
    module = Module(path, ast.parse(source))
    for node in module.tree.body:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                module.constants |= dict(_texts(target, node.value))
    for node in module.nodes:
        if isinstance(node, ast.ImportFrom):
            module.imported |= {alias.asname or alias.name: alias.name for alias in node.names}
    return module


def _texts(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, str]]:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        for one, other in zip(target.elts, value.elts, strict=False):
            yield from _texts(one, other)
    elif isinstance(target, ast.Name) and isinstance(value, ast.Constant) and isinstance(value.value, str):
        yield target.id, value.value


def codes_of(sources: Sequence[Module]) -> Codes:
    """Return all codes in the sources, and the places whose code cannot be read."""
    constants = {name: text for module in sources for name, text in module.constants.items()}
    refusals = _derived(sources, REFUSED)
    codes, passed = Codes(), []
    for module in sources:
        for kind, expression, call in _sites(module, refusals):
            owner = _parameter(module, expression)
            if owner is not None:
                passed.append((module, PassedOn(kind, *owner)))
            else:
                _note(codes, module, constants, kind, expression, call)
    for module, each in passed:
        private = each.function.startswith("_")
        for other in [module] if private else sources:
            for call in other.nodes:
                if isinstance(call, ast.Call) and _name(call.func) == each.function:
                    argument = _argument(call, each.place, each.name) or each.default
                    if argument is not None:
                        _note(codes, other, constants, each.kind, argument, None)
    return codes


def _derived(sources: Sequence[Module], base: str) -> set[str]:
    """Return the names of the class and of all classes that derive from it."""
    names, more = {base}, True
    while more:
        classes = [node for module in sources for node in module.nodes if isinstance(node, ast.ClassDef)]
        added = {node.name for node in classes if any(_name(parent) in names for parent in node.bases)} - names
        names, more = names | added, bool(added)
    return names


def _sites(module: Module, refusals: set[str]) -> Iterator[tuple[str, ast.expr, ast.Call | None]]:
    """Yield (kind, the expression of the code, the call to which it is given) for each code in a module."""
    others = OTHERS.get(module.path, set())
    for node in module.nodes:
        if isinstance(node, ast.Call):
            name = _name(node.func)
            kinds = {name: ("reason", REASONS.get(name, 0))} if name in REASONS else {}
            kinds |= {name: ("problem", PROBLEMS[name])} if name in PROBLEMS else {}
            kinds |= {name: ("refusal", 0)} if name in refusals else {}
            if name in kinds and name not in others:
                kind, place = kinds[name]
                if (code := _argument(node, place, "code")) is not None:
                    yield kind, code, node
            for keyword in node.keywords:
                if keyword.arg == "reason_code":
                    yield "reason", keyword.value, None
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                yield from (("reason", value, None) for value in _assigned(target, node.value))
        elif isinstance(node, ast.Dict) and _names_reasons(module.path):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and key.value in KEYS:
                    yield "reason", value, None


def _names_reasons(path: str) -> bool:
    return path.startswith("scheduling/") and not any(part in path for part in WITHOUT_KEYS)


def _assigned(target: ast.expr, value: ast.expr) -> Iterator[ast.expr]:
    """Yield the values to which an attribute `reason_code` is set."""
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        for one, other in zip(target.elts, value.elts, strict=True):
            yield from _assigned(one, other)
    elif isinstance(target, ast.Attribute) and target.attr == "reason_code":
        yield value


def _note(
    codes: Codes, module: Module, constants: Mapping[str, str], kind: str, expression: ast.expr, call: ast.Call | None
) -> None:
    texts = _read(module, constants, expression)
    place = f"{module.path}:{expression.lineno}"
    if texts is None:
        codes.open.append(f"{module.path}: {ast.unparse(expression)}")
        return
    maker = "" if call is None else _name(call.func)
    numbers = _numbers(call) if call is not None and kind == "reason" else None
    state = _state(module, call) if call is not None and kind == "reason" else None
    codes.codes += [Code(kind, text, place, maker, numbers, state) for text in texts if text]


def _read(module: Module, constants: Mapping[str, str], expression: ast.expr) -> list[str] | None:
    """Return the texts that the expression may be: none for what is a code already (`reason.code`), or None if it is
    unreadable."""
    if isinstance(expression, ast.Constant):
        return [expression.value] if isinstance(expression.value, str) else []
    if isinstance(expression, ast.IfExp):
        both = [_read(module, constants, one) for one in (expression.body, expression.orelse)]
        return None if None in both else [text for one in both for text in one or ()]
    if isinstance(expression, ast.Attribute) and expression.attr in ("code", "reason_code"):
        return []
    if isinstance(expression, ast.Name):
        if expression.id in module.constants:
            return [module.constants[expression.id]]
        text = constants.get(module.imported.get(expression.id, ""))
        return None if text is None else [text]
    return None


def _parameter(module: Module, expression: ast.expr) -> tuple[str, int, str, ast.expr | None] | None:
    """Return (function, place, name, default) if the expression is a parameter of the function around it."""
    if not isinstance(expression, ast.Name):
        return None
    for node in module.nodes:
        if isinstance(node, ast.FunctionDef) and any(inner is expression for inner in ast.walk(node)):
            names = [argument.arg for argument in node.args.args]
            if expression.id in names:
                place = names.index(expression.id)
                late = place - (len(names) - len(node.args.defaults))
                return node.name, place, expression.id, node.args.defaults[late] if late >= 0 else None
            if expression.id in [argument.arg for argument in node.args.kwonlyargs]:
                return node.name, len(names), expression.id, None
    return None


def _numbers(call: ast.Call) -> frozenset[str] | None:
    argument = _argument(call, 1, "numbers")
    if argument is None:
        return frozenset()
    if isinstance(argument, ast.Dict) and all(isinstance(key, ast.Constant) for key in argument.keys):
        return frozenset(key.value for key in argument.keys if isinstance(key, ast.Constant))
    return None


def _state(module: Module, call: ast.Call) -> str | None:
    """Return what becomes of the job, if a Refusal is made around the reason; otherwise None."""
    for node in module.nodes:
        if isinstance(node, ast.Call) and _name(node.func) == "Refusal" and call in node.args:
            state = _argument(node, 2, "state")
            return "WAITING" if state is None else ast.unparse(state)
    return None


def _argument(call: ast.Call, place: int, name: str) -> ast.expr | None:
    if len(call.args) > place:
        return call.args[place]
    return next((keyword.value for keyword in call.keywords if keyword.arg == name), None)


def _name(expression: ast.expr) -> str:
    return getattr(expression, "id", getattr(expression, "attr", ""))
