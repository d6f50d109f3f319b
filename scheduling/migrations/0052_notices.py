"""Notices of persons, what each person chose to be told of, and how far the feed was read: from now on."""

from __future__ import annotations

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

# What happened before an installation had notices makes none.
FROM_NOW_ON = """
INSERT INTO scheduling_noticecursor (id, cursor) SELECT 1, max(id) FROM scheduling_event HAVING max(id) IS NOT NULL
"""


class Migration(migrations.Migration):
    dependencies = [
        ("scheduling", "0051_bought_together"),
        ("tenants", "0004_history_names_seals"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
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
        migrations.RunSQL(FROM_NOW_ON, migrations.RunSQL.noop),
    ]
