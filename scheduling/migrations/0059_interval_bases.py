"""Intervals that are told by an earlier one, and an archive that takes none of them its base."""

from __future__ import annotations

import django.db.models.deletion
from django.db import migrations, models

FUNCTION = """
CREATE OR REPLACE FUNCTION scheduling_interval_archived() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    emptied scheduling_interval%ROWTYPE := OLD;
BEGIN
    emptied.view := '';
    emptied.plan := '';
    IF NEW IS DISTINCT FROM emptied OR NOT EXISTS (
        SELECT FROM scheduling_intervalarchive AS one
         WHERE one.pool_id = OLD.pool_id AND OLD.number BETWEEN one.first AND one.last{and_no_later_one})
    THEN
        RAISE EXCEPTION '% is append-only: % refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
"""
# None of the next sixteen that stays is told by it (REACH in `market.decide.chain`).
AND_NO_LATER_ONE = """
           AND NOT EXISTS (
               SELECT FROM scheduling_interval AS later
                WHERE later.pool_id = OLD.pool_id AND later.number BETWEEN one.last + 1 AND OLD.number + 16
                  AND later.base_id = OLD.id)"""
NOT_BACK = """
DO $$ BEGIN
    IF EXISTS (SELECT FROM scheduling_interval WHERE base_id IS NOT NULL) THEN
        RAISE EXCEPTION 'there are intervals that are told by others: the version before cannot read them';
    END IF;
END $$;
"""


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0001_initial")]

    operations = [
        migrations.AddField(
            model_name="interval",
            name="base",
            field=models.ForeignKey(
                blank=True,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="scheduling.interval",
            ),
        ),
        migrations.RunSQL(
            FUNCTION.replace("{and_no_later_one}", AND_NO_LATER_ONE),
            [NOT_BACK, FUNCTION.replace("{and_no_later_one}", "")],
        ),
    ]
