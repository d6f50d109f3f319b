"""People who are no members may ask a tenant that takes requests."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

ROLES = [("viewer", "viewer"), ("submitter", "submitter"), ("billing", "billing"), ("owner", "owner")]
NAMES = tuple(name for name, _ in ROLES)


class Migration(migrations.Migration):
    dependencies = [("tenants", "0005_claim_mappings")]

    operations = [
        migrations.AddField("tenant", "may_be_asked", models.BooleanField(db_default=False, default=False)),
        migrations.CreateModel(
            name="JoinRequest",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("why", models.CharField(max_length=200)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("waiting", "Waiting"),
                            ("accepted", "Accepted"),
                            ("declined", "Declined"),
                            ("withdrawn", "Withdrawn"),
                        ],
                        max_length=10,
                    ),
                ),
                ("asked_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                ("role", models.CharField(blank=True, choices=ROLES, max_length=20)),
                ("answer", models.CharField(blank=True, max_length=300)),
                (
                    "ended_by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
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
                "abstract": False,
                "base_manager_name": "objects",
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("state", "waiting")),
                        fields=("tenant", "person"),
                        name="join_request_one_waiting_per_person",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("state__in", ["waiting", "accepted", "declined", "withdrawn"])),
                        name="join_request_state_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("ended_at", None), ("state", "waiting")),
                            models.Q(models.Q(("state", "waiting"), _negated=True), ("ended_at__isnull", False)),
                            _connector="OR",
                        ),
                        name="join_request_waits_until_it_ends",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("role__in", NAMES), ("state", "accepted")),
                            models.Q(models.Q(("state", "accepted"), _negated=True), ("role", "")),
                            _connector="OR",
                        ),
                        name="join_request_accepted_with_a_role",
                    ),
                ],
            },
        ),
    ]
