"""Read YAML or JSON that people write as plain values: only what JSON can express, and nothing that keeps a process
busy for long. While a long text is read, other requests go first (`give_way`)."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from typing import Any

import yaml

from tenants.common.patience import give_way

DEEPEST = 8
MOST_VALUES = 5_000  # names count as well; reading them takes a fifth of a second
LONGEST_NUMBER = 40  # characters
TOO_DEEP = "The text is nested too deeply."
_WHOLE = r"-?(0|[1-9][0-9]*)"
_ENDLESS = r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"  # JSON has no such numbers, and the service refuses them


class BadText(ValueError):
    """The text cannot be read. The message is for the person who wrote it."""


def plain_document(text: str, *, longest: int, has_days: bool = False) -> Any:
    """Return the plain value that the text describes. A text of more than `longest` bytes is refused. With `has_days`
    days and moments are texts; else they are refused, unless they are in quotes."""
    if len(text.encode("utf-8", "surrogatepass")) > longest:
        raise BadText(f"The text is longer than {longest // 1024} kB.")
    document = _parsed(text, _DaysLoader if has_days else _Loader)
    _check(document, 0)
    return document


class _Loader(yaml.SafeLoader):
    """A loader that knows plain values only. References are refused, because they would let a short text stand for an
    endless one. Numbers follow the grammar of JSON: YAML's own reader takes 1:30 for 90 and 010 for 8."""

    values = 0
    yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag.rpartition(":")[2] not in ("int", "float")]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.events.AliasEvent):
            raise BadText("References (*name) are not allowed; write the value out.")
        self.values += 1
        if self.values > MOST_VALUES:
            raise BadText(f"The text has more than {MOST_VALUES} values.")
        give_way()
        return super().compose_node(parent, index)

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        give_way()
        return super().construct_object(node, deep)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        """Refuse a name that stands there twice: YAML would take the last one, and drop the others without a word."""
        pairs = node.value if isinstance(node, yaml.MappingNode) else []
        names: set[str] = set()
        for name in [name for name, _ in pairs if isinstance(name, yaml.ScalarNode)]:
            if name.value in names:
                raise yaml.MarkedYAMLError(problem=f"{name.value!r} stands there twice", problem_mark=name.start_mark)
            names.add(name.value)
        return super().construct_mapping(node, deep)

    def fetch_flow_collection_start(self, token: Any) -> None:
        """Refuse deep nesting early. YAML's scanner goes over all open brackets for each token: a kilobyte of brackets
        takes it a second."""
        if self.flow_level > DEEPEST:
            raise BadText(TOO_DEEP)
        super().fetch_flow_collection_start(token)


def _number(loader: _Loader, node: yaml.ScalarNode) -> Any:
    """Read a number, or true and false. Texts with colons are refused: where the writer marks one as a number
    (`!!int 1:30`), YAML reads hours and minutes, in a time quadratic in the number of colons."""
    text = loader.construct_scalar(node)
    if len(text) > LONGEST_NUMBER or ":" in text:
        raise _no_value(text)
    try:
        return yaml.SafeLoader.yaml_constructors[node.tag](loader, node)
    except (ValueError, ArithmeticError, LookupError):
        raise _no_value(text) from None


def _refused(loader: _Loader, node: yaml.Node) -> Any:
    raise _no_value(node.value if isinstance(node, yaml.ScalarNode) else node.tag)


def _no_value(text: str) -> BadText:
    excerpt = text if len(text) <= LONGEST_NUMBER else f"{text[:LONGEST_NUMBER]}..."
    return BadText(f"{excerpt}: must be a number or a text; put it in quotes.")


for _kind in ("int", "float", "bool"):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_kind}", _number)
for _kind in ("timestamp", "binary", "omap", "pairs", "set"):  # none of them is in JSON, which is what is stored
    _Loader.add_constructor(f"tag:yaml.org,2002:{_kind}", _refused)
for _tag, _pattern in (("int", _WHOLE), ("float", rf"{_WHOLE}(\.[0-9]+)?([eE][-+]?[0-9]+)?|{_ENDLESS}")):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"({_pattern})\Z"), list("-+.0123456789"))


class _DaysLoader(_Loader):
    """A loader that leaves days and moments as texts."""

    yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
        for first, resolvers in _Loader.yaml_implicit_resolvers.items()
    }


def _parsed(text: str, loader: type[_Loader]) -> Any:
    try:
        return yaml.load(text, Loader=loader)  # noqa: S506  a safe loader that also refuses references
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"Line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise BadText(f"{where}{error.problem or 'this is neither YAML nor JSON'}.") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise BadText("This is neither YAML nor JSON.") from error


def _check(value: Any, depth: int) -> None:
    """Raise `BadText` where the value is nested too deeply, or a name is not a text. Names must be texts because the
    value is stored as JSON."""
    if depth > DEEPEST:
        raise BadText(TOO_DEEP)
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise BadText(f"{key!r}: names of fields are texts.")
            _check(inner, depth + 1)
    elif isinstance(value, list):
        for inner in value:
            _check(inner, depth + 1)


class _Dumper(yaml.SafeDumper):
    """A dumper that writes no references, and a text of several lines as it is, below a bar."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def plain_text(document: Mapping[str, Any]) -> str:
    """Return a plain value as a text that a person can edit and `plain_document` can read again."""
    return yaml.dump(dict(document), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)


def as_sentence(words: str) -> str:
    """Return the words with a full stop, unless they end as a sentence does: "did you mean x?" stays a question."""
    return words if words.endswith((".", "?", "!")) else f"{words}."
