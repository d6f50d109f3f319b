"""Archives of old intervals, and the one door by which an input and an answer leave the database: into an archive."""

from __future__ import annotations

import django.db.models.deletion
from django.db import migrations, models
from django.db.models import F, Q

from scheduling.models.guards import GUARDS

FUNCTION = """
CREATE FUNCTION scheduling_interval_archived() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    emptied scheduling_interval%ROWTYPE := OLD;
BEGIN
    emptied.view := '';
    emptied.plan := '';
    IF NEW IS DISTINCT FROM emptied OR NOT EXISTS (
        SELECT FROM scheduling_intervalarchive AS one
         WHERE one.pool_id = OLD.pool_id AND OLD.number BETWEEN one.first AND one.last)
    THEN
        RAISE EXCEPTION '% is append-only: % refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
"""
_KEPT = ("interval_archive_append_only", "interval_archive_never_emptied")
_DOOR = ("interval_append_only", "interval_only_archived")
_BACK = """
DROP TRIGGER interval_only_archived ON scheduling_interval;
DROP TRIGGER interval_append_only ON scheduling_interval;
CREATE TRIGGER interval_append_only BEFORE UPDATE OR DELETE ON scheduling_interval
    FOR EACH ROW EXECUTE FUNCTION scheduling_append_only();
DROP TRIGGER interval_archive_never_emptied ON scheduling_intervalarchive;
DROP TRIGGER interval_archive_append_only ON scheduling_intervalarchive;
DROP FUNCTION scheduling_interval_archived();
"""


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0055_notices_in_chat")]

    operations = [
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
                    models.CheckConstraint(condition=Q(last__gte=F("first")), name="interval_archive_has_some"),
                ],
            },
        ),
        migrations.RunSQL(
            [
                FUNCTION,
                "DROP TRIGGER interval_append_only ON scheduling_interval",
                GUARDS.sql(*_DOOR, *_KEPT),
            ],
            _BACK,
        ),
    ]
