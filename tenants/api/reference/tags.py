"""The tags of the interface in the order of a reader who begins, with a sentence about each."""

from __future__ import annotations

from types import MappingProxyType

TAGS = MappingProxyType(
    {
        "me": "Who calls, which tenants this person or token reaches, and what they may do there.",
        "jobs": "Submit, list, read, explain and cancel jobs, and read what their programs wrote.",
        "quotes": "What would become of a job, without submitting it.",
        "programs": "What a job may run: programs of the tenant's own, of the operator, and those that are built in.",
        "estimates": "How well the ranges of earlier quotes held.",
        "awards": "What jobs were given: units, slots, price, and who is paid.",
        "prices": "Posted prices of both lanes: now, ahead, and as they were.",
        "calendar": "Free units and bookings, slot by slot; use over time.",
        "intervals": "The decisions of the batch lane, one after the other.",
        "ledger": "Balances, every movement of money, and statements of any period.",
        "budgets": "How much a tenant's people or jobs may spend.",
        "credits": "Credits that are paid in or out by the operator.",
        "quota": "The units that a tenant owns, and what they do now.",
        "sharing": "Whether a tenant rents and lends.",
        "events": "What happened, behind a cursor, or as it happens.",
        "webhooks": "Addresses that are told of events, and each try to tell them.",
        "tenants": "The tenants that the caller reaches.",
        "members": "People of a tenant, their roles, and invitations.",
        "tokens": "Bearer tokens of programs: made, listed, revoked.",
        "history": "Who changed what, when and why.",
        "fairness": "Whether sharing left anybody worse off, tenant by tenant and interval by interval.",
        "lab": "A past decided again under other rules, and what that would have been worth to whom.",
        "verification": "Decisions and charges computed again and compared.",
        "pools": "Servers that are sold together, and their clocks.",
        "servers": "The machines of a pool: units, states, drains and losses.",
        "cells": "Whose home the units of a server are.",
        "health": "Whether the process is alive and can work.",
    }
)
