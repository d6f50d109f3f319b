"""The tables and their rules, up to what was 0004 before the steps to it were removed; the next one is 0005."""

from pathlib import Path

import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.expressions
from django.db import migrations, models

_SQL = Path(__file__).parent / "sql"
_RULES = [(_SQL / name).read_text(encoding="utf-8") for name in ("rules.sql", "post.sql", "sheets.sql")]
_DROP = """
DROP FUNCTION ledger_daysheet_fill CASCADE;
DROP FUNCTION ledger_sheet_of_day, ledger_sheet;
DROP FUNCTION ledger_post, ledger_open_accounts;
DROP FUNCTION ledger_refuse_change, ledger_transaction_check, ledger_transaction_enter, ledger_entry_apply,
    ledger_account_open_balance CASCADE;
DROP FUNCTION ledger_digest, ledger_line, ledger_seal_digest;
"""


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("tenants", "0003_api"),
    ]

    operations = [
        migrations.CreateModel(
            name="Seal",
            fields=[
                ("number", models.BigIntegerField(primary_key=True, serialize=False)),
                ("last_transaction_id", models.BigIntegerField(unique=True)),
                ("sealed_at", models.DateTimeField()),
                ("members", models.BinaryField()),
                ("digest", models.BinaryField(max_length=32)),
            ],
            options={
                "ordering": ["number"],
            },
        ),
        migrations.CreateModel(
            name="Account",
            fields=[
                ("id", models.BigIntegerField(primary_key=True, serialize=False)),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("available", "Available"),
                            ("held", "Held"),
                            ("earned", "Earned"),
                            ("operator", "Operator"),
                            ("outside", "Outside"),
                        ],
                        max_length=16,
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.PROTECT, related_name="+", to="tenants.tenant"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                (
                                    "id",
                                    django.db.models.expressions.CombinedExpression(
                                        django.db.models.expressions.CombinedExpression(
                                            models.F("tenant"), "*", models.Value(8)
                                        ),
                                        "+",
                                        models.Value(0),
                                    ),
                                ),
                                ("kind", "available"),
                                ("tenant__isnull", False),
                            ),
                            models.Q(
                                (
                                    "id",
                                    django.db.models.expressions.CombinedExpression(
                                        django.db.models.expressions.CombinedExpression(
                                            models.F("tenant"), "*", models.Value(8)
                                        ),
                                        "+",
                                        models.Value(1),
                                    ),
                                ),
                                ("kind", "held"),
                                ("tenant__isnull", False),
                            ),
                            models.Q(
                                (
                                    "id",
                                    django.db.models.expressions.CombinedExpression(
                                        django.db.models.expressions.CombinedExpression(
                                            models.F("tenant"), "*", models.Value(8)
                                        ),
                                        "+",
                                        models.Value(2),
                                    ),
                                ),
                                ("kind", "earned"),
                                ("tenant__isnull", False),
                            ),
                            models.Q(("id", 1), ("kind", "operator"), ("tenant__isnull", True)),
                            models.Q(("id", 2), ("kind", "outside"), ("tenant__isnull", True)),
                            _connector="OR",
                        ),
                        name="ledger_account_id_names_owner",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Balance",
            fields=[
                ("stripe", models.PositiveSmallIntegerField()),
                ("guarded", models.BooleanField()),
                ("amount", models.BigIntegerField(default=0)),
                ("entry_count", models.BigIntegerField(default=0)),
                (
                    "account",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="balances",
                        to="ledger.account",
                    ),
                ),
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "account_id", "stripe", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("guarded", False), models.Q(("amount__gte", 0), ("stripe", 0)), _connector="OR"
                        ),
                        name="ledger_balance_not_negative",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="DayTotal",
            fields=[
                ("day", models.DateField()),
                ("stripe", models.PositiveSmallIntegerField()),
                ("amount", models.BigIntegerField()),
                ("entry_count", models.BigIntegerField()),
                (
                    "account",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="day_totals",
                        to="ledger.account",
                    ),
                ),
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "account_id", "day", "stripe", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Transaction",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("key", models.CharField(db_collation="C", max_length=200)),
                ("kind", models.CharField(max_length=40)),
                ("subject", models.CharField(blank=True, db_collation="C", default="", max_length=120)),
                ("occurred_at", models.DateTimeField()),
                ("facts", models.JSONField(default=dict)),
                ("entry_count", models.PositiveSmallIntegerField()),
                ("digest", models.BinaryField(max_length=32)),
                (
                    "corrects",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="corrections",
                        to="ledger.transaction",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("subject", ""), _negated=True),
                        fields=["subject", "id"],
                        name="ledger_transaction_subject",
                    ),
                    models.Index(
                        condition=models.Q(("corrects__isnull", False)),
                        fields=["corrects"],
                        name="ledger_transaction_corrects",
                    ),
                    models.Index(
                        condition=models.Q(("kind__in", ["hold", "settle"]), _negated=True),
                        fields=["occurred_at", "id"],
                        name="ledger_transaction_other",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("key",), name="ledger_transaction_key_once"),
                    models.CheckConstraint(
                        condition=models.Q(("entry_count__gte", 2)), name="ledger_transaction_two_entries"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("key__regex", "^[!#-[\\]-~]+$"), ("kind__regex", "^[!#-[\\]-~]+$")),
                        name="ledger_transaction_plain_names",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("subject", ""), ("subject__regex", "^[!#-[\\]-~]+$"), _connector="OR"),
                        name="ledger_transaction_plain_subject",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("corrects__lt", models.F("id"))), name="ledger_transaction_corrects_earlier"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Entry",
            fields=[
                ("line", models.PositiveSmallIntegerField()),
                ("amount", models.BigIntegerField()),
                ("occurred_at", models.DateTimeField()),
                (
                    "account",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="entries",
                        to="ledger.account",
                    ),
                ),
                (
                    "transaction",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="entries",
                        to="ledger.transaction",
                    ),
                ),
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "transaction_id", "line", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "entries",
                "indexes": [
                    models.Index(
                        fields=["account", "occurred_at", "transaction", "line"], name="ledger_entry_statement"
                    )
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("amount", 0), _negated=True), name="ledger_entry_not_zero"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="DaySheet",
            fields=[
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
                ("kind_names", django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), size=None)),
                (
                    "kind_payments",
                    django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), size=None),
                ),
                (
                    "kind_available",
                    django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), size=None),
                ),
                (
                    "kind_held",
                    django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), size=None),
                ),
                (
                    "kind_earned",
                    django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), size=None),
                ),
                ("paid_subjects", django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), size=None)),
                ("paid_kinds", django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), size=None)),
                (
                    "paid_payments",
                    django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), size=None),
                ),
                (
                    "paid_available",
                    django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), size=None),
                ),
                (
                    "paid_held",
                    django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), size=None),
                ),
                (
                    "paid_last_at",
                    django.contrib.postgres.fields.ArrayField(base_field=models.DateTimeField(), size=None),
                ),
                ("other_subjects", django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), size=None)),
                (
                    "earned_awards",
                    django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), size=None),
                ),
                ("earned_kinds", django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), size=None)),
                (
                    "earned_payments",
                    django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), size=None),
                ),
                (
                    "earned_first_slots",
                    django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), size=None),
                ),
                (
                    "earned_last_slots",
                    django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), size=None),
                ),
                (
                    "earned_amounts",
                    django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), size=None),
                ),
                (
                    "earned_first_at",
                    django.contrib.postgres.fields.ArrayField(base_field=models.DateTimeField(), size=None),
                ),
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "day", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
            ],
        ),
        migrations.RunSQL(sql=_RULES, reverse_sql=_DROP),
    ]
