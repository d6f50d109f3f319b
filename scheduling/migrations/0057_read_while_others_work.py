"""What migrations of before leave open because it reads all rows of a large table: here nobody waits for it.

Indexes are built beside those who write, and constraints that hold for new rows are looked at for old ones. Each
statement is committed by itself; whoever repeats the migration after a kill goes on. Where all of it was done by an
earlier form of these migrations, nothing happens.
"""

from __future__ import annotations

from django.contrib.postgres.operations import ValidateConstraint
from django.db import migrations

# A build that was interrupted leaves an index that nobody uses.
UNFINISHED = """
DO $$ BEGIN
    IF EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('{name}') AND NOT indisvalid) THEN
        DROP INDEX {name};
    END IF;
END $$
"""
OPEN_RENT = """
CREATE INDEX CONCURRENTLY IF NOT EXISTS award_open_rent ON scheduling_award (pool_id) WHERE rent = 'open'
"""
EVENT_BUDGET = """
CREATE INDEX CONCURRENTLY IF NOT EXISTS event_budget ON scheduling_event (tenant_id, at)
 WHERE kind IN ('budget_passed', 'budget_reached')
"""
NOTICE_TO_CHAT = """
CREATE INDEX CONCURRENTLY IF NOT EXISTS notice_to_chat ON scheduling_notice (person_id, chat_due_at)
 WHERE chat_due_at IS NOT NULL
"""
FLOOR_ONCE = """
CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS floor_once_per_interval
    ON scheduling_jobfloor (job_id, attempt, interval_id)
"""
FLOOR_CONSTRAINT = """
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_constraint WHERE conname = 'floor_once_per_interval') THEN
        ALTER TABLE scheduling_jobfloor
            ADD CONSTRAINT floor_once_per_interval UNIQUE USING INDEX floor_once_per_interval;
    END IF;
END $$
"""
NOTHING = migrations.RunSQL.noop


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("scheduling", "0056_interval_archives")]

    operations = [
        migrations.RunSQL(UNFINISHED.format(name="award_open_rent"), NOTHING),
        migrations.RunSQL(OPEN_RENT, NOTHING),
        migrations.RunSQL(UNFINISHED.format(name="event_budget"), NOTHING),
        migrations.RunSQL(EVENT_BUDGET, NOTHING),
        migrations.RunSQL(UNFINISHED.format(name="notice_to_chat"), NOTHING),
        migrations.RunSQL(NOTICE_TO_CHAT, NOTHING),
        migrations.RunSQL(UNFINISHED.format(name="floor_once_per_interval"), NOTHING),
        migrations.RunSQL(FLOOR_ONCE, NOTHING),
        migrations.RunSQL(FLOOR_CONSTRAINT, NOTHING),
        ValidateConstraint("award", "award_rent_known"),
        ValidateConstraint("award", "award_adjusted_once_closed"),
        ValidateConstraint("award", "award_dividend_in_paid"),
    ]
