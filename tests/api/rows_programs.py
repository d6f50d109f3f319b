"""Rows of the table: programs of the catalogue."""

from __future__ import annotations

import json

from tenants.roles import AUDITOR, BILLING, OPERATOR, OWNER, SUBMITTER, VIEWER
from tenants.scoping import scope
from tenants.selectors import access_of
from tests.api.table import READERS, Names, Row, World, answers
from tests.catalogue.builders import BY, DOCUMENT, allow, archive_with, register

WRITERS = (SUBMITTER, OWNER)
OF = "tenants/{tenant}/programs/of/{owner}/{program}/"


def programs(world: World) -> Names:
    """Two of the tenant's own, the first with two versions, and one of the operator's."""
    by = access_of(world.members[OWNER].user, world.tenant)
    own = f"own-{world.tenant.slug}"
    allow(world.tenant)
    with scope(world.tenant):
        for name in (own, "other"):
            register(by, archive_with("train.py"), name=name)
        register(by, archive_with("train.py"), name=own, title="Next")
    register(BY, name="theirs")
    return {"program": own, "owner": world.tenant.slug}


ROWS = [
    Row("programs_list", "get", "tenants/{tenant}/programs/", answers(200, *READERS), prepare=programs),
    Row(
        "programs_register",
        "post",
        "tenants/{tenant}/programs/",
        answers(201, *WRITERS),
        body=lambda names: {"document": DOCUMENT},
        prepare=programs,
    ),
    Row("programs_read", "get", OF, answers(200, *READERS), prepare=programs, foreign=("program", "owner")),
    Row(
        "program_versions_register",
        "post",
        "tenants/{tenant}/programs/{program}/versions/",
        answers(201, *WRITERS),
        body=lambda names: {"document": DOCUMENT | {"name": names["program"], "title": "Third"}},
        prepare=programs,
    ),
    Row(
        "program_uploads_begin",
        "post",
        "tenants/{tenant}/programs/uploads/",
        answers(200, *WRITERS),
        prepare=programs,
    ),
    Row(
        "programs_upload",
        "post",
        "tenants/{tenant}/programs/uploads/archive/",
        answers(201, *WRITERS),
        body=lambda names: {
            "document": json.dumps(DOCUMENT),
            "archive": archive_with("sent.py"),  # not one that is there
        },
        prepare=programs,
        form=True,
    ),
    Row(
        "programs_retire",
        "post",
        "tenants/{tenant}/programs/{program}/retire/",
        answers(200, *WRITERS),
        prepare=programs,
        foreign=("program",),
    ),
    Row(
        "program_archive_read",
        "get",
        OF + "versions/1/archive/",
        answers(200, VIEWER, SUBMITTER, BILLING, OWNER, OPERATOR) | {AUDITOR: 404},
        prepare=programs,
        foreign=("program", "owner"),
    ),
]
