"""Reading the text of a study: YAML of plain values, in which no name is there twice and nothing refers to something
else."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from scheduling.core.scenario import BadScenario
from scheduling.lab.files import reason

LARGEST = 2**20  # bytes of a study's file
LARGEST_INTEGER = 10**18  # larger than any field takes; Python cannot even print the longest ones


class _StudyLoader(yaml.SafeLoader):
    """A loader that leaves days and names as texts, and refuses references, as with them a short text could describe an
    endless one."""

    yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.events.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(problem="has a reference (*name); write it out", problem_mark=mark)
        return super().compose_node(parent, index)

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        number = super().construct_yaml_int(node)
        if abs(number) > LARGEST_INTEGER:
            raise yaml.MarkedYAMLError(problem="has an integer of no sense", problem_mark=node.start_mark)
        return int(number)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        pairs: dict[Hashable, Any] = {}
        for key_node, value_node in node.value:
            name = str(key_node.value) if isinstance(key_node, yaml.ScalarNode) else None
            if name is None or name in pairs:
                problem = "names no field" if name is None else f"has {name!a} twice"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key_node.start_mark)
            pairs[name] = self.construct_object(value_node, deep=True)
        return pairs


_StudyLoader.add_constructor("tag:yaml.org,2002:int", _StudyLoader.construct_yaml_int)


def study_document(path: Path) -> dict[str, Any]:
    """Return the fields in the file."""
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
    except OSError as error:
        raise BadScenario(str(path), f"cannot be read ({reason(error)})") from None
    if len(content) > LARGEST:
        raise BadScenario(str(path), f"is larger than {LARGEST:,} bytes")
    try:
        document = yaml.load(content, _StudyLoader)  # noqa: S506 - a safe loader that takes less
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"{path}, line {mark.line + 1}" if mark else str(path)
        raise BadScenario(place, error.problem if not error.context and error.problem else "is not YAML") from None
    except (yaml.YAMLError, RecursionError, ValueError):
        raise BadScenario(str(path), "is not YAML") from None
    if not isinstance(document, dict):
        raise BadScenario(str(path), "must have fields, like `history:` and `rules:`")
    return document
