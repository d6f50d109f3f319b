"""What an OpenID provider claims about a person, and the memberships that a table of mappings gives for it.

Nothing here reads or writes rows. The same claims, table and memberships always give the same steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tenants.roles import BILLING, OWNER, SUBMITTER, VIEWER

Claims = Mapping[str, Any]

# Of several roles in one tenant the first of these counts. A submitter and a member for billing may do different
# things; whoever is mapped to both submits.
STRENGTH = (OWNER, SUBMITTER, BILLING, VIEWER)
ANY = "*"  # stands for any characters, none included, once in a value
EMAIL, EMAIL_PROVED = "email", "email_verified"
CLAIM_LONGEST, VALUE_LONGEST = 120, 150  # characters


@dataclass(frozen=True)
class Mapped:
    """One row of the table: who has this value in this claim has this role in this tenant."""

    number: int
    claim: str
    value: str
    tenant_id: int
    tenant: str  # its short name
    role: str

    @property
    def words(self) -> str:
        return mapping_words(self.claim, self.value)


@dataclass(frozen=True)
class MembershipStanding:
    """A membership as it stands. `claim`: the words of the row that made it; empty where somebody made it by hand."""

    tenant_id: int
    tenant: str
    role: str
    claim: str
    is_last_owner: bool


class Verb(StrEnum):
    JOIN = "join"
    LEAVE = "leave"
    CHANGE = "change"
    STAY = "stay"
    BY_HAND = "by_hand"  # somebody made the membership: claims leave it as it is
    LAST_OWNER = "last_owner"  # claims would take it away, and the tenant would have no owner


@dataclass(frozen=True)
class ClaimStep:
    """What claims do to one membership. `words`: of the row that fits, or of the one that made what is left."""

    verb: Verb
    tenant_id: int
    tenant: str
    role: str  # after it; of a membership that ends, the one that it had
    before: str = ""  # the role before a change
    words: str = ""
    number: int | None = None  # of the row that fits

    @property
    def changes(self) -> bool:
        return self.verb in (Verb.JOIN, Verb.LEAVE, Verb.CHANGE)


def mapping_words(claim: str, value: str) -> str:
    return f"{claim} = {value}"


def claim_values(claims: Claims, path: str) -> tuple[str, ...]:
    """Everything that stands at a dotted path: a single text is one value, of a list each entry is one.

    A claim whose own name has dots is found as well: where several names fit, the longest one counts. An address
    counts only where the provider says that it has proved it, else anybody could write one down there.
    """
    if path == EMAIL and claims.get(EMAIL_PROVED) not in (True, "true"):
        return ()
    return tuple(_texts(_values(claims, path.split("."))))


def _values(value: Any, parts: Sequence[str]) -> Iterator[Any]:
    if not parts:
        yield value
    elif isinstance(value, list):
        for each in value:
            if isinstance(each, Mapping):
                yield from _values(each, parts)
    elif isinstance(value, Mapping):
        for count in range(len(parts), 0, -1):
            name = ".".join(parts[:count])
            if name in value:
                yield from _values(value[name], parts[count:])
                return


def _texts(values: Iterable[Any]) -> Iterator[str]:
    for value in values:
        for each in value if isinstance(value, list) else (value,):
            if isinstance(each, bool):
                yield "true" if each else "false"
            elif isinstance(each, str | int):
                yield str(each)


def value_fits(wanted: str, value: str) -> bool:
    """Exactly, or with what the one `*` stands for. Capital letters count."""
    before, star, after = wanted.partition(ANY)
    if not star:
        return wanted == value
    return len(value) >= len(before) + len(after) and value.startswith(before) and value.endswith(after)


def roles_claimed(claims: Claims, table: Iterable[Mapped]) -> dict[int, Mapped]:
    """Tenant -> the row that counts there: the strongest role of those that fit, of equal ones the oldest row."""
    fitting = [row for row in table if any(value_fits(row.value, one) for one in claim_values(claims, row.claim))]
    roles: dict[int, Mapped] = {}
    for row in sorted(fitting, key=lambda row: (STRENGTH.index(row.role), row.number)):
        roles.setdefault(row.tenant_id, row)
    return roles


def steps_by_claims(claimed: Mapping[int, Mapped], standing: Iterable[MembershipStanding]) -> list[ClaimStep]:
    """One step for each tenant that the claims or a membership name, by the tenant's number."""
    member = {row.tenant_id: row for row in standing}
    tenant_ids = sorted(claimed.keys() | member.keys())
    return [_step(claimed.get(tenant_id), member.get(tenant_id)) for tenant_id in tenant_ids]


def _step(row: Mapped | None, now: MembershipStanding | None) -> ClaimStep:
    if now is None:
        assert row is not None  # noqa: S101  the tenant comes from one of the two
        return ClaimStep(Verb.JOIN, row.tenant_id, row.tenant, row.role, words=row.words, number=row.number)
    words, number = (row.words, row.number) if row else (now.claim, None)
    step = ClaimStep(Verb.STAY, now.tenant_id, now.tenant, now.role, now.role, words, number)
    if not now.claim:
        return _with(step, Verb.BY_HAND)
    if row is not None and row.role == now.role:
        return step
    if now.is_last_owner:
        return _with(step, Verb.LAST_OWNER)
    return _with(step, Verb.LEAVE) if row is None else _with(step, Verb.CHANGE, row.role)


def _with(step: ClaimStep, verb: Verb, role: str = "") -> ClaimStep:
    return ClaimStep(verb, step.tenant_id, step.tenant, role or step.role, step.before, step.words, step.number)
