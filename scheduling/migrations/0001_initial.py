"""The tables and their rules, up to what was 0028 before the steps to it were removed; the next one is 0029."""

from pathlib import Path

import django.contrib.postgres.fields
import django.contrib.postgres.fields.ranges
import django.contrib.postgres.indexes
import django.core.validators
import django.db.models.deletion
import django.db.models.expressions
from django.conf import settings
from django.db import migrations, models

_SQL = Path(__file__).parent / "sql"


def _file(name: str) -> str:
    return (_SQL / name).read_text(encoding="utf-8")


def _append_only(name: str, table: str) -> str:
    return (
        f"CREATE TRIGGER {name}_append_only BEFORE UPDATE OR DELETE ON {table}"
        " FOR EACH ROW EXECUTE FUNCTION scheduling_append_only();"
    )


def _never_emptied(name: str, table: str) -> str:
    return (
        f"CREATE TRIGGER {name}_never_emptied BEFORE TRUNCATE ON {table}"
        " FOR EACH STATEMENT EXECUTE FUNCTION scheduling_append_only();"
    )


_FAIRNESS = ("scheduling_intervalfairness", "scheduling_tenantfairness")
_RULES = [
    _file("cluster.sql"),
    _file("market.sql"),
    _file("feed.sql"),
    _append_only("outage", "scheduling_outage"),
    _file("awards_told.sql"),
    *(_append_only("fairness", table) + _never_emptied("fairness", table) for table in _FAIRNESS),
    _file("elastic.sql"),
]
# With the functions go their triggers; the constraints go with the tables.
_DROP = """
DROP FUNCTION scheduling_append_only, scheduling_event_stamp, scheduling_award_terms_kept, scheduling_award_told,
    scheduling_cells_within_capacity CASCADE;
DROP FUNCTION scheduling_event_settled, scheduling_event_newest;
ALTER TABLE scheduling_cell DROP CONSTRAINT cell_on_capacity;
ALTER TABLE scheduling_servercapacity
    DROP CONSTRAINT capacity_resource_in_pool, DROP CONSTRAINT capacity_server_in_pool;
"""


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("tenants", "0003_api"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Pool",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "slug",
                    models.CharField(
                        max_length=40,
                        unique=True,
                        validators=[
                            django.core.validators.RegexValidator(
                                "^[a-z0-9]+([-_][a-z0-9]+)*\\Z", "Small letters and digits, joined by single hyphens."
                            )
                        ],
                    ),
                ),
                ("name", models.CharField(max_length=120)),
                ("slot_seconds", models.PositiveIntegerField()),
                ("clock_first", models.PositiveIntegerField()),
                ("clock_cap", models.PositiveIntegerField()),
                ("clock_restart", models.BooleanField()),
                ("batch_policy", models.JSONField()),
                ("instant_policy", models.JSONField(blank=True, null=True)),
                ("epoch_at", models.DateTimeField()),
                ("cancellation_keep_percent", models.PositiveSmallIntegerField(default=0)),
                ("outage_grace_seconds", models.PositiveIntegerField(blank=True, default=60, null=True)),
                ("instant_cooling_slots", models.PositiveIntegerField(default=0)),
                ("instant_share_percent", models.PositiveSmallIntegerField(default=100)),
                ("posted_slots", models.PositiveSmallIntegerField(default=96)),
            ],
            options={
                "ordering": ["slug"],
                "constraints": [
                    models.CheckConstraint(condition=models.Q(("slot_seconds__gt", 0)), name="pool_slot_has_length"),
                    models.CheckConstraint(
                        condition=models.Q(("clock_cap__gte", models.F("clock_first")), ("clock_first__gt", 0)),
                        name="pool_clock_possible",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("cancellation_keep_percent__lte", 100)), name="pool_keeps_at_most_all"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("instant_share_percent__gte", 1), ("instant_share_percent__lte", 100)),
                        name="pool_share_is_a_part",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("posted_slots__lte", 1024)), name="pool_posts_what_it_sells"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="ResourceKind",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "name",
                    models.CharField(
                        max_length=40,
                        validators=[
                            django.core.validators.RegexValidator(
                                "^[a-z0-9]+([-_][a-z0-9]+)*\\Z", "Small letters and digits, joined by single hyphens."
                            )
                        ],
                    ),
                ),
                ("label", models.CharField(max_length=60)),
                (
                    "pool",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="resources", to="scheduling.pool"
                    ),
                ),
            ],
            options={
                "ordering": ["pool", "id"],
                "constraints": [
                    models.UniqueConstraint(fields=("pool", "name"), name="resource_name_once_per_pool"),
                    models.UniqueConstraint(fields=("id", "pool"), name="resource_with_pool"),
                ],
            },
        ),
        migrations.CreateModel(
            name="Server",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "name",
                    models.CharField(
                        max_length=60,
                        validators=[
                            django.core.validators.RegexValidator(
                                "^[a-z0-9]+([-_][a-z0-9]+)*\\Z", "Small letters and digits, joined by single hyphens."
                            )
                        ],
                    ),
                ),
                ("hosts_workers", models.BooleanField(default=True)),
                ("hosts_ps", models.BooleanField(default=True)),
                (
                    "state",
                    models.CharField(
                        choices=[("in_service", "In Service"), ("draining", "Draining"), ("lost", "Lost")],
                        default="in_service",
                        max_length=12,
                    ),
                ),
                (
                    "pool",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="servers", to="scheduling.pool"
                    ),
                ),
            ],
            options={
                "ordering": ["pool", "id"],
                "constraints": [
                    models.UniqueConstraint(fields=("pool", "name"), name="server_name_once_per_pool"),
                    models.UniqueConstraint(fields=("id", "pool"), name="server_with_pool"),
                    models.CheckConstraint(
                        condition=models.Q(("hosts_workers", True), ("hosts_ps", True), _connector="OR"),
                        name="server_hosts_something",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("state__in", ["in_service", "draining", "lost"])), name="server_state_known"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Cell",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("units", models.PositiveIntegerField()),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="tenants.tenant"
                    ),
                ),
                (
                    "resource",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="scheduling.resourcekind"
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
                "abstract": False,
                "base_manager_name": "objects",
                "constraints": [
                    models.UniqueConstraint(fields=("server", "resource", "tenant"), name="cell_once_per_owner"),
                    models.CheckConstraint(condition=models.Q(("units__gt", 0)), name="cell_has_units"),
                ],
            },
        ),
        migrations.CreateModel(
            name="ServerCapacity",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("units", models.PositiveIntegerField()),
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
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="scheduling.resourcekind"
                    ),
                ),
                (
                    "server",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="capacities",
                        to="scheduling.server",
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "server capacities",
                "ordering": ["server", "resource"],
                "constraints": [
                    models.UniqueConstraint(fields=("server", "resource"), name="capacity_once_per_resource")
                ],
            },
        ),
        migrations.CreateModel(
            name="Budget",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "period",
                    models.CharField(choices=[("day", "Day"), ("week", "Week"), ("month", "Month")], max_length=8),
                ),
                ("soft_limit", models.BigIntegerField(blank=True, null=True)),
                ("hard_limit", models.BigIntegerField(blank=True, null=True)),
                (
                    "member",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
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
                    models.UniqueConstraint(
                        fields=("tenant", "member", "period"), name="budget_once_per_period", nulls_distinct=False
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("period__in", ["day", "week", "month"])), name="budget_period_known"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("soft_limit__isnull", True), ("soft_limit__gte", 0), _connector="OR"),
                            models.Q(("hard_limit__isnull", True), ("hard_limit__gte", 0), _connector="OR"),
                        ),
                        name="budget_not_negative",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="CalendarCell",
            fields=[
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
                ("part", models.CharField(choices=[("home", "Home"), ("operator", "Operator")], max_length=8)),
                ("slot", models.BigIntegerField()),
                ("capacity", models.FloatField()),
                ("batch", models.FloatField(default=0.0)),
                ("instant", models.FloatField(default=0.0)),
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "server_id",
                        "resource_id",
                        "part",
                        "slot",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["pool", "slot"], name="calendar_of_slot")],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("batch__gte", -1e-09), ("instant__gte", -1e-09)),
                        name="calendar_nothing_below_zero",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "capacity__gte",
                                django.db.models.expressions.CombinedExpression(
                                    django.db.models.expressions.CombinedExpression(
                                        models.F("batch"), "+", models.F("instant")
                                    ),
                                    "-",
                                    models.Value(1e-09),
                                ),
                            )
                        ),
                        name="calendar_within_capacity",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("part__in", ["home", "operator"])), name="calendar_part_known"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Event",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("kind", models.CharField(max_length=40)),
                ("subject", models.CharField(blank=True, max_length=80)),
                ("at", models.DateTimeField()),
                ("data", models.JSONField(default=dict)),
                (
                    "pool",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="scheduling.pool",
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.tenant",
                    ),
                ),
            ],
            options={
                "ordering": ["id"],
                "indexes": [
                    models.Index(fields=["tenant", "id"], name="event_of_tenant"),
                    models.Index(
                        condition=models.Q(("kind", "low_balance")), fields=["tenant", "-id"], name="event_low_balance"
                    ),
                    models.Index(
                        condition=models.Q(("tenant__isnull", False)),
                        fields=["tenant", "subject", "-id"],
                        name="event_about_subject",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Interval",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.BigIntegerField()),
                ("slot", models.BigIntegerField()),
                ("window_start", models.BigIntegerField(blank=True, null=True)),
                ("window_end", models.BigIntegerField(blank=True, null=True)),
                ("decided_at", models.DateTimeField()),
                ("code_version", models.CharField(max_length=64)),
                ("policy", models.BinaryField()),
                ("view", models.BinaryField()),
                ("plan", models.BinaryField()),
                ("windows", models.BinaryField()),
                ("previous", models.CharField(max_length=64)),
                ("digest", models.CharField(max_length=64)),
                ("jobs_waiting", models.PositiveIntegerField(default=0)),
                ("jobs_awarded", models.PositiveIntegerField(default=0)),
                ("paid", models.BigIntegerField(default=0)),
                (
                    "pool",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="scheduling.pool"
                    ),
                ),
            ],
            options={
                "ordering": ["pool", "number"],
                "indexes": [models.Index(fields=["pool", "window_end"], name="interval_to_end")],
                "constraints": [
                    models.UniqueConstraint(fields=("pool", "number"), name="interval_number_once"),
                    models.UniqueConstraint(fields=("pool", "slot"), name="interval_once_per_boundary"),
                ],
            },
        ),
        migrations.CreateModel(
            name="LaneClock",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("lane", models.CharField(choices=[("batch", "Batch"), ("instant", "Instant")], max_length=8)),
                ("decided_slot", models.BigIntegerField(default=-1)),
                ("settled_slot", models.BigIntegerField(default=-1)),
                ("frontier", models.BigIntegerField(default=0)),
                ("memory", models.JSONField(blank=True, default=dict)),
                ("held", models.BooleanField(default=False)),
                ("head", models.CharField(blank=True, max_length=64)),
                (
                    "pool",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="clocks", to="scheduling.pool"
                    ),
                ),
                ("draining", models.BooleanField(default=False)),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("pool", "lane"), name="clock_once_per_lane")],
            },
        ),
        migrations.CreateModel(
            name="PriceTick",
            fields=[
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
                ("lane", models.CharField(choices=[("batch", "Batch"), ("instant", "Instant")], max_length=8)),
                ("slot", models.BigIntegerField()),
                ("price", models.FloatField(null=True)),
                ("offered", models.FloatField(default=0.0)),
                ("sold", models.FloatField(default=0.0)),
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "pool_id",
                        "lane",
                        "resource_id",
                        "slot",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["pool", "slot"], name="price_of_slot")],
            },
        ),
        migrations.CreateModel(
            name="TrainingJob",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=200)),
                ("lane", models.CharField(choices=[("batch", "Batch"), ("instant", "Instant")], max_length=8)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("queued", "Queued"),
                            ("awarded", "Awarded"),
                            ("running", "Running"),
                            ("finished", "Finished"),
                            ("rejected", "Rejected"),
                            ("expired", "Expired"),
                            ("cancelled", "Cancelled"),
                            ("failed", "Failed"),
                            ("stopped", "Stopped"),
                        ],
                        default="queued",
                        max_length=10,
                    ),
                ),
                ("reason_code", models.CharField(blank=True, max_length=40)),
                ("reason_numbers", models.JSONField(blank=True, default=dict)),
                ("spec", models.JSONField()),
                ("submitted_at", models.DateTimeField()),
                ("arrival", models.FloatField()),
                ("client_key", models.CharField(blank=True, max_length=200, null=True)),
                ("request_digest", models.CharField(max_length=64)),
                ("attempt", models.PositiveSmallIntegerField(default=0)),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                (
                    "pool",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="scheduling.pool"
                    ),
                ),
                (
                    "submitted_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
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
                ("not_before", models.BigIntegerField(default=0)),
            ],
            options={
                "ordering": ["id"],
                "abstract": False,
                "base_manager_name": "objects",
                "indexes": [
                    models.Index(
                        condition=models.Q(("state", "queued")),
                        fields=["pool", "lane", "arrival", "id"],
                        name="job_queue_in_order",
                    ),
                    models.Index(
                        condition=models.Q(("state__in", ("queued", "awarded", "running"))),
                        fields=["pool", "state"],
                        name="job_alive",
                    ),
                    models.Index(fields=["tenant", "-id"], name="job_newest_of_tenant"),
                    models.Index(fields=["tenant", "-submitted_at", "-id"], name="job_of_tenant_by_time"),
                    models.Index(fields=["tenant", "state", "-submitted_at", "-id"], name="job_of_tenant_in_state"),
                    models.Index(fields=["tenant", "name", "id"], name="job_of_tenant_by_name"),
                    models.Index(fields=["tenant", "state", "-id"], name="job_in_state_newest"),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("client_key__isnull", False)),
                        fields=("tenant", "client_key"),
                        name="job_client_key_once",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("lane__in", ["batch", "instant"])), name="job_lane_known"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "state__in",
                                [
                                    "queued",
                                    "awarded",
                                    "running",
                                    "finished",
                                    "rejected",
                                    "expired",
                                    "cancelled",
                                    "failed",
                                    "stopped",
                                ],
                            )
                        ),
                        name="job_state_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("state__in", ["queued", "rejected", "expired", "cancelled", "failed", "stopped"]),
                                _negated=True,
                            ),
                            models.Q(("reason_code", ""), _negated=True),
                            _connector="OR",
                        ),
                        name="job_not_running_has_reason",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Award",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("attempt", models.PositiveSmallIntegerField(default=0)),
                ("lane", models.CharField(choices=[("batch", "Batch"), ("instant", "Instant")], max_length=8)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("booked", "Booked"),
                            ("running", "Running"),
                            ("done", "Done"),
                            ("ended", "Ended"),
                            ("void", "Void"),
                        ],
                        default="booked",
                        max_length=8,
                    ),
                ),
                ("phase", models.CharField(blank=True, max_length=8)),
                ("placement", models.CharField(blank=True, max_length=12)),
                ("start", models.BigIntegerField()),
                ("end", models.BigIntegerField()),
                ("workers", models.PositiveIntegerField()),
                ("ps", models.PositiveIntegerField()),
                ("worker_type", models.PositiveSmallIntegerField(default=0)),
                ("ps_type", models.PositiveSmallIntegerField(default=0)),
                ("allocation", models.JSONField()),
                ("value", models.FloatField()),
                ("floor", models.FloatField(default=0.0)),
                ("cost", models.FloatField(default=0.0)),
                ("paid", models.BigIntegerField(default=0)),
                ("charges", models.JSONField(default=list)),
                ("cut_at", models.BigIntegerField(blank=True, null=True)),
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
                    "tenant",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.tenant",
                    ),
                ),
                (
                    "interval",
                    models.ForeignKey(
                        blank=True,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="scheduling.interval",
                    ),
                ),
                (
                    "job",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="scheduling.trainingjob",
                    ),
                ),
                ("on_operator", models.JSONField(blank=True, default=list)),
                ("returned", models.BigIntegerField(default=0)),
                ("awarded_at", models.DateTimeField()),
                ("work_left", models.FloatField(blank=True, null=True)),
                ("paid_before", models.BigIntegerField(db_default=0, default=0)),
            ],
            options={
                "abstract": False,
                "base_manager_name": "objects",
                "indexes": [
                    models.Index(
                        condition=models.Q(("state__in", ["booked", "running"])),
                        fields=["pool", "start", "end"],
                        name="award_alive",
                    ),
                    models.Index(fields=["interval"], name="award_of_interval"),
                    models.Index(
                        condition=models.Q(("paid__gt", 0)),
                        fields=["tenant", "awarded_at"],
                        name="award_paid_in_period",
                    ),
                    models.Index(fields=["pool", "end"], name="award_to_end"),
                    models.Index(fields=["tenant", "-id"], name="award_newest_of_tenant"),
                    django.contrib.postgres.indexes.GistIndex(
                        models.Func(
                            models.F("start"),
                            models.F("end"),
                            function="int8range",
                            output_field=django.contrib.postgres.fields.ranges.BigIntegerRangeField(),
                        ),
                        name="award_span",
                    ),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("end__gt", models.F("start")), ("paid__gte", 0)), name="award_possible"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("state__in", ["booked", "running", "done", "ended", "void"])),
                        name="award_state_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("returned__gte", 0), ("returned__lte", models.F("paid"))),
                        name="award_returns_what_was_paid",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("work_left", None)),
                        fields=("job", "attempt"),
                        name="award_once_per_attempt",
                    ),
                    models.UniqueConstraint(fields=("job", "attempt", "start"), name="award_once_per_slot"),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("paid_before", 0), ("work_left", None)),
                            models.Q(
                                (
                                    "end",
                                    django.db.models.expressions.CombinedExpression(
                                        models.F("start"), "+", models.Value(1)
                                    ),
                                ),
                                ("paid_before__gte", 0),
                                ("work_left__gte", 0),
                            ),
                            _connector="OR",
                        ),
                        name="award_of_one_slot",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="FreedUnits",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("slot", models.BigIntegerField()),
                ("amount", models.FloatField()),
                ("sold", models.FloatField(default=0.0)),
                (
                    "award",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="scheduling.award"
                    ),
                ),
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
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="tenants.tenant"
                    ),
                ),
                (
                    "part",
                    models.CharField(
                        choices=[("home", "Home"), ("operator", "Operator")], default="home", max_length=8
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "freed units",
                "abstract": False,
                "base_manager_name": "objects",
                "indexes": [models.Index(fields=["pool", "slot"], name="freed_in_slot")],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("amount__gt", 0),
                            ("sold__gte", 0),
                            (
                                "sold__lte",
                                django.db.models.expressions.CombinedExpression(
                                    models.F("amount"), "+", models.Value(1e-09)
                                ),
                            ),
                        ),
                        name="freed_sold_once",
                    ),
                    models.UniqueConstraint(fields=("award", "server", "resource", "part", "slot"), name="freed_once"),
                    models.CheckConstraint(
                        condition=models.Q(("part__in", ["home", "operator"])), name="freed_part_known"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="JobFloor",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("attempt", models.PositiveSmallIntegerField(default=0)),
                ("value", models.FloatField()),
                ("start", models.BigIntegerField()),
                ("end", models.BigIntegerField()),
                ("worker_type", models.PositiveSmallIntegerField(default=0)),
                ("ps_type", models.PositiveSmallIntegerField(default=0)),
                ("allocation", models.JSONField()),
                (
                    "interval",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="scheduling.interval"
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="tenants.tenant"
                    ),
                ),
                (
                    "job",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="scheduling.trainingjob"
                    ),
                ),
            ],
            options={
                "abstract": False,
                "base_manager_name": "objects",
                "indexes": [models.Index(fields=["end"], name="floor_to_end")],
                "constraints": [
                    models.UniqueConstraint(fields=("job", "attempt"), name="floor_once_per_attempt"),
                    models.CheckConstraint(
                        condition=models.Q(("end__gte", models.F("start")), ("value__gte", 0)), name="floor_possible"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="StartEstimate",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("made_at", models.DateTimeField()),
                ("earliest", models.BigIntegerField()),
                ("latest", models.BigIntegerField()),
                ("price_low", models.BigIntegerField()),
                ("price_high", models.BigIntegerField()),
                ("started", models.BigIntegerField(blank=True, null=True)),
                ("paid", models.BigIntegerField(blank=True, null=True)),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="tenants.tenant"
                    ),
                ),
                (
                    "job",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="scheduling.trainingjob"
                    ),
                ),
            ],
            options={
                "abstract": False,
                "base_manager_name": "objects",
                "indexes": [
                    models.Index(
                        condition=models.Q(("started__isnull", False)),
                        fields=["tenant", "-id"],
                        name="estimate_that_came_true",
                    )
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("latest__gte", models.F("earliest")), ("price_high__gte", models.F("price_low"))
                        ),
                        name="estimate_is_a_range",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="TenantPolicy",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "rent",
                    models.CharField(
                        choices=[("never", "Never"), ("budget", "Budget"), ("auto", "Auto")],
                        default="auto",
                        max_length=8,
                    ),
                ),
                ("budget", models.BigIntegerField(blank=True, null=True)),
                (
                    "budget_period",
                    models.CharField(
                        choices=[("day", "Day"), ("week", "Week"), ("month", "Month")], default="month", max_length=8
                    ),
                ),
                ("lend", models.CharField(choices=[("keep", "Keep"), ("lend", "Lend")], default="lend", max_length=8)),
                ("reserve_price", models.JSONField(blank=True, default=dict)),
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
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="tenants.tenant"
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "tenant policies",
                "abstract": False,
                "base_manager_name": "objects",
                "constraints": [
                    models.UniqueConstraint(fields=("pool", "tenant"), name="sharing_once_per_pool"),
                    models.CheckConstraint(
                        condition=models.Q(("lend__in", ["keep", "lend"]), ("rent__in", ["never", "budget", "auto"])),
                        name="sharing_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("budget__gte", 0),
                            models.Q(("budget__isnull", True), models.Q(("rent", "budget"), _negated=True)),
                            _connector="OR",
                        ),
                        name="sharing_budget_given",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("budget_period__in", ["day", "week", "month"])), name="sharing_period_known"
                    ),
                ],
            },
        ),
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
        migrations.CreateModel(
            name="SavedView",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=60)),
                ("query", models.CharField(blank=True, max_length=500)),
                (
                    "person",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL
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
                "ordering": ["name"],
                "abstract": False,
                "base_manager_name": "objects",
                "constraints": [
                    models.UniqueConstraint(fields=("tenant", "person", "name"), name="view_name_once_per_person")
                ],
            },
        ),
        migrations.CreateModel(
            name="Webhook",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("url", models.CharField(max_length=500)),
                (
                    "kinds",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=40), blank=True, default=list, size=None
                    ),
                ),
                ("salt", models.CharField(max_length=64)),
                ("active", models.BooleanField(default=True)),
                ("created_at", models.DateTimeField()),
                ("removed_at", models.DateTimeField(blank=True, null=True)),
                ("cursor", models.BigIntegerField()),
                ("quiet_until", models.DateTimeField(blank=True, null=True)),
                ("failures", models.PositiveIntegerField(default=0)),
                ("failing_since", models.DateTimeField(blank=True, null=True)),
                ("switched_off_at", models.DateTimeField(blank=True, null=True)),
                (
                    "created_by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
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
                "ordering": ["id"],
                "abstract": False,
                "base_manager_name": "objects",
                "indexes": [models.Index(condition=models.Q(("active", True)), fields=["id"], name="webhook_active")],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("active", False),
                            models.Q(("removed_at", None), ("switched_off_at", None)),
                            _connector="OR",
                        ),
                        name="webhook_active_is_there",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("failing_since", None), ("failures", 0)),
                            models.Q(("failing_since__isnull", False), ("failures__gt", 0)),
                            _connector="OR",
                        ),
                        name="webhook_failing_since_a_failure",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="WebhookDelivery",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "state",
                    models.CharField(
                        choices=[("waiting", "Waiting"), ("delivered", "Delivered"), ("given_up", "Given Up")],
                        default="waiting",
                        max_length=10,
                    ),
                ),
                ("tries", models.PositiveIntegerField(default=0)),
                ("failures", models.PositiveIntegerField(default=0)),
                ("next_at", models.DateTimeField()),
                ("created_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                (
                    "event",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="scheduling.event",
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="tenants.tenant"
                    ),
                ),
                (
                    "webhook",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="scheduling.webhook",
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "webhook deliveries",
                "ordering": ["id"],
                "abstract": False,
                "base_manager_name": "objects",
                "indexes": [
                    models.Index(fields=["webhook", "-id"], name="delivery_of_webhook"),
                    models.Index(
                        condition=models.Q(("state", "waiting")),
                        fields=["webhook", "next_at", "id"],
                        name="delivery_waiting",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("webhook", "event"), name="delivery_once_per_event"),
                    models.CheckConstraint(
                        condition=models.Q(("state__in", ["waiting", "delivered", "given_up"])),
                        name="delivery_state_known",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="WebhookTry",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.PositiveIntegerField()),
                ("started_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                ("status", models.PositiveSmallIntegerField(blank=True, null=True)),
                ("flaw", models.CharField(blank=True, max_length=200)),
                ("answer", models.CharField(blank=True, max_length=1000)),
                (
                    "delivery",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="scheduling.webhookdelivery",
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
                "verbose_name_plural": "webhook tries",
                "ordering": ["delivery", "number"],
                "abstract": False,
                "base_manager_name": "objects",
                "constraints": [models.UniqueConstraint(fields=("delivery", "number"), name="try_once_per_number")],
            },
        ),
        migrations.CreateModel(
            name="Run",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.PositiveSmallIntegerField(default=0)),
                ("engine", models.CharField(max_length=20)),
                ("key", models.CharField(max_length=32, unique=True)),
                ("program", models.CharField(max_length=40)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("starting", "Starting"),
                            ("running", "Running"),
                            ("finished", "Finished"),
                            ("stopped", "Stopped"),
                            ("paused", "Paused"),
                            ("failed", "Failed"),
                            ("lost", "Lost"),
                        ],
                        default="starting",
                        max_length=10,
                    ),
                ),
                ("pid", models.IntegerField(default=0)),
                ("began", models.BigIntegerField(default=0)),
                ("ends_at", models.DateTimeField()),
                ("due_at", models.DateTimeField()),
                ("started_at", models.DateTimeField(blank=True, null=True)),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                ("seen_at", models.DateTimeField()),
                ("exit_code", models.IntegerField(blank=True, null=True)),
                ("detail", models.CharField(blank=True, max_length=200)),
                ("restarts", models.PositiveSmallIntegerField(default=0)),
                ("progress", models.JSONField(blank=True, default=dict)),
                (
                    "award",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="scheduling.award"
                    ),
                ),
                (
                    "job",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="scheduling.trainingjob"
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="tenants.tenant"
                    ),
                ),
                ("members", models.JSONField(blank=True, default=list)),
            ],
            options={
                "ordering": ["id"],
                "abstract": False,
                "base_manager_name": "objects",
                "indexes": [
                    models.Index(
                        condition=models.Q(("state__in", ("starting", "running"))), fields=["engine"], name="run_open"
                    ),
                    models.Index(fields=["tenant", "program", "-id"], name="run_of_program"),
                    models.Index(fields=["job", "-id"], name="run_of_job"),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("award", "number"), name="run_number_once"),
                    models.UniqueConstraint(
                        condition=models.Q(("state__in", ("starting", "running"))),
                        fields=("award",),
                        name="run_open_once_per_award",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("state__in", ["starting", "running", "finished", "stopped", "paused", "failed", "lost"])
                        ),
                        name="run_state_known",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="IntervalFairness",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.BigIntegerField()),
                ("decided_at", models.DateTimeField()),
                ("with_floors", models.BooleanField()),
                ("revenue", models.FloatField(default=0.0)),
                ("ratio_variance", models.FloatField(blank=True, null=True)),
                ("jain_index", models.FloatField(blank=True, null=True)),
                ("reward_dispersion", models.FloatField(blank=True, null=True)),
                ("worst_off", models.BigIntegerField(blank=True, null=True)),
                ("certificates", models.PositiveIntegerField(default=0)),
                ("broken_count", models.PositiveIntegerField(default=0)),
                ("broken", models.JSONField(blank=True, default=list)),
                ("renters", models.PositiveIntegerField(default=0)),
                ("top_prices", models.JSONField(blank=True, default=dict)),
                ("unsold", models.JSONField(blank=True, default=dict)),
                ("waiting_for", models.JSONField(blank=True, default=dict)),
                (
                    "interval",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT, related_name="fairness", to="scheduling.interval"
                    ),
                ),
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
                "verbose_name_plural": "interval fairness",
                "ordering": ["pool", "number"],
                "indexes": [
                    models.Index(fields=["pool", "decided_at"], name="fairness_in_period"),
                    models.Index(
                        condition=models.Q(("broken_count__gt", 0)), fields=["pool", "-number"], name="fairness_broken"
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("pool", "number"), name="fairness_once_per_interval"),
                    models.CheckConstraint(
                        condition=models.Q(("broken_count__lte", models.F("certificates"))),
                        name="fairness_broken_counted",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="TenantFairness",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.BigIntegerField()),
                ("own_value", models.FloatField()),
                ("rented_value", models.FloatField()),
                ("paid", models.FloatField()),
                ("received", models.FloatField()),
                ("gain", models.FloatField()),
                ("alone", models.FloatField()),
                ("share", models.FloatField()),
                ("ratio", models.FloatField(blank=True, null=True)),
                ("earned", models.FloatField()),
                ("contributed", models.FloatField()),
                ("reward", models.FloatField(blank=True, null=True)),
                ("offered", models.JSONField(blank=True, default=dict)),
                ("sold", models.JSONField(blank=True, default=dict)),
                ("kept", models.JSONField(blank=True, default=dict)),
                ("forgone", models.FloatField()),
                ("rent_saved", models.FloatField()),
                ("waiting", models.PositiveIntegerField()),
                (
                    "fairness",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="scheduling.intervalfairness",
                    ),
                ),
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
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="tenants.tenant"
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "tenant fairness",
                "abstract": False,
                "base_manager_name": "objects",
                "indexes": [models.Index(fields=["tenant", "pool", "-number"], name="fairness_of_tenant")],
                "constraints": [
                    models.UniqueConstraint(fields=("fairness", "tenant"), name="fairness_once_per_tenant")
                ],
            },
        ),
        migrations.CreateModel(
            name="AuditRun",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("charge", "a charge"),
                            ("interval", "an interval"),
                            ("everything", "everything"),
                            ("bundle", "a bundle"),
                        ],
                        max_length=12,
                    ),
                ),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("queued", "Queued"),
                            ("running", "Running"),
                            ("done", "Done"),
                            ("failed", "Failed"),
                            ("cancelled", "Cancelled"),
                        ],
                        default="queued",
                        max_length=10,
                    ),
                ),
                ("number", models.BigIntegerField(blank=True, null=True)),
                ("period_start", models.DateTimeField(blank=True, null=True)),
                ("period_end", models.DateTimeField(blank=True, null=True)),
                ("asked_at", models.DateTimeField()),
                ("began_at", models.DateTimeField(blank=True, null=True)),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                ("is_clean", models.BooleanField(null=True)),
                ("sentence", models.TextField(blank=True)),
                ("result", models.JSONField(blank=True, default=dict)),
                ("size", models.BigIntegerField(default=0)),
                (
                    "asked_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "pool",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.PROTECT, related_name="+", to="scheduling.pool"
                    ),
                ),
            ],
            options={
                "ordering": ["-id"],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("ended_at", None), ("state__in", ["queued", "running"])),
                            models.Q(("ended_at__isnull", False), ("state__in", ["done", "failed", "cancelled"])),
                            _connector="OR",
                        ),
                        name="audit_run_ends_once",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="AuditPart",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("place", models.PositiveIntegerField()),
                ("content", models.BinaryField()),
                (
                    "run",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="parts",
                        to="scheduling.auditrun",
                    ),
                ),
            ],
            options={
                "ordering": ["run", "place"],
                "constraints": [models.UniqueConstraint(fields=("run", "place"), name="audit_part_once")],
            },
        ),
        migrations.CreateModel(
            name="FairnessAlert",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("measure", models.CharField(max_length=40)),
                ("threshold", models.FloatField()),
                ("value", models.FloatField(blank=True, null=True)),
                ("passed_at", models.DateTimeField(blank=True, null=True)),
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
                "ordering": ["pool", "measure"],
                "constraints": [models.UniqueConstraint(fields=("pool", "measure"), name="fairness_alert_once")],
            },
        ),
        migrations.CreateModel(
            name="PoolDay",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("day", models.DateField()),
                ("first_number", models.BigIntegerField()),
                ("last_number", models.BigIntegerField()),
                ("intervals", models.PositiveIntegerField(default=0)),
                ("revenue", models.FloatField(default=0.0)),
                ("certificates", models.PositiveIntegerField(default=0)),
                ("broken", models.PositiveIntegerField(default=0)),
                ("broken_intervals", models.PositiveIntegerField(default=0)),
                ("with_renters", models.PositiveIntegerField(default=0)),
                ("one_bidder", models.PositiveIntegerField(default=0)),
                ("price_jumps", models.PositiveIntegerField(default=0)),
                ("waiting", models.PositiveIntegerField(default=0)),
                ("idle_beside_waiting", models.PositiveIntegerField(default=0)),
                ("waiting_for", models.JSONField(blank=True, default=dict)),
                ("unsold", models.JSONField(blank=True, default=dict)),
                ("highest", models.JSONField(blank=True, default=dict)),
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
                "ordering": ["pool", "day"],
                "constraints": [models.UniqueConstraint(fields=("pool", "day"), name="pool_day_once")],
            },
        ),
        migrations.CreateModel(
            name="TenantDay",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("day", models.DateField()),
                ("own_value", models.FloatField(default=0.0)),
                ("rented_value", models.FloatField(default=0.0)),
                ("paid", models.FloatField(default=0.0)),
                ("received", models.FloatField(default=0.0)),
                ("gain", models.FloatField(default=0.0)),
                ("alone", models.FloatField(default=0.0)),
                ("even", models.FloatField(default=0.0)),
                ("earned", models.FloatField(default=0.0)),
                ("contributed", models.FloatField(default=0.0)),
                ("forgone", models.FloatField(default=0.0)),
                ("rent_saved", models.FloatField(default=0.0)),
                ("waiting", models.PositiveIntegerField(default=0)),
                ("broken", models.PositiveIntegerField(default=0)),
                ("offered", models.JSONField(blank=True, default=dict)),
                ("sold", models.JSONField(blank=True, default=dict)),
                ("kept", models.JSONField(blank=True, default=dict)),
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
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="tenants.tenant"
                    ),
                ),
            ],
            options={
                "abstract": False,
                "base_manager_name": "objects",
                "indexes": [models.Index(fields=["tenant", "pool", "day"], name="tenant_day_of_tenant")],
                "constraints": [models.UniqueConstraint(fields=("pool", "day", "tenant"), name="tenant_day_once")],
            },
        ),
        migrations.CreateModel(
            name="WhatIf",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("field", models.CharField(max_length=40)),
                ("said", models.JSONField(blank=True, null=True)),
                ("instead", models.JSONField(blank=True, null=True)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("waiting", "Waiting"),
                            ("running", "Running"),
                            ("done", "Done"),
                            ("failed", "Failed"),
                            ("cancelled", "Cancelled"),
                        ],
                        default="waiting",
                        max_length=10,
                    ),
                ),
                ("done", models.PositiveSmallIntegerField(default=0)),
                ("total", models.PositiveSmallIntegerField()),
                ("tries", models.PositiveSmallIntegerField(default=0)),
                ("code", models.CharField(blank=True, max_length=40)),
                ("sentence", models.TextField(blank=True)),
                ("result", models.JSONField(blank=True, null=True)),
                ("asked_at", models.DateTimeField()),
                ("began_at", models.DateTimeField(blank=True, null=True)),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                ("expires_at", models.DateTimeField()),
                (
                    "asked_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "interval",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="scheduling.interval"
                    ),
                ),
                (
                    "job",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="scheduling.trainingjob"
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
                "ordering": ["-id"],
                "abstract": False,
                "base_manager_name": "objects",
                "indexes": [
                    models.Index(
                        condition=models.Q(("state__in", ("waiting", "running"))), fields=["id"], name="what_if_open"
                    ),
                    models.Index(fields=["asked_by", "-id"], name="what_if_of_person"),
                    models.Index(fields=["expires_at"], name="what_if_to_expire"),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("state__in", ["waiting", "running", "done", "failed", "cancelled"])),
                        name="what_if_state_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("done__lte", models.F("total"))), name="what_if_within_total"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("state", "done"), _negated=True), ("result__isnull", False), _connector="OR"
                        ),
                        name="what_if_answered",
                    ),
                ],
            },
        ),
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
                "indexes": [models.Index(fields=["pool", "resource", "-from_slot", "-id"], name="use_price_newest")],
                "constraints": [
                    models.CheckConstraint(condition=models.Q(("amount__gte", 0)), name="use_price_not_negative")
                ],
            },
        ),
        migrations.CreateModel(
            name="VerificationRun",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("first", models.BigIntegerField(default=1)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("waiting", "Waiting"),
                            ("running", "Running"),
                            ("done", "Done"),
                            ("failed", "Failed"),
                            ("cancelled", "Cancelled"),
                        ],
                        default="waiting",
                        max_length=10,
                    ),
                ),
                (
                    "phase",
                    models.CharField(
                        choices=[
                            ("intervals", "Intervals"),
                            ("instant", "Instant"),
                            ("end", "End"),
                            ("days", "Days"),
                            ("book", "Book"),
                        ],
                        default="intervals",
                        max_length=10,
                    ),
                ),
                ("bounds", models.JSONField()),
                ("number", models.BigIntegerField(default=0)),
                ("digest", models.CharField(blank=True, max_length=64)),
                ("memory", models.JSONField(blank=True, null=True)),
                ("award_id", models.BigIntegerField(default=0)),
                ("day", models.DateField(blank=True, null=True)),
                ("done", models.BigIntegerField(default=0)),
                ("total", models.BigIntegerField()),
                ("tries", models.PositiveSmallIntegerField(default=0)),
                ("intervals", models.BigIntegerField(default=0)),
                ("awards", models.BigIntegerField(default=0)),
                ("differences", models.BigIntegerField(default=0)),
                ("findings", models.JSONField(blank=True, default=list)),
                ("seen_at", models.DateTimeField(blank=True, null=True)),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                (
                    "audit",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="verifications",
                        to="scheduling.auditrun",
                    ),
                ),
                (
                    "pool",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.PROTECT, related_name="+", to="scheduling.pool"
                    ),
                ),
            ],
            options={
                "ordering": ["-id"],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("state__in", ("waiting", "running"))),
                        fields=("pool",),
                        name="verification_one_open_per_pool",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("state__in", ["waiting", "running", "done", "failed", "cancelled"])),
                        name="verification_state_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("done__gte", 0), ("done__lte", models.F("total"))),
                        name="verification_within_total",
                    ),
                ],
            },
        ),
        migrations.RunSQL(sql=_RULES, reverse_sql=_DROP),
    ]
