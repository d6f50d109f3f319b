"""The tables and their rules as version 1.0.0 had them, up to what was 0058; the next one is 0059."""

from decimal import Decimal
from pathlib import Path

import django.contrib.postgres.fields
import django.contrib.postgres.fields.ranges
import django.contrib.postgres.indexes
import django.core.validators
import django.db.models.deletion
import django.db.models.expressions
import django.db.models.functions.math
import django.db.models.lookups
from django.conf import settings
from django.db import migrations, models

_SQL = Path(__file__).parent / "sql"


def _file(name: str) -> str:
    return (_SQL / name).read_text(encoding="utf-8")


def _append_only(table: str, name: str) -> str:
    """Return the triggers that refuse to change or delete any row of a table, or to empty it."""
    refuse = "EXECUTE FUNCTION scheduling_append_only();"
    rows = f"CREATE TRIGGER {name}_append_only BEFORE UPDATE OR DELETE ON scheduling_{table} FOR EACH ROW {refuse}"
    return (
        f"{rows} CREATE TRIGGER {name}_never_emptied BEFORE TRUNCATE ON scheduling_{table} FOR EACH STATEMENT {refuse}"
    )


# Tables, and what their triggers are called after.
_APPEND_ONLY = {
    "answerframe": "frame",
    "event": "event",
    "feedseal": "feedseal",
    "instantanswer": "answer",
    "intervalarchive": "interval_archive",
    "intervalfairness": "fairness",
    "jobarray": "array",
    "jobdescription": "description",
    "jobfloor": "floor",
    "outage": "outage",
    "policyweights": "weights",
    "programarchive": "archive",
    "programarchivepiece": "archive_piece",
    "programversion": "version",
    "tenantfairness": "fairness",
    "useprice": "use_price",
    "weightspromotion": "promotion",
}
_RULES = [
    _file("cluster.sql"),
    _file("market.sql"),
    _file("feed.sql"),
    *(_append_only(table, name) for table, name in _APPEND_ONLY.items()),
]
# With the functions go their triggers; the constraints go with the tables.
_DROP = """
DROP FUNCTION scheduling_append_only, scheduling_event_stamp, scheduling_award_terms_kept, scheduling_award_told,
    scheduling_cells_within_capacity, scheduling_interval_archived CASCADE;
DROP FUNCTION scheduling_event_settled, scheduling_event_newest;
ALTER TABLE scheduling_cell DROP CONSTRAINT cell_on_capacity;
ALTER TABLE scheduling_servercapacity
    DROP CONSTRAINT capacity_resource_in_pool, DROP CONSTRAINT capacity_server_in_pool;
"""


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("tenants", "0004_history_names_seals"),
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
                (
                    "engine",
                    models.CharField(
                        default="local",
                        max_length=20,
                        validators=[
                            django.core.validators.RegexValidator(
                                "^[a-z0-9]+([-_][a-z0-9]+)*\\Z", "Small letters and digits, joined by single hyphens."
                            )
                        ],
                    ),
                ),
                ("servers_return", models.BooleanField(default=False)),
                (
                    "usual_plan",
                    models.CharField(
                        choices=[("keep", "Keep"), ("renew", "Renew")], db_default="keep", default="keep", max_length=5
                    ),
                ),
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
                    models.CheckConstraint(
                        condition=models.Q(("usual_plan__in", ["keep", "renew"])), name="pool_usual_plan_known"
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
                ("least", models.DecimalField(decimal_places=6, default=Decimal("1"), max_digits=15)),
                ("step", models.DecimalField(decimal_places=6, default=Decimal("1"), max_digits=15)),
            ],
            options={
                "ordering": ["pool", "id"],
                "constraints": [
                    models.UniqueConstraint(fields=("pool", "name"), name="resource_name_once_per_pool"),
                    models.UniqueConstraint(fields=("id", "pool"), name="resource_with_pool"),
                    models.CheckConstraint(
                        condition=models.Q(("least__gt", 0), ("step__gt", 0)), name="resource_has_steps"
                    ),
                    models.CheckConstraint(
                        condition=django.db.models.lookups.Exact(
                            django.db.models.functions.math.Mod("least", "step"), Decimal("0")
                        ),
                        name="resource_least_is_steps",
                    ),
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
                ("lost_from", models.BigIntegerField(blank=True, null=True)),
                ("lost_after", models.BigIntegerField(blank=True, null=True)),
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
                    models.Index(
                        condition=models.Q(("kind__in", ["budget_passed", "budget_reached"])),
                        fields=["tenant", "at"],
                        name="event_budget",
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
                ("heads", models.BinaryField(db_default=b"", default=b"")),
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
            name="JobArray",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=200)),
                ("indexes", models.JSONField()),
                ("submitted_at", models.DateTimeField()),
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
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="tenants.tenant"
                    ),
                ),
            ],
            options={
                "ordering": ["id"],
                "abstract": False,
                "base_manager_name": "objects",
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
                            ("rejected", "Refused"),
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
                ("after", models.JSONField(blank=True, default=list)),
                (
                    "array",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="scheduling.jobarray",
                    ),
                ),
                ("array_place", models.PositiveSmallIntegerField(default=0)),
                ("together", models.BooleanField(db_default=False, default=False)),
                ("worth", models.FloatField(blank=True, null=True)),
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
                    models.Index(
                        condition=models.Q(("not_before", 9007199254740992), ("state", "queued")),
                        fields=["pool", "id"],
                        name="job_held",
                    ),
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
                    models.UniqueConstraint(
                        condition=models.Q(("array__isnull", False)),
                        fields=("array", "array_place"),
                        name="job_of_array_once",
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
                ("adjusted", models.BigIntegerField(db_default=0, default=0)),
                (
                    "rent",
                    models.CharField(
                        blank=True,
                        choices=[("", "none"), ("open", "Open"), ("closed", "Closed")],
                        db_default="",
                        default="",
                        max_length=8,
                    ),
                ),
                ("dividend", models.BigIntegerField(db_default=0, default=0)),
                ("work", models.BigIntegerField(blank=True, null=True)),
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
                    models.Index(
                        condition=models.Q(("state", "void")), fields=["pool", "cut_at"], name="award_void_to_settle"
                    ),
                    models.Index(condition=models.Q(("rent", "open")), fields=["pool"], name="award_open_rent"),
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
                    models.CheckConstraint(
                        condition=models.Q(("rent__in", ["", "open", "closed"])), name="award_rent_known"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("adjusted", 0),
                            models.Q(("adjusted__gt", 0), ("adjusted__lte", models.F("returned")), ("rent", "closed")),
                            _connector="OR",
                        ),
                        name="award_adjusted_once_closed",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("dividend__gte", 0), ("dividend__lte", models.F("paid"))),
                        name="award_dividend_in_paid",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("work", None), ("work_left", None)),
                        fields=("job", "attempt"),
                        name="award_once_per_attempt",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("work", None), models.Q(("work__gte", 1), ("work_left", None)), _connector="OR"
                        ),
                        name="award_in_pieces_does_work",
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
                ("draft", models.BooleanField(db_default=False, default=False)),
            ],
            options={
                "abstract": False,
                "base_manager_name": "objects",
                "indexes": [models.Index(fields=["end"], name="floor_to_end")],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("end__gte", models.F("start")), ("value__gte", 0)), name="floor_possible"
                    ),
                    models.UniqueConstraint(fields=("job", "attempt", "interval"), name="floor_once_per_interval"),
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
                (
                    "plan",
                    models.CharField(
                        choices=[("keep", "Keep"), ("renew", "Renew")], db_default="keep", default="keep", max_length=5
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
                    models.CheckConstraint(
                        condition=models.Q(("plan__in", ["keep", "renew"])), name="sharing_plan_known"
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
                ("salt", models.CharField(blank=True, db_default="", default="", max_length=64)),
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
                ("secret", models.TextField(blank=True, db_default="", default="")),
                (
                    "form",
                    models.CharField(
                        choices=[("before", "Before"), ("standard", "Standard")],
                        db_default="before",
                        default="standard",
                        max_length=8,
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
                    models.CheckConstraint(
                        condition=models.Q(("form__in", ["before", "standard"])), name="webhook_form_known"
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
                ("reference", models.JSONField(blank=True, default=dict)),
                ("delivered", models.JSONField(blank=True, default=list)),
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
                            ("answers", "Answers"),
                            ("instant", "Instant"),
                            ("jobs", "Jobs"),
                            ("end", "End"),
                            ("days", "Days"),
                            ("book", "Book"),
                            ("feed", "Feed"),
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
                ("answer_number", models.BigIntegerField(default=0)),
                ("answer_digest", models.CharField(blank=True, max_length=64)),
                ("job_id", models.BigIntegerField(default=0)),
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
        migrations.CreateModel(
            name="PolicyWeights",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.SlugField(max_length=60, unique=True)),
                ("digest", models.CharField(max_length=64)),
                ("content", models.BinaryField()),
                ("added_at", models.DateTimeField()),
            ],
            options={
                "verbose_name_plural": "policy weights",
                "ordering": ["name"],
                "constraints": [
                    models.CheckConstraint(condition=models.Q(("name", ""), _negated=True), name="weights_named")
                ],
            },
        ),
        migrations.CreateModel(
            name="AnswerFrame",
            fields=[
                ("digest", models.CharField(max_length=64, primary_key=True, serialize=False)),
                ("content", models.BinaryField()),
            ],
        ),
        migrations.CreateModel(
            name="InstantAnswer",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.BigIntegerField()),
                ("at", models.DateTimeField()),
                ("code_version", models.CharField(max_length=64)),
                ("input", models.BinaryField()),
                ("plan", models.BinaryField()),
                ("resold", models.JSONField(blank=True, null=True)),
                ("interval_head", models.CharField(blank=True, max_length=64)),
                ("previous", models.CharField(max_length=64)),
                ("digest", models.CharField(max_length=64)),
                (
                    "award",
                    models.OneToOneField(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="scheduling.award",
                    ),
                ),
                (
                    "frame",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="scheduling.answerframe",
                    ),
                ),
                (
                    "job",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="scheduling.trainingjob"
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
                "ordering": ["pool", "number"],
                "indexes": [
                    models.Index(
                        condition=models.Q(("resold__isnull", False)),
                        fields=["pool", "number"],
                        name="answer_that_resold",
                    )
                ],
                "constraints": [models.UniqueConstraint(fields=("pool", "number"), name="answer_number_once")],
            },
        ),
        migrations.CreateModel(
            name="FeedSeal",
            fields=[
                ("number", models.BigIntegerField(primary_key=True, serialize=False)),
                ("last_event_id", models.BigIntegerField(unique=True)),
                ("sealed_at", models.DateTimeField()),
                ("members", models.BinaryField()),
                ("previous", models.CharField(max_length=64)),
                ("digest", models.CharField(max_length=64)),
            ],
            options={
                "ordering": ["number"],
            },
        ),
        migrations.CreateModel(
            name="ProgramSwitch",
            fields=[
                (
                    "tenant",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to="tenants.tenant",
                    ),
                ),
                ("may_bring", models.BooleanField(default=False)),
            ],
            options={
                "verbose_name_plural": "program switches",
            },
        ),
        migrations.CreateModel(
            name="CatalogueProgram",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
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
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.tenant",
                    ),
                ),
            ],
            options={
                "ordering": ["name"],
                "constraints": [
                    models.UniqueConstraint(fields=("tenant", "name"), name="program_name_once", nulls_distinct=False),
                    models.CheckConstraint(
                        condition=models.Q(("tenant__isnull", True), ("tenants__isnull", True), _connector="OR"),
                        name="program_of_tenant_for_itself",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="ProgramArchive",
            fields=[
                ("digest", models.CharField(max_length=64, primary_key=True, serialize=False)),
                ("size", models.BigIntegerField()),
                ("added_at", models.DateTimeField()),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("size__gt", 0), ("size__lte", 20971520)), name="archive_size"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="ProgramVersion",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
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
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="scheduling.programarchive",
                    ),
                ),
                (
                    "program",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="scheduling.catalogueprogram",
                    ),
                ),
                (
                    "registered_by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "ordering": ["program", "version"],
                "constraints": [
                    models.UniqueConstraint(fields=("program", "version"), name="program_version_once"),
                    models.CheckConstraint(condition=models.Q(("version__gte", 1)), name="program_version_from_one"),
                ],
            },
        ),
        migrations.CreateModel(
            name="JobDescription",
            fields=[
                (
                    "job",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to="scheduling.trainingjob",
                    ),
                ),
                ("how", models.CharField(choices=[("hours", "Hours"), ("script", "Script")], max_length=8)),
                ("said", models.JSONField()),
                ("lines", models.JSONField(default=list)),
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
                    models.CheckConstraint(
                        condition=models.Q(("how__in", ["hours", "script"])), name="description_known"
                    )
                ],
            },
        ),
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
                "constraints": [models.UniqueConstraint(fields=("archive", "number"), name="archive_piece_once")],
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
        migrations.CreateModel(
            name="EnginePulse",
            fields=[
                ("name", models.CharField(max_length=20, primary_key=True, serialize=False)),
                ("alive_at", models.DateTimeField()),
                ("servers", models.JSONField(default=dict)),
                ("alerts", models.JSONField(default=list)),
                ("figures", models.TextField(blank=True)),
            ],
            options={
                "ordering": ["name"],
            },
        ),
        migrations.CreateModel(
            name="LabStudy",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("title", models.CharField(max_length=200)),
                ("document", models.JSONField()),
                ("first_at", models.DateTimeField(blank=True, null=True)),
                ("last_at", models.DateTimeField(blank=True, null=True)),
                ("digest", models.CharField(blank=True, max_length=64)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("reading", "Reading"),
                            ("ready", "Ready"),
                            ("waiting", "Waiting"),
                            ("running", "Running"),
                            ("done", "Done"),
                            ("failed", "Failed"),
                            ("cancelled", "Cancelled"),
                        ],
                        default="reading",
                        max_length=10,
                    ),
                ),
                ("starts_at_once", models.BooleanField(default=False)),
                ("is_shown", models.BooleanField(default=False)),
                ("owners", models.JSONField(blank=True, default=list)),
                ("history", models.JSONField(blank=True, default=dict)),
                ("minutes", models.FloatField(blank=True, null=True)),
                ("done", models.PositiveIntegerField(default=0)),
                ("total", models.PositiveIntegerField(default=0)),
                ("part", models.FloatField(default=0.0)),
                ("tries", models.PositiveSmallIntegerField(default=0)),
                ("answer", models.JSONField(blank=True, default=dict)),
                ("sentence", models.TextField(blank=True)),
                ("asked_at", models.DateTimeField()),
                ("began_at", models.DateTimeField(blank=True, null=True)),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
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
                "indexes": [
                    models.Index(
                        condition=models.Q(("state__in", ("reading", "waiting", "running"))),
                        fields=["id"],
                        name="lab_study_at_work",
                    )
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("state__in", ["reading", "ready", "waiting", "running", "done", "failed", "cancelled"])
                        ),
                        name="lab_study_state_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("done__lte", models.F("total"))), name="lab_study_within_total"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("ended_at", None), ("state__in", ("reading", "waiting", "running", "ready"))),
                            models.Q(
                                models.Q(("state__in", ("reading", "waiting", "running", "ready")), _negated=True),
                                ("ended_at__isnull", False),
                            ),
                            _connector="OR",
                        ),
                        name="lab_study_ends_once",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="LabFile",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=120)),
                ("place", models.PositiveIntegerField()),
                ("content", models.BinaryField()),
                (
                    "study",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="files",
                        to="scheduling.labstudy",
                    ),
                ),
            ],
            options={
                "ordering": ["study", "name", "place"],
                "constraints": [models.UniqueConstraint(fields=("study", "name", "place"), name="lab_file_once")],
            },
        ),
        migrations.CreateModel(
            name="SigningKey",
            fields=[
                ("public_key", models.CharField(max_length=64, primary_key=True, serialize=False)),
                ("secret", models.TextField()),
                ("made_at", models.DateTimeField()),
                ("retired_at", models.DateTimeField(blank=True, null=True)),
            ],
            options={
                "ordering": ["made_at"],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("retired_at", None)),
                        fields=("retired_at",),
                        name="signing_key_one_signs",
                        nulls_distinct=False,
                    )
                ],
            },
        ),
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
        migrations.CreateModel(
            name="NoticeProfile",
            fields=[
                (
                    "person",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("all_jobs", models.BooleanField(default=False)),
            ],
        ),
        migrations.CreateModel(
            name="NoticeCursor",
            fields=[
                ("id", models.SmallIntegerField(default=1, primary_key=True, serialize=False)),
                ("cursor", models.BigIntegerField(default=0)),
                ("month", models.DateField(blank=True, null=True)),
            ],
            options={
                "constraints": [models.CheckConstraint(condition=models.Q(("id", 1)), name="notice_cursor_single")],
            },
        ),
        migrations.CreateModel(
            name="Notice",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("kind", models.CharField(max_length=20)),
                ("source", models.CharField(blank=True, max_length=80)),
                ("at", models.DateTimeField()),
                ("bell", models.BooleanField()),
                ("read_at", models.DateTimeField(blank=True, null=True)),
                ("mail_due_at", models.DateTimeField(blank=True, null=True)),
                ("mail_tries", models.PositiveSmallIntegerField(default=0)),
                (
                    "event",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="scheduling.event",
                    ),
                ),
                (
                    "person",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
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
                ("chat_due_at", models.DateTimeField(blank=True, null=True)),
                ("chat_tries", models.PositiveSmallIntegerField(db_default=0, default=0)),
            ],
            options={
                "ordering": ["-id"],
                "indexes": [
                    models.Index(condition=models.Q(("bell", True)), fields=["person", "-id"], name="notice_of_person"),
                    models.Index(
                        condition=models.Q(("bell", True), ("read_at", None)), fields=["person"], name="notice_unread"
                    ),
                    models.Index(
                        condition=models.Q(("mail_due_at__isnull", False)),
                        fields=["mail_due_at"],
                        name="notice_to_mail",
                    ),
                    models.Index(
                        condition=models.Q(("chat_due_at__isnull", False)),
                        fields=["person", "chat_due_at"],
                        name="notice_to_chat",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("person", "event"), name="notice_once_per_event"),
                    models.UniqueConstraint(
                        condition=models.Q(("source", ""), _negated=True),
                        fields=("person", "source"),
                        name="notice_once_per_source",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("event", None), models.Q(("source", ""), _negated=True)),
                            models.Q(("event__isnull", False), ("source", "")),
                            _connector="OR",
                        ),
                        name="notice_has_one_origin",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="NoticeChoice",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("kind", models.CharField(max_length=20)),
                ("bell", models.BooleanField()),
                ("toast", models.BooleanField()),
                (
                    "mail",
                    models.CharField(
                        blank=True, choices=[("", "No"), ("now", "At once"), ("digest", "Once a day")], max_length=6
                    ),
                ),
                (
                    "person",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("chat", models.BooleanField(db_default=False, default=False)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("person", "kind"), name="notice_choice_once_per_kind"),
                    models.CheckConstraint(
                        condition=models.Q(("mail__in", ["", "now", "digest"])), name="notice_choice_mail_known"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="JobReport",
            fields=[
                (
                    "job",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to="scheduling.trainingjob",
                    ),
                ),
                ("heard_at", models.DateTimeField()),
                ("losses", models.JSONField(blank=True, default=list)),
                ("speeds", models.JSONField(blank=True, default=list)),
                ("speed", models.JSONField(blank=True, default=list)),
                ("source", models.CharField(blank=True, max_length=10)),
                ("epochs_left", models.FloatField(blank=True, null=True)),
                ("epochs_low", models.FloatField(blank=True, null=True)),
                ("epochs_high", models.FloatField(blank=True, null=True)),
                ("curve", models.JSONField(blank=True, default=list)),
                ("first_after", models.PositiveIntegerField(blank=True, null=True)),
                ("first_low", models.FloatField(blank=True, null=True)),
                ("first_high", models.FloatField(blank=True, null=True)),
                ("ended_after", models.PositiveIntegerField(blank=True, null=True)),
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
                "indexes": [
                    models.Index(
                        condition=models.Q(("ended_after__isnull", False), ("first_after__isnull", False)),
                        fields=["tenant", "-job"],
                        name="report_that_was_foretold",
                    )
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("epochs_left__isnull", True),
                            models.Q(
                                ("epochs_left__lte", models.F("epochs_high")),
                                ("epochs_low__lte", models.F("epochs_left")),
                            ),
                            _connector="OR",
                        ),
                        name="report_outlook_in_its_range",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="ChatAddress",
            fields=[
                (
                    "person",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("secret", models.TextField()),
                ("shown", models.CharField(max_length=120)),
                (
                    "form",
                    models.CharField(
                        choices=[("text", "Slack, Mattermost, Rocket.Chat, Google Chat"), ("card", "Microsoft Teams")],
                        max_length=4,
                    ),
                ),
                ("created_at", models.DateTimeField()),
                ("active", models.BooleanField(default=True)),
                ("said_at", models.DateTimeField(blank=True, null=True)),
                ("flaw", models.CharField(blank=True, max_length=200)),
                ("quiet_until", models.DateTimeField(blank=True, null=True)),
                ("failures", models.PositiveIntegerField(default=0)),
                ("failing_since", models.DateTimeField(blank=True, null=True)),
                ("switched_off_at", models.DateTimeField(blank=True, null=True)),
            ],
            options={
                "verbose_name_plural": "chat addresses",
                "constraints": [
                    models.CheckConstraint(condition=models.Q(("form__in", ["text", "card"])), name="chat_form_known"),
                    models.CheckConstraint(condition=models.Q(("secret", ""), _negated=True), name="chat_has_address"),
                    models.CheckConstraint(
                        condition=models.Q(("active", False), ("switched_off_at", None), _connector="OR"),
                        name="chat_active_is_not_switched_off",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("failing_since", None), ("failures", 0)),
                            models.Q(("failing_since__isnull", False), ("failures__gt", 0)),
                            _connector="OR",
                        ),
                        name="chat_failing_since_a_failure",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="IntervalArchive",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("day", models.DateField()),
                ("first", models.BigIntegerField()),
                ("last", models.BigIntegerField()),
                ("file", models.CharField(max_length=120)),
                ("digest", models.CharField(max_length=64)),
                ("size", models.BigIntegerField()),
                ("public_key", models.CharField(max_length=64)),
                ("archived_at", models.DateTimeField()),
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
                "ordering": ["pool", "first"],
                "constraints": [
                    models.UniqueConstraint(fields=("pool", "day"), name="interval_archive_once"),
                    models.CheckConstraint(
                        condition=models.Q(("last__gte", models.F("first"))), name="interval_archive_has_some"
                    ),
                ],
            },
        ),
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
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("state__in", ["shadow", "offered", "not_better", "taken", "passed"])),
                        name="candidate_state_known",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("state__in", ["shadow", "offered"])),
                        fields=("pool",),
                        name="candidate_one_open",
                    ),
                ],
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
                "constraints": [models.UniqueConstraint(fields=("candidate", "slot"), name="shadow_slot_once")],
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
            options={
                "indexes": [models.Index(fields=["pool", "-from_slot", "-id"], name="promotion_newest")],
            },
        ),
        migrations.RunSQL(sql=_RULES, reverse_sql=_DROP),
    ]
