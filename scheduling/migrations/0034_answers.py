"""Every answer of the instant lane has a record in a chain; events are sealed; an interval names where both ended."""

import django.db.models.deletion
from django.db import migrations, models

from scheduling.models.guards import GUARDS

_KEPT = [f"{name}_{what}" for name in ("frame", "answer", "feedseal") for what in ("append_only", "never_emptied")]
_BACK = "".join(f"DROP TRIGGER {name} ON {table};" for table, name in GUARDS.by_place if name in _KEPT)
_PHASES = ["intervals", "answers", "instant", "jobs", "end", "days", "book", "feed"]


def _one(to: str, *, null: bool = False) -> models.OneToOneField:
    kept = django.db.models.deletion.PROTECT
    return models.OneToOneField(blank=null, null=null, on_delete=kept, related_name="+", to=to)


def _of(to: str) -> models.ForeignKey:
    kept = django.db.models.deletion.PROTECT
    return models.ForeignKey(db_index=False, on_delete=kept, related_name="+", to=to)


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0033_server_lost_from")]

    operations = [
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
                ("award", _one("scheduling.award", null=True)),
                ("frame", _of("scheduling.answerframe")),
                ("job", _one("scheduling.trainingjob")),
                ("pool", _of("scheduling.pool")),
            ],
            options={
                "ordering": ["pool", "number"],
                "indexes": [
                    models.Index(
                        fields=["pool", "number"],
                        condition=models.Q(resold__isnull=False),
                        name="answer_that_resold",
                    ),
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
            options={"ordering": ["number"]},
        ),
        migrations.RunSQL(GUARDS.sql(*_KEPT), _BACK),
        migrations.AddField("interval", "heads", models.BinaryField(db_default=b"", default=b"")),
        migrations.AddField("verificationrun", "answer_number", models.BigIntegerField(default=0)),
        migrations.AddField("verificationrun", "answer_digest", models.CharField(blank=True, max_length=64)),
        migrations.AddField("verificationrun", "job_id", models.BigIntegerField(default=0)),
        migrations.AlterField(
            "verificationrun",
            "phase",
            models.CharField(choices=[(phase, phase.title()) for phase in _PHASES], default="intervals", max_length=10),
        ),
    ]
