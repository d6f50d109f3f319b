"""Saved views of the list of jobs, and the indexes that its pages read."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("scheduling", "0012_outages"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddIndex(
            "trainingjob", models.Index(fields=["tenant", "-submitted_at", "-id"], name="job_of_tenant_by_time")
        ),
        migrations.AddIndex(
            "trainingjob",
            models.Index(fields=["tenant", "state", "-submitted_at", "-id"], name="job_of_tenant_in_state"),
        ),
        migrations.AddIndex("trainingjob", models.Index(fields=["tenant", "name", "id"], name="job_of_tenant_by_name")),
        migrations.AddIndex(
            "startestimate",
            models.Index(
                condition=models.Q(("started__isnull", False)), fields=["tenant", "-id"], name="estimate_that_came_true"
            ),
        ),
        migrations.AddIndex(
            "event",
            models.Index(
                condition=models.Q(("tenant__isnull", False)),
                fields=["tenant", "subject", "-id"],
                name="event_about_subject",
            ),
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
    ]
