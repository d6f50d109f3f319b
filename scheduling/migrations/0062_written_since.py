"""The database notes which transaction wrote a row of the calendar, and which changed what a pool consists of."""

from __future__ import annotations

from pathlib import Path

import django.db.models.deletion
from django.db import migrations, models

from scheduling.models.guards import GUARDS
from scheduling.models.transactions import TransactionField

TABLES = ("resourcekind", "server", "servercapacity", "cell", "tenantpolicy")
TRIGGERS = ("calendar_written", "shape_calendar", *(f"shape_{table}" for table in TABLES))
FUNCTIONS = Path(__file__).with_name("sql").joinpath("written.sql").read_text(encoding="utf-8")
BACK = [f"DROP TRIGGER {name} ON {table}" for table, name in GUARDS.by_place if name in TRIGGERS]
BACK += ["DROP FUNCTION scheduling_calendar_written()", "DROP FUNCTION scheduling_shape_changed()"]


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0061_archives_leave")]

    operations = [
        # A value that is the same for all rows, so that none is written anew.
        migrations.AddField(
            "calendarcell", "written_by", TransactionField(db_default=models.Value("0"), editable=False)
        ),
        migrations.CreateModel(
            name="ShapeChange",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "pool_id", "written_by", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("written_by", TransactionField(editable=False)),
                (
                    "pool",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="scheduling.pool",
                    ),
                ),
            ],
        ),
        migrations.RunSQL(f"{FUNCTIONS}{GUARDS.sql(*TRIGGERS)}", ";".join(BACK)),
    ]
