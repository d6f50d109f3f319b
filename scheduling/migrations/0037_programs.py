"""The catalogue of programs: versions and archives that stay as they were registered, and a switch for each tenant."""

import django.contrib.postgres.fields
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models
from django.db.models import Q

from scheduling.models.guards import GUARDS

_KEPT = [f"{name}_{what}" for name in ("archive", "version") for what in ("append_only", "never_emptied")]
_BACK = "".join(f"DROP TRIGGER {name} ON {table};" for table, name in GUARDS.by_place if name in _KEPT)
_PROTECT = django.db.models.deletion.PROTECT


def _id() -> models.BigAutoField:
    return models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")


class Migration(migrations.Migration):
    dependencies = [
        ("scheduling", "0036_pool_engine"),
        ("tenants", "0004_history_names_seals"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="ProgramSwitch",
            fields=[
                (
                    "tenant",
                    models.OneToOneField(
                        on_delete=_PROTECT, primary_key=True, related_name="+", serialize=False, to="tenants.tenant"
                    ),
                ),
                ("may_bring", models.BooleanField(default=False)),
            ],
            options={"verbose_name_plural": "program switches"},
        ),
        migrations.CreateModel(
            name="CatalogueProgram",
            fields=[
                ("id", _id()),
                ("name", models.CharField(max_length=40)),
                (
                    "tenants",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=40), blank=True, null=True, size=None
                    ),
                ),
                ("created_at", models.DateTimeField()),
                ("retired_at", models.DateTimeField(blank=True, null=True)),
                (
                    "tenant",
                    models.ForeignKey(
                        db_index=False, null=True, on_delete=_PROTECT, related_name="+", to="tenants.tenant"
                    ),
                ),
            ],
            options={
                "ordering": ["name"],
                "constraints": [
                    models.UniqueConstraint(fields=["tenant", "name"], name="program_name_once", nulls_distinct=False),
                    models.CheckConstraint(
                        condition=Q(tenant__isnull=True) | Q(tenants__isnull=True), name="program_of_tenant_for_itself"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="ProgramArchive",
            fields=[
                ("digest", models.CharField(max_length=64, primary_key=True, serialize=False)),
                ("content", models.BinaryField()),
                ("size", models.BigIntegerField()),
                ("added_at", models.DateTimeField()),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(condition=Q(size__gt=0, size__lte=20 * 1024**2), name="archive_size")
                ],
            },
        ),
        migrations.CreateModel(
            name="ProgramVersion",
            fields=[
                ("id", _id()),
                ("version", models.PositiveIntegerField()),
                ("document", models.JSONField()),
                ("digest", models.CharField(max_length=64)),
                ("registered_at", models.DateTimeField()),
                ("registered_by_name", models.CharField(max_length=300)),
                (
                    "archive",
                    models.ForeignKey(
                        blank=True,
                        db_index=False,
                        null=True,
                        on_delete=_PROTECT,
                        related_name="+",
                        to="scheduling.programarchive",
                    ),
                ),
                (
                    "program",
                    models.ForeignKey(
                        db_index=False, on_delete=_PROTECT, related_name="+", to="scheduling.catalogueprogram"
                    ),
                ),
                (
                    "registered_by",
                    models.ForeignKey(
                        blank=True, null=True, on_delete=_PROTECT, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
            options={
                "ordering": ["program", "version"],
                "constraints": [
                    models.UniqueConstraint(fields=["program", "version"], name="program_version_once"),
                    models.CheckConstraint(condition=Q(version__gte=1), name="program_version_from_one"),
                ],
            },
        ),
        migrations.RunSQL(GUARDS.sql(*_KEPT), _BACK),
    ]
