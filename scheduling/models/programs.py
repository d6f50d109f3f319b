"""The catalogue of programs: what was registered, by whom, and which tenants may bring programs of their own."""

from __future__ import annotations

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from tenants.models import Tenant


class ProgramArchive(models.Model):
    """A tar.gz, kept once however many versions name it, in pieces. Its row is never changed or removed."""

    digest = models.CharField(max_length=64, primary_key=True)  # SHA-256 of the content
    size = models.BigIntegerField()  # bytes, as it was sent
    added_at = models.DateTimeField()

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(size__gt=0, size__lte=20 * 1024**2), name="archive_size")]

    def __str__(self) -> str:
        return f"archive {self.digest[:12]}"


class ProgramArchivePiece(models.Model):
    """So much of an archive as is in memory at once. Never changed, and removed only from an archive that is closed."""

    archive = models.ForeignKey(ProgramArchive, on_delete=models.PROTECT, related_name="+", db_index=False)
    number = models.PositiveSmallIntegerField()  # from 0
    content = models.BinaryField()

    class Meta:
        ordering = ["archive", "number"]
        constraints = [models.UniqueConstraint(fields=["archive", "number"], name="archive_piece_once")]

    def __str__(self) -> str:
        return f"piece {self.number} of archive {str(self.archive_id)[:12]}"


class ArchiveKeeping(models.Model):
    """How long an archive's content is kept. Its digest and its versions stay in any case."""

    archive = models.OneToOneField(ProgramArchive, on_delete=models.PROTECT, primary_key=True, related_name="+")
    used_at = models.DateTimeField()  # when it was sent, or a later use that was found
    closed_at = models.DateTimeField(null=True, blank=True)  # from then on no new job can name it
    removed_at = models.DateTimeField(null=True, blank=True)  # its content is gone

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(removed_at__isnull=True) | Q(closed_at__isnull=False), name="archive_closed_before_removed"
            )
        ]

    def __str__(self) -> str:
        return f"keeping of archive {str(self.archive_id)[:12]}"


class CatalogueProgram(models.Model):
    """A program by its name. `tenant` None: it is the operator's, for the tenants of `tenants`, or for all (None).

    It has no tenant's scope, since every tenant sees the operator's: whoever reads asks `scheduling.programs.stored`
    or the reads of the catalogue, which say whose rows they want.
    """

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, null=True, related_name="+", db_index=False)
    name = models.CharField(max_length=40)
    tenants = ArrayField(models.CharField(max_length=40), null=True, blank=True)  # slugs
    created_at = models.DateTimeField()
    retired_at = models.DateTimeField(null=True, blank=True)  # from then on no new job can name it

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(fields=["tenant", "name"], name="program_name_once", nulls_distinct=False),
            models.CheckConstraint(
                condition=Q(tenant__isnull=True) | Q(tenants__isnull=True), name="program_of_tenant_for_itself"
            ),
        ]

    def __str__(self) -> str:
        return self.name


class ProgramVersion(models.Model):
    """What one version of a program says. Never changed or removed: a job keeps the version it was submitted with."""

    program = models.ForeignKey(CatalogueProgram, on_delete=models.PROTECT, related_name="+", db_index=False)
    version = models.PositiveIntegerField()  # from 1
    document = models.JSONField()  # as `scheduling.programs.catalogue` writes it
    digest = models.CharField(max_length=64)  # of all that it says but its number
    archive = models.ForeignKey(
        ProgramArchive, on_delete=models.PROTECT, null=True, blank=True, related_name="+", db_index=False
    )
    registered_at = models.DateTimeField()
    registered_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    registered_by_name = models.CharField(max_length=300)  # as the history has it, also where no person acted

    class Meta:
        ordering = ["program", "version"]
        constraints = [
            models.UniqueConstraint(fields=["program", "version"], name="program_version_once"),
            models.CheckConstraint(condition=Q(version__gte=1), name="program_version_from_one"),
        ]

    def __str__(self) -> str:
        return f"version {self.version} of program {self.program_id}"


class OperatorSecret(models.Model):
    """A value that processes get and nobody is shown. `secret`: as `tenants.stored_secrets` stores it; empty once it is
    removed. `tenants`: whose jobs may have it; None: everybody's."""

    name = models.CharField(max_length=40, unique=True)
    secret = models.TextField(blank=True)
    tenants = ArrayField(models.CharField(max_length=40), null=True, blank=True)  # slugs
    set_at = models.DateTimeField()
    removed_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"secret {self.name}"


class ProgramSwitch(models.Model):
    """Whether the operator lets a tenant bring programs of its own. Without a row it may not."""

    tenant = models.OneToOneField(Tenant, on_delete=models.PROTECT, primary_key=True, related_name="+")
    may_bring = models.BooleanField(default=False)

    class Meta:
        verbose_name_plural = "program switches"

    def __str__(self) -> str:
        return f"tenant {self.tenant_id} {'may' if self.may_bring else 'may not'} bring programs"
