"""Claims of an OpenID provider that make memberships, and the mark of those that they made."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tenants", "0004_history_names_seals")]

    operations = [
        migrations.AddField(
            "membership", "claim", models.CharField(blank=True, db_default="", default="", max_length=300)
        ),
        migrations.CreateModel(
            name="ClaimMapping",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("claim", models.CharField(max_length=120)),
                ("value", models.CharField(max_length=150)),
                (
                    "role",
                    models.CharField(
                        choices=[
                            ("viewer", "viewer"),
                            ("submitter", "submitter"),
                            ("billing", "billing"),
                            ("owner", "owner"),
                        ],
                        max_length=20,
                    ),
                ),
                ("created_at", models.DateTimeField()),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="tenants.tenant"
                    ),
                ),
            ],
            options={
                "ordering": ["pk"],
                "constraints": [
                    models.UniqueConstraint(fields=("claim", "value", "tenant"), name="claim_mapping_once"),
                    models.CheckConstraint(
                        condition=models.Q(("role__in", ("viewer", "submitter", "billing", "owner"))),
                        name="claim_mapping_role_known",
                    ),
                ],
            },
        ),
    ]
