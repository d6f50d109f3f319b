"""What a day moved for a tenant, kept in one row. The columns stand in the order in which `ledger_sheet` makes them.

Days that are over get theirs from the clock, a portion at a time; until then they are read from the book.
"""

from pathlib import Path

import django.db.models.deletion
from django.contrib.postgres.fields import ArrayField
from django.db import migrations, models

_SQL = Path(__file__).parent / "sql"

_DROP = """
DROP FUNCTION ledger_daysheet_fill CASCADE;
DROP FUNCTION ledger_sheet_of_day, ledger_sheet;
"""


class Migration(migrations.Migration):
    dependencies = [("ledger", "0003_other_kinds"), ("tenants", "0003_api")]

    operations = [
        migrations.CreateModel(
            name="DaySheet",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "day", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.tenant",
                    ),
                ),
                ("day", models.DateField()),
                ("entries", models.BigIntegerField()),
                ("kind_names", ArrayField(base_field=models.TextField(), size=None)),
                ("kind_payments", ArrayField(base_field=models.BigIntegerField(), size=None)),
                ("kind_available", ArrayField(base_field=models.BigIntegerField(), size=None)),
                ("kind_held", ArrayField(base_field=models.BigIntegerField(), size=None)),
                ("kind_earned", ArrayField(base_field=models.BigIntegerField(), size=None)),
                ("paid_subjects", ArrayField(base_field=models.TextField(), size=None)),
                ("paid_kinds", ArrayField(base_field=models.TextField(), size=None)),
                ("paid_payments", ArrayField(base_field=models.BigIntegerField(), size=None)),
                ("paid_available", ArrayField(base_field=models.BigIntegerField(), size=None)),
                ("paid_held", ArrayField(base_field=models.BigIntegerField(), size=None)),
                ("paid_last_at", ArrayField(base_field=models.DateTimeField(), size=None)),
                ("other_subjects", ArrayField(base_field=models.TextField(), size=None)),
                ("earned_awards", ArrayField(base_field=models.BigIntegerField(), size=None)),
                ("earned_kinds", ArrayField(base_field=models.TextField(), size=None)),
                ("earned_payments", ArrayField(base_field=models.BigIntegerField(), size=None)),
                ("earned_first_slots", ArrayField(base_field=models.BigIntegerField(), size=None)),
                ("earned_last_slots", ArrayField(base_field=models.BigIntegerField(), size=None)),
                ("earned_amounts", ArrayField(base_field=models.BigIntegerField(), size=None)),
                ("earned_first_at", ArrayField(base_field=models.DateTimeField(), size=None)),
            ],
        ),
        migrations.RunSQL(sql=[(_SQL / "sheets.sql").read_text()], reverse_sql=_DROP),
    ]
