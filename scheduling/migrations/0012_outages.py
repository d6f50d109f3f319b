"""When each pool was last seen at work, and the slots that passed while the market stood still."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("scheduling", "0011_terms_watched"),
    ]

    operations = [
        migrations.CreateModel(
            name="Pulse",
            fields=[
                (
                    "pool",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to="scheduling.pool",
                    ),
                ),
                ("alive_at", models.DateTimeField()),
            ],
            options={
                "verbose_name_plural": "pulses",
            },
        ),
        migrations.AddField(
            model_name="pool",
            name="outage_grace_seconds",
            field=models.PositiveIntegerField(blank=True, default=60, null=True),
        ),
        migrations.CreateModel(
            name="Outage",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("start", models.BigIntegerField()),
                ("end", models.BigIntegerField()),
                ("alive_at", models.DateTimeField()),
                ("noticed_at", models.DateTimeField()),
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
            options={
                "ordering": ["pool", "start"],
                "constraints": [
                    models.UniqueConstraint(fields=("pool", "start"), name="outage_once"),
                    models.CheckConstraint(
                        condition=models.Q(("end__gt", models.F("start")), ("start__gte", 0)), name="outage_has_slots"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("noticed_at__gt", models.F("alive_at"))), name="outage_noticed_afterwards"
                    ),
                ],
            },
        ),
        migrations.RunSQL(
            "CREATE TRIGGER outage_append_only BEFORE UPDATE OR DELETE ON scheduling_outage"
            " FOR EACH ROW EXECUTE FUNCTION scheduling_append_only()",
            "DROP TRIGGER outage_append_only ON scheduling_outage",
        ),
    ]
