import django.db.models.deletion
import django.db.models.expressions
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("scheduling", "0047_dividends"),
        ("tenants", "0004_history_names_seals"),
    ]

    operations = [
        migrations.CreateModel(
            name="PoolHour",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("hour", models.DateTimeField()),
                ("until_slot", models.BigIntegerField()),
                ("slots", models.PositiveIntegerField()),
                ("capacity", models.BigIntegerField()),
                ("used", models.BigIntegerField()),
                ("rented", models.BigIntegerField()),
                ("unsold", models.BigIntegerField()),
                ("down", models.BigIntegerField()),
                ("priced_slots", models.PositiveIntegerField()),
                ("price_sum", models.FloatField()),
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
                "ordering": ["pool", "hour", "resource"],
                "constraints": [
                    models.UniqueConstraint(fields=("pool", "hour", "resource"), name="pool_hour_once"),
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "capacity",
                                django.db.models.expressions.CombinedExpression(
                                    django.db.models.expressions.CombinedExpression(
                                        django.db.models.expressions.CombinedExpression(
                                            models.F("used"), "+", models.F("rented")
                                        ),
                                        "+",
                                        models.F("unsold"),
                                    ),
                                    "+",
                                    models.F("down"),
                                ),
                            )
                        ),
                        name="pool_hour_adds_up",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("down__gte", 0), ("rented__gte", 0), ("unsold__gte", 0), ("used__gte", 0)),
                        name="pool_hour_not_negative",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="ServerHour",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("hour", models.DateTimeField()),
                ("capacity", models.BigIntegerField()),
                ("taken", models.BigIntegerField()),
                ("down", models.BigIntegerField()),
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
                (
                    "server",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="scheduling.server",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("pool", "hour", "resource", "server"), name="server_hour_once"),
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "capacity__gte",
                                django.db.models.expressions.CombinedExpression(
                                    models.F("taken"), "+", models.F("down")
                                ),
                            ),
                            ("down__gte", 0),
                            ("taken__gte", 0),
                        ),
                        name="server_hour_within_capacity",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="TenantHour",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("hour", models.DateTimeField()),
                ("capacity", models.BigIntegerField()),
                ("used", models.BigIntegerField()),
                ("lent", models.BigIntegerField()),
                ("unsold", models.BigIntegerField()),
                ("down", models.BigIntegerField()),
                ("rented", models.BigIntegerField()),
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
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="tenants.tenant"
                    ),
                ),
            ],
            options={
                "abstract": False,
                "base_manager_name": "objects",
                "constraints": [
                    models.UniqueConstraint(fields=("tenant", "pool", "hour", "resource"), name="tenant_hour_once"),
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "capacity",
                                django.db.models.expressions.CombinedExpression(
                                    django.db.models.expressions.CombinedExpression(
                                        django.db.models.expressions.CombinedExpression(
                                            models.F("used"), "+", models.F("lent")
                                        ),
                                        "+",
                                        models.F("unsold"),
                                    ),
                                    "+",
                                    models.F("down"),
                                ),
                            )
                        ),
                        name="tenant_hour_adds_up",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("down__gte", 0), ("lent__gte", 0), ("rented__gte", 0), ("unsold__gte", 0), ("used__gte", 0)
                        ),
                        name="tenant_hour_not_negative",
                    ),
                ],
            },
        ),
    ]
