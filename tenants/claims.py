"""Which memberships an OpenID provider's claims about a person give, by a table of mappings.

Nothing here reads or writes rows. The same claims, table and memberships always give the same steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tenants.roles import BILLING, OWNER, SUBMITTER, VIEWER

Claims = Mapping[str, Any]

# If several roles fit in one tenant, the first of these counts. A submitter and a member for billing may do different
# things; a person who is mapped to both becomes a submitter.
STRENGTH = (OWNER, SUBMITTER, BILLING, VIEWER)
ANY = "*"  # it stands for any characters, or none, once in a value
EMAIL, EMAIL_PROVED = "email", "email_verified"
CLAIM_LONGEST, VALUE_LONGEST = 120, 150  # characters


@dataclass(frozen=True)
class Mapped:
    """One row of the table: a person with this value in this claim has this role in this tenant."""

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
    """A membership as it is now. `claim` is the text of the row that made it, empty where a person made it by hand."""

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
    BY_HAND = "by_hand"  # a person made the membership, so claims leave it as it is
    LAST_OWNER = "last_owner"  # claims would end it, and the tenant would have no owner


@dataclass(frozen=True)
class ClaimStep:
    """What claims do to one membership. `words` is the text of the row that fits, or of the row that made a membership
    that ends."""

    verb: Verb
    tenant_id: int
    tenant: str
    role: str  # the role afterwards; where the membership ends, the role that it had
    before: str = ""  # the role before a change
    words: str = ""
    number: int | None = None  # the number of the row that fits

    @property
    def changes(self) -> bool:
        return self.verb in (Verb.JOIN, Verb.LEAVE, Verb.CHANGE)


def mapping_words(claim: str, value: str) -> str:
    return f"{claim} = {value}"


def claim_values(claims: Claims, path: str) -> tuple[str, ...]:
    """Return all values at a dotted path: one for a text, and one for each entry of a list.

    A claim whose own name has dots is found as well: if several names fit, the longest one is taken. An e-mail address
    counts only if the provider says that it has proved it, since otherwise anybody could enter one there.
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
    """Return whether the value is the wanted one, or fits around its one `*`. Upper and lower case differ."""
    before, star, after = wanted.partition(ANY)
    if not star:
        return wanted == value
    return len(value) >= len(before) + len(after) and value.startswith(before) and value.endswith(after)


def roles_claimed(claims: Claims, table: Iterable[Mapped]) -> dict[int, Mapped]:
    """Return the row that counts in each tenant: the one with the strongest role that fits, the oldest among equals."""
    fitting = [row for row in table if any(value_fits(row.value, one) for one in claim_values(claims, row.claim))]
    roles: dict[int, Mapped] = {}
    for row in sorted(fitting, key=lambda row: (STRENGTH.index(row.role), row.number)):
        roles.setdefault(row.tenant_id, row)
    return roles


def steps_by_claims(claimed: Mapping[int, Mapped], standing: Iterable[MembershipStanding]) -> list[ClaimStep]:
    """Return one step for each tenant that the claims or a membership name, in the order of the tenants' numbers."""
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
