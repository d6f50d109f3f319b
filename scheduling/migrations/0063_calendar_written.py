"""The index by which rows of the calendar are found that were written since, built beside those who write."""

from __future__ import annotations

from django.db import migrations, models

UNFINISHED = """
DO $$ BEGIN
    IF EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('calendar_written') AND NOT indisvalid) THEN
        DROP INDEX calendar_written;
    END IF;
END $$
"""
WRITTEN = "CREATE INDEX CONCURRENTLY IF NOT EXISTS calendar_written ON scheduling_calendarcell (pool_id, written_by)"


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("scheduling", "0062_written_since")]

    operations = [
        migrations.RunSQL(UNFINISHED, migrations.RunSQL.noop),
        migrations.SeparateDatabaseAndState(
            [migrations.RunSQL(WRITTEN, "DROP INDEX IF EXISTS calendar_written")],
            [migrations.AddIndex("calendarcell", models.Index(fields=["pool", "written_by"], name="calendar_written"))],
        ),
    ]
