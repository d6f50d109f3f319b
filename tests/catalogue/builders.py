"""Programs for tests: people who register them, and documents that can be registered."""

from __future__ import annotations

import io
import tarfile
from typing import Any

from scheduling.catalogue.registration import Registered, program_register, programs_allow
from scheduling.models import ProgramVersion
from tenants.access import Access, access_of_system
from tenants.models import Tenant
from tenants.roles import SUBMITTER
from tests.scheduling.builders import NOON

BY, WHY = access_of_system("the tests"), "a test"
DOCUMENT: dict[str, Any] = {
    "name": "align",
    "title": "Alignment",
    "shape": "all_reduce",
    "command": ["python3", "train.py", "--rate={rate}"],
    "parameters": [{"name": "rate", "kind": "number", "default": 0.1, "least": 0, "most": 1}],
}


def member(tenant: Tenant, role: str = SUBMITTER) -> Access:
    return Access(user=None, tenant=tenant, roles=frozenset({role}))


def allow(tenant: Tenant, *, may_bring: bool = True) -> None:
    programs_allow(tenant=tenant, may_bring=may_bring, by=BY, reason=WHY, at=NOON)


def register(by: Access, archive: bytes | None = None, **fields: Any) -> ProgramVersion:
    options = {name: fields.pop(name) for name in ("tenants", "is_new") if name in fields}
    file = None if archive is None else io.BytesIO(archive)
    outcome = program_register(document=DOCUMENT | fields, archive=file, by=by, at=NOON, reason=WHY, **options)
    assert isinstance(outcome, Registered), outcome
    return outcome.row


def archive_with(*names: str, content: bytes = b"print(1)\n", **fields: Any) -> bytes:
    """Return a tar.gz with a file of each name. `fields` are set in each entry."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name in names:
            entry = tarfile.TarInfo(name)
            for field, value in fields.items():
                setattr(entry, field, value)
            entry.size = len(content) if entry.isreg() else 0
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()
