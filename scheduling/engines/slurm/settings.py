"""The settings of one Slurm cluster, as an installation's file of engines has them."""

from __future__ import annotations

import getpass
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from scheduling.engines.base import Timings, WrongEngine
from scheduling.engines.launcher.limits import ProcessLimits

TIMINGS = Timings(lead=20.0, least_slot=60.0, patience=60.0, lease=30.0, stop=5.0)
SERVICE, TENANT = "service", "tenant"  # the user whom jobs belong to in Slurm
SHORTEST_HOURS, LONGEST_HOURS = 1.0, 24.0 * 365
CPUS, MEMORY_MB, GRES = "cpus", "memory_mb", "gres:"  # what a unit of a resource can be in Slurm


@dataclass(frozen=True)
class SlurmSettings:
    """The settings of one cluster. `shared` is a folder that all servers of the cluster and this machine see under the
    same path. `resources` says what a unit of a pool's resource is in Slurm: `cpus`, `memory_mb`, or `gres:` and a
    name; a resource that is not listed is not a resource of Slurm. `prefix` begins the names of all our jobs there, so
    that two products can share a cluster. `limits` are those of gangs that differ from `ProcessLimits`. `writable` are
    folders in which programs may write beside their own.
    """

    name: str
    partition: str
    shared: str
    reservation: str = ""
    user: str = ""  # the service account; if empty, the user who runs the engine
    account: str = ""
    accounts: Mapping[str, str] = field(default_factory=dict)  # Slurm's accounts of tenants, by the tenant's slug
    run_as: str = SERVICE  # or TENANT: each tenant's jobs run as its own user, by the site's rule for sudo
    users: Mapping[str, str] = field(default_factory=dict)  # users of tenants, by the tenant's slug
    prefix: str = "bourse"
    python: str = "python3"  # the Python of the cluster, with what the programs need
    conf: str = ""  # the cluster's slurm.conf, where it is not in its usual place
    resources: Mapping[str, str] = field(default_factory=dict)
    lead: float = TIMINGS.lead
    least_slot: float = TIMINGS.least_slot
    patience: float = TIMINGS.patience
    lease: float = TIMINGS.lease
    gather_seconds: float = 15.0  # all parts must have come so long after a slot's beginning
    server_grace: float = TIMINGS.server_grace
    longest_hours: float = 24.0  # of one job of Slurm's: a gang whose end is open goes on in another one after that
    limits: Mapping[str, Any] = field(default_factory=dict)  # numbers by the names of `ProcessLimits`
    writable: Sequence[str] = ()

    @classmethod
    def read(cls, name: str, described: object) -> SlurmSettings:
        """Read and check settings as they are in a file; raises `WrongEngine`."""
        if not isinstance(described, dict) or described.get("kind") != "slurm":
            raise WrongEngine(f"The engine {name} must be an object whose kind is slurm.")
        values: dict[str, Any] = {key: value for key, value in described.items() if key != "kind"}
        kinds = {each.name: str(each.type) for each in fields(cls)}
        if unknown := sorted(set(values) - set(kinds) | {"name"} & set(values)):
            raise WrongEngine(f"The engine {name} has no setting {unknown[0]!r}.")
        if missing := [each for each in ("partition", "shared") if not values.get(each)]:
            raise WrongEngine(f"The engine {name} needs the setting {missing[0]!r}.")
        for key, value in values.items():
            allowed = {"str": str, "float": (int, float), "Sequence[str]": list}.get(kinds[key], dict)
            if not isinstance(value, allowed) or isinstance(value, bool):  # type: ignore[arg-type]
                raise WrongEngine(f"The engine {name}: {key} must be {_WORDS.get(kinds[key], 'an object of words')}.")
        settings = cls(name=name, **values)
        settings._check()
        return settings

    def _check(self) -> None:
        if not re.fullmatch(r"[a-z][a-z0-9]{0,15}", self.prefix):
            raise WrongEngine(f"The engine {self.name}: prefix must be a short word of small letters and digits.")
        if not Path(self.shared).is_absolute():
            raise WrongEngine(f"The engine {self.name}: shared must be the whole path of a folder.")
        for resource, what in self.resources.items():
            if what not in (CPUS, MEMORY_MB) and not re.fullmatch(
                rf"{GRES}[A-Za-z0-9_]+(:[A-Za-z0-9_.-]+)?", str(what)
            ):
                allowed = f"{CPUS}, {MEMORY_MB} or {GRES}NAME"
                raise WrongEngine(f"The engine {self.name}: a unit of {resource} must be {allowed}, not {what!r}.")
        if self.run_as not in (SERVICE, TENANT):
            raise WrongEngine(f"The engine {self.name}: run_as must be {SERVICE} or {TENANT}, not {self.run_as!r}.")
        for folder in self.writable:
            if not isinstance(folder, str) or not Path(folder).is_absolute() or len(folder.splitlines()) != 1:
                raise WrongEngine(f"The engine {self.name}: writable has whole paths of folders, not {folder!r}.")
            # Launchers write into `shared` how a gang ended, which decides what is paid and what is refunded.
            ours, theirs = Path(self.shared).resolve(), Path(folder).resolve()
            if ours.is_relative_to(theirs) or theirs.is_relative_to(ours):
                raise WrongEngine(f"The engine {self.name}: {folder} cannot be writable: our own folder lies there.")
        if not SHORTEST_HOURS <= self.longest_hours <= LONGEST_HOURS:
            allowed = f"from {SHORTEST_HOURS:g} to {LONGEST_HOURS:g}"
            raise WrongEngine(f"The engine {self.name}: longest_hours must be {allowed}, not {self.longest_hours!r}.")
        types = {each.name: each.type for each in fields(ProcessLimits)}
        for limit, number in self.limits.items():
            if limit not in types:
                raise WrongEngine(f"The engine {self.name}: there is no limit {limit!r}; there are {', '.join(types)}.")
            kinds, words = ((int, float), "a number") if types[limit] == "float" else ((int,), "a whole number")
            if isinstance(number, bool) or not isinstance(number, kinds) or not 0 <= number < 2**31:
                raise WrongEngine(f"The engine {self.name}: the limit {limit} must be {words}, not {number!r}.")
        for tenant, user in self.users.items():
            if not re.fullmatch(r"[a-z_][a-z0-9_-]{0,31}", str(user)):
                raise WrongEngine(f"The engine {self.name}: {user!r} cannot be the user of {tenant}.")
        try:
            _ = self.timings
        except ValueError as error:
            raise WrongEngine(f"The engine {self.name}: {error}.") from None

    @property
    def timings(self) -> Timings:
        """The times that this engine keeps."""
        return Timings(self.lead, self.least_slot, self.patience, self.lease, TIMINGS.stop, self.server_grace)

    @property
    def service_account(self) -> str:
        return self.user or getpass.getuser()

    @property
    def everybody(self) -> list[str]:
        """All users whose jobs may be ours."""
        return sorted({self.service_account, *(self.users.values() if self.run_as == TENANT else ())})

    @property
    def openness(self) -> str:
        """What programs of several tenants can see of each other, as a sentence; empty where each has its own user."""
        if self.run_as == TENANT:
            return ""
        return (
            f"All jobs run under the account {self.service_account}: programs of several tenants can read each other's "
            "files unless they run in containers."
        )

    @property
    def longest_seconds(self) -> float:
        """How long a job of Slurm's may take whose end is open."""
        return self.longest_hours * 3600.0

    def user_of(self, tenant: str) -> str | None:
        """Return the user whose jobs the tenant's are, empty for the service account, or None where the settings name
        no user for it."""
        return self.users.get(tenant) if self.run_as == TENANT else ""


_WORDS = {"str": "text", "float": "a number", "Sequence[str]": "a list"}
