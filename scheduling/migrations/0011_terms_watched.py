"""The terms of an award are watched where a statement names one of them.

Beginning and ending names none, and comparing long lists of charges 5,000 times took most of it.
"""

from django.db import migrations

_NAME = "award_terms_kept"
_TERMS = 'job_id, tenant_id, attempt, pool_id, lane, interval_id, start, "end", paid, charges, allocation, on_operator'


def _trigger(columns: str) -> str:
    return (
        f"DROP TRIGGER {_NAME} ON scheduling_award; "
        f"CREATE TRIGGER {_NAME} BEFORE UPDATE {columns} ON scheduling_award "
        "FOR EACH ROW EXECUTE FUNCTION scheduling_award_terms_kept();"
    )


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0010_windows_still_open")]

    operations = [migrations.RunSQL(sql=_trigger(f"OF {_TERMS}"), reverse_sql=_trigger(""))]
