"""The catalogue of programs: their `registration` and archives, the operator's `secrets`, and what each reader sees."""

from scheduling.catalogue.read_archives import archive_names
from scheduling.catalogue.read_catalogue import may_read
from scheduling.catalogue.read_entries import ArchiveRead, archive_read
from scheduling.catalogue.registration import MAY_NOT_BRING, program_register, programs_allow
from scheduling.catalogue.secrets import secrets_opened

__all__ = [
    "MAY_NOT_BRING",
    "ArchiveRead",
    "archive_names",
    "archive_read",
    "may_read",
    "program_register",
    "programs_allow",
    "secrets_opened",
]
