"""Events that can be followed by id alone, and none is skipped."""

from pathlib import Path

from django.db import migrations

_SQL = Path(__file__).parent / "sql"


def _stamp_before() -> str:
    """The function as it was first made, and without those that came with the new one."""
    text = (_SQL / "market.sql").read_text(encoding="utf-8")
    begin = text.index("CREATE FUNCTION scheduling_event_stamp()")
    end = text.index("END $$;", begin) + len("END $$;")
    first = text[begin:end].replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION")
    return f"{first}\nDROP FUNCTION scheduling_event_settled(); DROP FUNCTION scheduling_event_newest();"


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0007_draining")]

    operations = [
        migrations.RunSQL(sql=(_SQL / "feed.sql").read_text(encoding="utf-8"), reverse_sql=_stamp_before()),
        migrations.RemoveField("event", "xact"),
    ]
