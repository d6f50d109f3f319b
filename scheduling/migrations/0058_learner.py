"""A learner beside a pool: its settings and state, what it offers, and the weights that were put in place for good."""

import django.db.models.deletion
from django.db import migrations, models

_KEPT = (
    "CREATE TRIGGER promotion_append_only BEFORE UPDATE OR DELETE ON scheduling_weightspromotion"
    " FOR EACH ROW EXECUTE FUNCTION scheduling_append_only();"
    "CREATE TRIGGER promotion_never_emptied BEFORE TRUNCATE ON scheduling_weightspromotion"
    " FOR EACH STATEMENT EXECUTE FUNCTION scheduling_append_only();"
)
_BACK = (
    "DROP TRIGGER promotion_never_emptied ON scheduling_weightspromotion;"
    "DROP TRIGGER promotion_append_only ON scheduling_weightspromotion;"
)


class Migration(migrations.Migration):
    dependencies = [
        ("scheduling", "0057_read_while_others_work"),
    ]

    operations = [
        migrations.CreateModel(
            name="PoolLearner",
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
                ("is_on", models.BooleanField(default=False)),
                ("promotes", models.BooleanField(default=False)),
                ("every_seconds", models.PositiveIntegerField(default=600)),
                ("shadow_slots", models.PositiveIntegerField(default=50)),
                ("margin", models.FloatField(default=0.02)),
                ("step", models.PositiveIntegerField(default=0)),
                ("state", models.BinaryField(null=True)),
                ("began_with", models.CharField(blank=True, max_length=64)),
                ("curve", models.JSONField(blank=True, default=list)),
                ("worked_at", models.DateTimeField(blank=True, null=True)),
                ("sentence", models.TextField(blank=True)),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("every_seconds__gte", 1), ("margin__gte", 0), ("shadow_slots__gte", 2)),
                        name="learner_within_limits",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="WeightsCandidate",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("against", models.CharField(max_length=64)),
                ("from_slot", models.BigIntegerField()),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("shadow", "Shadow"),
                            ("offered", "Offered"),
                            ("not_better", "Not Better"),
                            ("taken", "Taken"),
                            ("passed", "Passed"),
                        ],
                        default="shadow",
                        max_length=10,
                    ),
                ),
                ("verdict", models.JSONField(blank=True, default=dict)),
                ("made_at", models.DateTimeField()),
                ("judged_at", models.DateTimeField(blank=True, null=True)),
                (
                    "pool",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="scheduling.pool"
                    ),
                ),
                (
                    "weights",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="scheduling.policyweights"
                    ),
                ),
            ],
            options={
                "ordering": ["-id"],
            },
        ),
        migrations.CreateModel(
            name="ShadowSlot",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("slot", models.BigIntegerField()),
                ("reward_in_use", models.FloatField()),
                ("reward", models.FloatField()),
                (
                    "candidate",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="slots",
                        to="scheduling.weightscandidate",
                    ),
                ),
            ],
            options={
                "ordering": ["candidate", "slot"],
            },
        ),
        migrations.CreateModel(
            name="WeightsPromotion",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("from_slot", models.BigIntegerField()),
                ("by_rule", models.BooleanField(default=False)),
                ("made_at", models.DateTimeField()),
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
                    "weights",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="scheduling.policyweights",
                    ),
                ),
            ],
        ),
        migrations.AddConstraint(
            model_name="weightscandidate",
            constraint=models.CheckConstraint(
                condition=models.Q(("state__in", ["shadow", "offered", "not_better", "taken", "passed"])),
                name="candidate_state_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="weightscandidate",
            constraint=models.UniqueConstraint(
                condition=models.Q(("state__in", ["shadow", "offered"])), fields=("pool",), name="candidate_one_open"
            ),
        ),
        migrations.AddConstraint(
            model_name="shadowslot",
            constraint=models.UniqueConstraint(fields=("candidate", "slot"), name="shadow_slot_once"),
        ),
        migrations.AddIndex(
            model_name="weightspromotion",
            index=models.Index(fields=["pool", "-from_slot", "-id"], name="promotion_newest"),
        ),
        migrations.RunSQL(_KEPT, _BACK),
    ]
