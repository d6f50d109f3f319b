"""What a submission asks the database, in functions."""

from __future__ import annotations

from pathlib import Path

from django.db import migrations

FUNCTIONS = Path(__file__).with_name("sql").joinpath("submissions.sql").read_text(encoding="utf-8")
BACK = "DROP FUNCTION scheduling_pool_text, scheduling_intake, scheduling_client_key"


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0063_calendar_written")]

    operations = [migrations.RunSQL(FUNCTIONS, BACK)]
