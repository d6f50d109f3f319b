"""The catalogue of programs: what is registered, by whom, and which tenants may bring programs of their own."""

from __future__ import annotations

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from tenants.models import Tenant


class ProgramArchive(models.Model):
    """A tar.gz, stored once in pieces, however many versions name it. Its row is never changed or removed."""

    digest = models.CharField(max_length=64, primary_key=True)  # SHA-256 of the content
    size = models.BigIntegerField()  # bytes, as it was sent
    added_at = models.DateTimeField()

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(size__gt=0, size__lte=20 * 1024**2), name="archive_size")]

    def __str__(self) -> str:
        return f"archive {self.digest[:12]}"


class ProgramArchivePiece(models.Model):
    """A piece of an archive, small enough to be held in memory. It is never changed, and removed only when its archive
    is closed."""

    archive = models.ForeignKey(ProgramArchive, on_delete=models.PROTECT, related_name="+", db_index=False)
    number = models.PositiveSmallIntegerField()  # from 0
    content = models.BinaryField()

    class Meta:
        ordering = ["archive", "number"]
        constraints = [models.UniqueConstraint(fields=["archive", "number"], name="archive_piece_once")]

    def __str__(self) -> str:
        return f"piece {self.number} of archive {str(self.archive_id)[:12]}"


class ArchiveKeeping(models.Model):
    """How long an archive's content is kept. Its digest and the versions that name it stay in any case."""

    archive = models.OneToOneField(ProgramArchive, on_delete=models.PROTECT, primary_key=True, related_name="+")
    used_at = models.DateTimeField()  # when it was sent, or its latest known use
    closed_at = models.DateTimeField(null=True, blank=True)  # no new job can name it from then on
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
    """A program by its name. `tenant` None means that it is the operator's: for the tenants in `tenants`, or for all
    where that is None.

    It has no tenant's scope, since every tenant sees the operator's programs. Read it through
    `scheduling.programs.stored` or the reads of the catalogue, which take whose rows they return.
    """

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, null=True, related_name="+", db_index=False)
    name = models.CharField(max_length=40)
    tenants = ArrayField(models.CharField(max_length=40), null=True, blank=True)  # slugs
    created_at = models.DateTimeField()
    retired_at = models.DateTimeField(null=True, blank=True)  # no new job can name it from then on

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
    """The content of one version of a program. It is never changed or removed: a job keeps the version with which it
    was submitted."""

    program = models.ForeignKey(CatalogueProgram, on_delete=models.PROTECT, related_name="+", db_index=False)
    version = models.PositiveIntegerField()  # from 1
    document = models.JSONField()  # as `scheduling.programs.catalogue` writes it
    digest = models.CharField(max_length=64)  # of the content without the version's number
    archive = models.ForeignKey(
        ProgramArchive, on_delete=models.PROTECT, null=True, blank=True, related_name="+", db_index=False
    )
    registered_at = models.DateTimeField()
    registered_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    registered_by_name = models.CharField(max_length=300)  # as in the history, also where no person acted

    class Meta:
        ordering = ["program", "version"]
        constraints = [
            models.UniqueConstraint(fields=["program", "version"], name="program_version_once"),
            models.CheckConstraint(condition=Q(version__gte=1), name="program_version_from_one"),
        ]

    def __str__(self) -> str:
        return f"version {self.version} of program {self.program_id}"


class OperatorSecret(models.Model):
    """A value that processes get and that is shown to nobody. `secret` is encrypted by `tenants.common.stored_secrets`,
    and empty once the value is removed. `tenants` are those whose jobs may use it, or None for all."""

    name = models.CharField(max_length=40, unique=True)
    secret = models.TextField(blank=True)
    tenants = ArrayField(models.CharField(max_length=40), null=True, blank=True)  # slugs
    set_at = models.DateTimeField()
    removed_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"secret {self.name}"


class ProgramSwitch(models.Model):
    """Whether the operator allows a tenant to bring programs of its own. Without a row it may not."""

    tenant = models.OneToOneField(Tenant, on_delete=models.PROTECT, primary_key=True, related_name="+")
    may_bring = models.BooleanField(default=False)

    class Meta:
        verbose_name_plural = "program switches"

    def __str__(self) -> str:
        return f"tenant {self.tenant_id} {'may' if self.may_bring else 'may not'} bring programs"
