"""The plans of gangs on a cluster: ours, which decide, and the copies in the shared folder that launchers read."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from scheduling.engines.base import Handle
from scheduling.engines.launcher import files
from scheduling.engines.launcher.files import Folder
from scheduling.engines.plans import Phase

Plan = Mapping[str, Any]  # as `SlurmEngine` makes it and a launcher reads it
log = logging.getLogger(__name__)


class GangPlans:
    """The plans by key. `root` is our own folder, `shared` the one that all servers see."""

    def __init__(self, root: Path, shared: Path) -> None:
        self.root, self.shared = root, shared
        self._plans: dict[str, Plan] = {}  # the same as in our folder
        # Keys whose plan is not in the shared folder yet, and whether the log says that it cannot be copied.
        self._behind: dict[str, bool] = {}

    def of(self, handle: Handle) -> Plan | None:
        """Return the plan of a gang, read from our folder where we do not have it yet."""
        if handle.key not in self._plans and (plan := files.read(Folder(self.root, handle.home, handle.key).plan)):
            self._plans[handle.key] = plan
            self._behind.setdefault(handle.key, False)  # we may have died before it was copied
        return self._plans.get(handle.key)

    def of_key(self, key: str) -> Plan | None:
        """Return the plan of a gang that was looked up or begun before, and not forgotten."""
        return self._plans.get(key)

    def begin(self, plan: Plan) -> None:
        """Write the plan of a new gang: first for the launchers, and then ours, by which the gang is found again."""
        files.write(Folder(self.shared, plan["home"], plan["key"]).plan, plan)
        files.write(Folder(self.root, plan["home"], plan["key"]).plan, plan)
        self._plans[plan["key"]] = plan

    def change(self, plan: Plan, **changes: Any) -> None:
        """Change a plan: ours first; the copy follows as soon as the shared folder can be written."""
        key, changed = plan["key"], {**plan, **changes}
        files.write(Folder(self.root, plan["home"], key).plan, changed)
        self._plans[key] = changed
        self._behind.setdefault(key, False)
        self.copy()

    def copy(self) -> None:
        """Copy the plans that are behind into the shared folder, as far as it can be written. The log has once that one
        cannot be copied, and once that it was."""
        for key, in_log in list(self._behind.items()):
            plan = self._plans[key]
            try:
                files.write(Folder(self.shared, plan["home"], key).plan, plan)
            except OSError as error:
                if not in_log:
                    log.warning("the plan of %s is not in the shared folder yet: %s", key, error)
                self._behind[key] = True
                continue
            if in_log:
                log.warning("the plan of %s is in the shared folder", key)
            del self._behind[key]

    def on_disk(self, engine: str) -> Iterator[Handle]:
        """Yield the gangs of an engine whose plans are in our folder, without the database."""
        for plan_file in self.root.glob("*/*/plan.json"):
            plan = files.read(plan_file)
            if plan and plan.get("engine") == engine:
                yield Handle(plan_file.parent.name, plan_file.parent.parent.name, {})

    def forget(self, keys: Collection[str]) -> None:
        for key in keys:
            self._plans.pop(key, None)
            self._behind.pop(key, None)


def end_of(plan: Plan, phase: Phase) -> float:
    """Return the end of a generation. The last one continues for as long as its gang may run."""
    end_at = float(plan["end_at"])
    return end_at if phase is plan["phases"][-1] else min(end_at, float(phase["end"]))


def servers_of(phase: Phase) -> list[str]:
    return sorted({server for _, _, server in phase["members"]})


def first_server(phase: Phase) -> str:
    """Return the server that has the coordinator: the one of the first member."""
    return str(phase["members"][0][2])
