"""Elastic pools: awards of single slots, what units cost, and gangs that live through many awards."""

from pathlib import Path

import django.db.models.deletion
from django.db import migrations, models
from django.db.models import F, Q

_SQL = Path(__file__).parent / "sql"
_BACK = (
    "DROP TRIGGER use_price_append_only ON scheduling_useprice; DROP TRIGGER award_terms_kept ON scheduling_award;"
    + (_SQL / "terms.sql").read_text(encoding="utf-8").replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION")
    + "CREATE TRIGGER award_terms_kept BEFORE UPDATE OF job_id, tenant_id, attempt, pool_id, lane, interval_id, start,"
    ' "end", paid, charges, allocation, on_operator ON scheduling_award'
    " FOR EACH ROW EXECUTE FUNCTION scheduling_award_terms_kept();"
)


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0026_not_before"), ("tenants", "0003_api")]

    operations = [
        migrations.CreateModel(
            name="UsePrice",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("from_slot", models.BigIntegerField()),
                ("amount", models.BigIntegerField()),
                ("set_at", models.DateTimeField()),
                (
                    "pool",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="scheduling.pool",
                    ),
                ),
                (
                    "resource",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="scheduling.resourcekind",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["pool", "resource", "-from_slot", "-id"], name="use_price_newest"),
                ],
                "constraints": [
                    models.CheckConstraint(condition=Q(amount__gte=0), name="use_price_not_negative"),
                ],
            },
        ),
        migrations.AddField("award", "work_left", models.FloatField(blank=True, null=True)),
        migrations.AddField("award", "paid_before", models.BigIntegerField(default=0, db_default=0)),
        migrations.AddField("run", "members", models.JSONField(blank=True, default=list)),
        migrations.RemoveConstraint("award", "award_once_per_attempt"),
        migrations.AddConstraint(
            "award",
            models.UniqueConstraint(
                fields=["job", "attempt"], condition=Q(work_left=None), name="award_once_per_attempt"
            ),
        ),
        migrations.AddConstraint(
            "award", models.UniqueConstraint(fields=["job", "attempt", "start"], name="award_once_per_slot")
        ),
        migrations.AddConstraint(
            "award",
            models.CheckConstraint(
                condition=Q(work_left=None, paid_before=0)
                | Q(work_left__gte=0, paid_before__gte=0, end=F("start") + 1),
                name="award_of_one_slot",
            ),
        ),
        migrations.RunSQL(sql=(_SQL / "elastic.sql").read_text(encoding="utf-8"), reverse_sql=_BACK),
    ]
