"""Decisions, promises and events are append-only; the reasons stand in the SQL."""

from pathlib import Path

from django.db import migrations

_SQL = Path(__file__).parent / "sql" / "market.sql"

_DROP = """
DROP TRIGGER award_never_deleted ON scheduling_award;
DROP TRIGGER award_terms_kept ON scheduling_award;
DROP FUNCTION scheduling_award_terms_kept();
DROP TRIGGER event_stamped ON scheduling_event;
DROP FUNCTION scheduling_event_stamp();
DROP TRIGGER event_append_only ON scheduling_event;
DROP TRIGGER floor_never_emptied ON scheduling_jobfloor;
DROP TRIGGER floor_append_only ON scheduling_jobfloor;
DROP TRIGGER interval_never_emptied ON scheduling_interval;
DROP TRIGGER interval_append_only ON scheduling_interval;
DROP FUNCTION scheduling_append_only();
"""


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0003_market")]

    operations = [migrations.RunSQL(sql=_SQL.read_text(encoding="utf-8"), reverse_sql=_DROP)]
