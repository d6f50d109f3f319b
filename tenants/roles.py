"""The one place that says who may do what. Services, views, sockets and the API call `allows`.

`billing` sees money and prices but no jobs; the auditor reads everything, asks for audits and studies, and changes
nothing of the market; the operator runs the cluster and corrects memberships, but neither submits nor spends in a
tenant's name.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

VIEWER, SUBMITTER, BILLING, OWNER = "viewer", "submitter", "billing", "owner"
AUDITOR, OPERATOR = "auditor", "operator"

TENANT_ROLES = (VIEWER, SUBMITTER, BILLING, OWNER)
STAFF_ROLES = (AUDITOR, OPERATOR)

MEANING = MappingProxyType(
    {
        VIEWER: "Sees jobs, quota and prices.",
        SUBMITTER: "Also submits, cancels and asks for quotes.",
        BILLING: "Sees quota, prices, ledger, statements and budgets; no jobs.",
        OWNER: "All of the tenant: members, tokens, webhooks, rent and lend policy.",
        AUDITOR: "Reads everything of every tenant, asks for audits and studies, and changes nothing of the market.",
        OPERATOR: "Runs servers, pools, policies and credits; every change with a reason.",
    }
)


class Permission(StrEnum):
    # in one tenant
    TENANT_VIEW = "tenant_view"
    PRICES_VIEW = "prices_view"  # the market page, with the owners of the servers on which jobs run
    QUOTA_VIEW = "quota_view"  # servers and whose cells they hold, intervals, use and fairness
    JOBS_VIEW = "jobs_view"
    JOBS_SUBMIT = "jobs_submit"
    JOBS_CANCEL = "jobs_cancel"
    QUOTES_MAKE = "quotes_make"
    LEDGER_VIEW = "ledger_view"
    BUDGETS_VIEW = "budgets_view"
    BUDGETS_CHANGE = "budgets_change"
    MEMBERS_VIEW = "members_view"
    MEMBERS_CHANGE = "members_change"
    MEMBERSHIP_END = "membership_end"  # leave, and nobody else
    JOIN_REQUESTS_VIEW = "join_requests_view"
    TOKENS_OWN = "tokens_own"  # make, see and revoke one's own tokens
    TOKENS_CHANGE = "tokens_change"  # see and revoke everybody's tokens
    WEBHOOKS_CHANGE = "webhooks_change"
    SHARING_CHANGE = "sharing_change"  # rent and lend policy
    PROGRAMS_VIEW = "programs_view"  # which programs there are; the catalogue decides whose text is shown
    PROGRAMS_REGISTER = "programs_register"  # programs of the tenant itself
    TENANT_HISTORY_VIEW = "tenant_history_view"
    # over all tenants
    TENANTS_VIEW = "tenants_view"
    HISTORY_VIEW = "history_view"
    FAIRNESS_VIEW = "fairness_view"
    AUDITS_ASK = "audits_ask"  # ask for audits and studies, call them off, show and remove studies
    TENANTS_CHANGE = "tenants_change"
    STAFF_CHANGE = "staff_change"
    CLUSTER_CHANGE = "cluster_change"  # servers, cells, pools, hold and drain
    POLICIES_CHANGE = "policies_change"
    CREDITS_CHANGE = "credits_change"
    PROGRAMS_OFFER = "programs_offer"  # the operator's programs, and who may bring programs


_EVERYBODY = frozenset({VIEWER, SUBMITTER, BILLING, OWNER, AUDITOR, OPERATOR})
_JOB_READERS = frozenset({VIEWER, SUBMITTER, OWNER, AUDITOR, OPERATOR})
_JOB_WRITERS = frozenset({SUBMITTER, OWNER})
_MONEY_READERS = frozenset({BILLING, OWNER, AUDITOR, OPERATOR})
_OWNER_AND_STAFF = frozenset({OWNER, AUDITOR, OPERATOR})
_STAFF = frozenset({AUDITOR, OPERATOR})

P = Permission
ROLES_ALLOWED = MappingProxyType(
    {
        P.TENANT_VIEW: _EVERYBODY,
        P.PRICES_VIEW: _EVERYBODY,
        P.QUOTA_VIEW: _EVERYBODY,
        P.JOBS_VIEW: _JOB_READERS,
        P.JOBS_SUBMIT: _JOB_WRITERS,
        P.JOBS_CANCEL: _JOB_WRITERS,
        P.QUOTES_MAKE: _JOB_WRITERS,
        P.LEDGER_VIEW: _MONEY_READERS,
        P.BUDGETS_VIEW: _MONEY_READERS,
        P.BUDGETS_CHANGE: frozenset({BILLING, OWNER}),
        P.MEMBERS_VIEW: _EVERYBODY,
        P.MEMBERS_CHANGE: frozenset({OWNER, OPERATOR}),
        P.MEMBERSHIP_END: frozenset(TENANT_ROLES),
        P.JOIN_REQUESTS_VIEW: _OWNER_AND_STAFF,
        P.TOKENS_OWN: _EVERYBODY,
        P.TOKENS_CHANGE: frozenset({OWNER}),
        P.WEBHOOKS_CHANGE: frozenset({OWNER}),
        P.SHARING_CHANGE: frozenset({OWNER}),
        P.PROGRAMS_VIEW: _EVERYBODY,
        P.PROGRAMS_REGISTER: _JOB_WRITERS,
        P.TENANT_HISTORY_VIEW: _OWNER_AND_STAFF,
        P.TENANTS_VIEW: _STAFF,
        P.HISTORY_VIEW: _STAFF,
        P.FAIRNESS_VIEW: _STAFF,
        P.AUDITS_ASK: _STAFF,
        P.TENANTS_CHANGE: frozenset({OPERATOR}),
        P.STAFF_CHANGE: frozenset({OPERATOR}),
        P.CLUSTER_CHANGE: frozenset({OPERATOR}),
        P.POLICIES_CHANGE: frozenset({OPERATOR}),
        P.CREDITS_CHANGE: frozenset({OPERATOR}),
        P.PROGRAMS_OFFER: frozenset({OPERATOR}),
    }
)


def allows(roles: Iterable[str], permission: Permission) -> bool:
    """Return whether any of these roles grants the permission. The caller has already picked the roles that count here:
    the membership in the tenant at hand, and the roles over all."""
    return not ROLES_ALLOWED[permission].isdisjoint(roles)


# What a token may be limited to. Each permission has exactly one scope; a token has a permission if its scopes contain
# it and a role of its person grants it. With a scope of reading (":read") nobody changes what others see.
SCOPES = MappingProxyType(
    {
        "tenant:read": frozenset({P.TENANT_VIEW, P.MEMBERS_VIEW, P.JOIN_REQUESTS_VIEW, P.TENANT_HISTORY_VIEW}),
        "market:read": frozenset({P.PRICES_VIEW, P.QUOTA_VIEW}),
        "jobs:read": frozenset({P.JOBS_VIEW, P.PROGRAMS_VIEW}),
        "jobs:write": frozenset({P.JOBS_SUBMIT, P.JOBS_CANCEL}),
        "quotes:make": frozenset({P.QUOTES_MAKE}),
        "ledger:read": frozenset({P.LEDGER_VIEW, P.BUDGETS_VIEW}),
        "budgets:write": frozenset({P.BUDGETS_CHANGE}),
        "sharing:write": frozenset({P.SHARING_CHANGE}),
        "members:write": frozenset({P.MEMBERS_CHANGE, P.MEMBERSHIP_END}),
        "tokens:write": frozenset({P.TOKENS_OWN, P.TOKENS_CHANGE}),
        "webhooks:write": frozenset({P.WEBHOOKS_CHANGE}),
        "programs:write": frozenset({P.PROGRAMS_REGISTER, P.PROGRAMS_OFFER}),
        "audit:read": frozenset({P.TENANTS_VIEW, P.HISTORY_VIEW, P.FAIRNESS_VIEW}),
        "audit:write": frozenset({P.AUDITS_ASK}),
        "cluster:write": frozenset({P.CLUSTER_CHANGE, P.POLICIES_CHANGE}),
        "credits:write": frozenset({P.CREDITS_CHANGE}),
        "tenants:write": frozenset({P.TENANTS_CHANGE, P.STAFF_CHANGE}),
    }
)
SCOPE_MEANING = MappingProxyType(
    {
        "tenant:read": "See members, invitations, events and the history",
        "market:read": "See prices, servers and quota",
        "jobs:read": "See jobs and programs",
        "jobs:write": "Submit and cancel jobs",
        "quotes:make": "Ask for quotes",
        "ledger:read": "See the ledger, statements and budgets",
        "budgets:write": "Change budgets",
        "sharing:write": "Change what is rented and lent",
        "members:write": "Leave; invite, change and remove members",
        "tokens:write": "Make and revoke tokens",
        "webhooks:write": "Change webhooks, at which all events are told, and read their log",
        "programs:write": "Register and retire programs",
        "audit:read": "Read everything of every tenant",
        "audit:write": "Ask for audits and studies, and show or remove studies",
        "cluster:write": "Change servers, cells and pools",
        "credits:write": "Grant and withdraw credits",
        "tenants:write": "Make tenants and name the staff",
    }
)


@dataclass(frozen=True)
class ScopePreset:
    """Scopes that are usually wanted together."""

    title: str
    words: str
    scopes: frozenset[str]

    @property
    def scope_list(self) -> list[str]:
        return sorted(self.scopes)


# Typical purposes of the staff's programs. A token never does what its person's roles do not allow.
PRESETS = MappingProxyType(
    {
        "read": ScopePreset(
            "Read all",
            "Everything of every tenant, and no change.",
            frozenset(name for name in SCOPES if name.endswith(":read")),
        ),
        "metrics": ScopePreset(
            "Metrics",
            "For a monitor that collects /metrics, and for the figures of fairness.",
            frozenset({"audit:read", "market:read"}),
        ),
        "automation": ScopePreset(
            "Automation",
            "For programs that run the cluster: servers, cells, pools, tenants and credits, and all reading.",
            frozenset(name for name in SCOPES if name.endswith(":read"))
            | {"cluster:write", "credits:write", "tenants:write", "members:write"},
        ),
    }
)
_SCOPE_OF = MappingProxyType({permission: scope for scope, permissions in SCOPES.items() for permission in permissions})


def scope_of(permission: Permission) -> str:
    """Return the scope that a token needs for this permission."""
    return _SCOPE_OF[permission]
