"""Jobs that are saved and go on may have several awards in one attempt, each for some of their mini-batches.

Nothing locks awards for longer than a moment: the new rule is built beside the old one, and a check of rows that were
there before is a pass of its own.
"""

from __future__ import annotations

from django.contrib.postgres.operations import AddConstraintNotValid, ValidateConstraint
from django.db import migrations, models
from django.db.models import Q

TERMS_KEPT = """
CREATE OR REPLACE FUNCTION scheduling_award_terms_kept() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (OLD.job_id, OLD.tenant_id, OLD.attempt, OLD.pool_id, OLD.lane, OLD.interval_id, OLD.start, OLD."end",
        OLD.paid, OLD.charges, OLD.allocation, OLD.on_operator, OLD.work_left, OLD.paid_before, OLD.work)
        IS DISTINCT FROM
       (NEW.job_id, NEW.tenant_id, NEW.attempt, NEW.pool_id, NEW.lane, NEW.interval_id, NEW.start, NEW."end",
        NEW.paid, NEW.charges, NEW.allocation, NEW.on_operator, NEW.work_left, NEW.paid_before, NEW.work)
    THEN
        RAISE EXCEPTION 'the terms of award % are fixed', OLD.id USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
DROP TRIGGER award_terms_kept ON scheduling_award;
CREATE TRIGGER award_terms_kept BEFORE UPDATE OF job_id, tenant_id, attempt, pool_id, lane, interval_id, start, "end",
    paid, charges, allocation, on_operator, work_left, paid_before, work ON scheduling_award
    FOR EACH ROW EXECUTE FUNCTION scheduling_award_terms_kept()
"""

# Without the column, which takes the trigger away with it when it goes.
TERMS_BEFORE = TERMS_KEPT.replace(", OLD.work)", ")").replace(", NEW.work)", ")").replace(", work ON", " ON")

ONCE = models.UniqueConstraint(
    fields=["job", "attempt"], condition=Q(work_left=None, work=None), name="award_once_per_attempt"
)
ONCE_SQL = """
CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS award_once_per_attempt_new ON scheduling_award (job_id, attempt)
 WHERE work_left IS NULL AND work IS NULL
"""
ONCE_BEFORE = """
CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS award_once_per_attempt ON scheduling_award (job_id, attempt)
 WHERE work_left IS NULL
"""


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("scheduling", "0052_notices")]

    operations = [
        migrations.AddField(
            model_name="award",
            name="work",
            field=models.BigIntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="trainingjob",
            name="worth",
            field=models.FloatField(blank=True, null=True),
        ),
        migrations.RunSQL(TERMS_KEPT, TERMS_BEFORE),
        migrations.SeparateDatabaseAndState(
            [
                migrations.RunSQL(ONCE_SQL, ONCE_BEFORE),
                migrations.RunSQL("DROP INDEX IF EXISTS award_once_per_attempt", migrations.RunSQL.noop),
                migrations.RunSQL(
                    "ALTER INDEX award_once_per_attempt_new RENAME TO award_once_per_attempt",
                    "DROP INDEX IF EXISTS award_once_per_attempt",
                ),
            ],
            [
                migrations.RemoveConstraint(model_name="award", name="award_once_per_attempt"),
                migrations.AddConstraint(model_name="award", constraint=ONCE),
            ],
        ),
        AddConstraintNotValid(
            model_name="award",
            constraint=models.CheckConstraint(
                condition=Q(work=None) | Q(work__gte=1, work_left=None), name="award_in_pieces_does_work"
            ),
        ),
        ValidateConstraint(model_name="award", name="award_in_pieces_does_work"),
    ]
