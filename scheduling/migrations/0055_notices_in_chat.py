"""Notices in a chat tool; and what was told of a tenant's budgets is found by its time, before it is told again."""

from __future__ import annotations

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("scheduling", "0054_job_reports"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        # It reads every event, so 0057_read_while_others_work builds it without keeping others waiting.
        migrations.SeparateDatabaseAndState(
            [migrations.RunSQL(migrations.RunSQL.noop, "DROP INDEX IF EXISTS event_budget")],
            [
                migrations.AddIndex(
                    model_name="event",
                    index=models.Index(
                        condition=models.Q(("kind__in", ["budget_passed", "budget_reached"])),
                        fields=["tenant", "at"],
                        name="event_budget",
                    ),
                )
            ],
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
                        choices=[
                            ("text", "Slack, Mattermost, Rocket.Chat, Google Chat"),
                            ("card", "Microsoft Teams"),
                        ],
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
        migrations.AddField(
            model_name="noticechoice", name="chat", field=models.BooleanField(db_default=False, default=False)
        ),
        migrations.AddField(model_name="notice", name="chat_due_at", field=models.DateTimeField(blank=True, null=True)),
        migrations.AddField(
            model_name="notice",
            name="chat_tries",
            field=models.PositiveSmallIntegerField(db_default=0, default=0),
        ),
        migrations.SeparateDatabaseAndState(  # as the first one
            [migrations.RunSQL(migrations.RunSQL.noop, "DROP INDEX IF EXISTS notice_to_chat")],
            [
                migrations.AddIndex(
                    model_name="notice",
                    index=models.Index(
                        condition=models.Q(("chat_due_at__isnull", False)),
                        fields=["person", "chat_due_at"],
                        name="notice_to_chat",
                    ),
                )
            ],
        ),
    ]
