"""Awards name who earns what in each slot as bytes. Those of older versions keep their lists.

No row is read or rewritten on the way here, and each statement holds its lock for a moment. A process of the version
before goes on with the awards that it knows; it can read no charges of a newer award, and what it had begun with one is
rolled back.
"""

from __future__ import annotations

import json
from typing import Any

from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps

from scheduling.core.stored_charges import charges_listed, unpacked

TERMS_KEPT = """
CREATE OR REPLACE FUNCTION scheduling_award_terms_kept() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (OLD.job_id, OLD.tenant_id, OLD.attempt, OLD.pool_id, OLD.lane, OLD.interval_id, OLD.start, OLD."end",
        OLD.paid, OLD.owners, OLD.amounts, OLD.charges, OLD.allocation, OLD.on_operator, OLD.work_left,
        OLD.paid_before, OLD.work)
        IS DISTINCT FROM
       (NEW.job_id, NEW.tenant_id, NEW.attempt, NEW.pool_id, NEW.lane, NEW.interval_id, NEW.start, NEW."end",
        NEW.paid, NEW.owners, NEW.amounts, NEW.charges, NEW.allocation, NEW.on_operator, NEW.work_left,
        NEW.paid_before, NEW.work)
    THEN
        RAISE EXCEPTION 'the terms of award % are fixed', OLD.id USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
DROP TRIGGER award_terms_kept ON scheduling_award;
CREATE TRIGGER award_terms_kept BEFORE UPDATE OF job_id, tenant_id, attempt, pool_id, lane, interval_id, start, "end",
    paid, owners, amounts, charges, allocation, on_operator, work_left, paid_before, work ON scheduling_award
    FOR EACH ROW EXECUTE FUNCTION scheduling_award_terms_kept()
"""
TERMS_BEFORE = TERMS_KEPT
for _name in ("OLD.owners, OLD.amounts, ", "NEW.owners, NEW.amounts, ", "owners, amounts, "):
    TERMS_BEFORE = TERMS_BEFORE.replace(_name, "")

# The bytes are compressed already: the database would try again, which takes ten times as long as storing them.
AS_THEY_ARE = "ALTER TABLE scheduling_award ALTER COLUMN amounts SET STORAGE EXTERNAL"
AT_ONCE = 500


def list_again(apps: StateApps, editor: BaseDatabaseSchemaEditor) -> None:
    """On the way back, write lists into awards that have bytes."""
    with editor.connection.cursor() as cursor:
        cursor.execute("ALTER TABLE scheduling_award DISABLE TRIGGER award_terms_kept")
        rows: list[Any] = [(0,)]
        while rows:
            cursor.execute(
                "SELECT id, owners, amounts FROM scheduling_award WHERE amounts IS NOT NULL AND id > %s"
                " ORDER BY id LIMIT %s",
                [rows[-1][0], AT_ONCE],
            )
            rows = [(number, json.loads(owners), bytes(data)) for number, owners, data in cursor.fetchall()]
            cursor.executemany(
                "UPDATE scheduling_award SET charges = %s WHERE id = %s",
                [(json.dumps(_listed(owners, data)), number) for number, owners, data in rows],
            )
        cursor.execute("ALTER TABLE scheduling_award ENABLE TRIGGER award_terms_kept")


def _listed(owners: list[int], data: bytes) -> list[list[list[int]]]:
    return charges_listed(owners, unpacked(len(owners), data))


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0068_pays_from_checked")]

    operations = [
        migrations.SeparateDatabaseAndState(
            [
                migrations.RunSQL(
                    "ALTER TABLE scheduling_award ALTER COLUMN charges DROP NOT NULL",
                    "ALTER TABLE scheduling_award ALTER COLUMN charges SET NOT NULL",
                )
            ],
            [
                migrations.RemoveField(model_name="award", name="charges"),
                migrations.AddField(
                    model_name="award",
                    name="lists",
                    field=models.JSONField(blank=True, db_column="charges", null=True),
                ),
            ],
        ),
        migrations.AddField(model_name="award", name="owners", field=models.JSONField(blank=True, null=True)),
        migrations.AddField(model_name="award", name="amounts", field=models.BinaryField(blank=True, null=True)),
        migrations.RunSQL(AS_THEY_ARE, migrations.RunSQL.noop),
        migrations.RunPython(migrations.RunPython.noop, list_again),
        migrations.RunSQL(TERMS_KEPT, TERMS_BEFORE),
        # Only of rows that are made from now on: those that were there say nothing in these columns.
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AlterField(
                    model_name="award", name="owners", field=models.JSONField(blank=True, default=list, null=True)
                ),
                migrations.AlterField(
                    model_name="award", name="amounts", field=models.BinaryField(blank=True, default=b"", null=True)
                ),
            ]
        ),
    ]
