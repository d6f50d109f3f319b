"""Archives in pieces of a mebibyte, so that none is ever whole in memory; and the operator's store of secrets."""

import django.contrib.postgres.fields
import django.db.models.deletion
from django.db import migrations, models

from scheduling.models.guards import GUARDS

_KEPT = ("archive_piece_append_only", "archive_piece_never_emptied")
_BACK = "".join(f"DROP TRIGGER {name} ON {table};" for table, name in GUARDS.by_place if name in _KEPT)
_CUT = """
INSERT INTO scheduling_programarchivepiece (archive_id, number, content)
SELECT digest, number, substring(content FROM number * 1048576 + 1 FOR 1048576)
FROM scheduling_programarchive, generate_series(0, ((size - 1) / 1048576)::int) AS number
"""


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0040_job_arrays")]

    operations = [
        migrations.CreateModel(
            name="ProgramArchivePiece",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.PositiveSmallIntegerField()),
                ("content", models.BinaryField()),
                (
                    "archive",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="scheduling.programarchive",
                    ),
                ),
            ],
            options={
                "ordering": ["archive", "number"],
                "constraints": [models.UniqueConstraint(fields=["archive", "number"], name="archive_piece_once")],
            },
        ),
        migrations.CreateModel(
            name="OperatorSecret",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=40, unique=True)),
                ("secret", models.TextField(blank=True)),
                (
                    "tenants",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=40), blank=True, null=True, size=None
                    ),
                ),
                ("set_at", models.DateTimeField()),
                ("removed_at", models.DateTimeField(blank=True, null=True)),
            ],
        ),
        # Checked at once, not at the end of the transaction: a table with checks to come cannot be altered.
        migrations.RunSQL(f"SET CONSTRAINTS ALL IMMEDIATE; {_CUT}", migrations.RunSQL.noop),
        migrations.RemoveField(model_name="programarchive", name="content"),
        migrations.RunSQL(GUARDS.sql(*_KEPT), _BACK),
    ]
