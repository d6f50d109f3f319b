"""Secrets of webhooks and the keys of bundles are stored, encrypted, and do not follow from SECRET_KEY any more."""

from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0043_lab_studies")]

    operations = [
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
                        condition=Q(retired_at=None),
                        fields=("retired_at",),
                        name="signing_key_one_signs",
                        nulls_distinct=False,
                    )
                ],
            },
        ),
        # With a default of the database, so that processes of the version before can still make webhooks meanwhile.
        migrations.AddField("webhook", "secret", models.TextField(blank=True, db_default="", default="")),
        migrations.AlterField(
            "webhook", "salt", models.CharField(blank=True, db_default="", default="", max_length=64)
        ),
    ]
