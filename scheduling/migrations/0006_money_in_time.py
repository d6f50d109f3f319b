"""What an award gave back, and which of its units are the operator's: the latter is one of its terms."""

from pathlib import Path

from django.db import migrations, models
from django.db.models import F, Q

_SQL = Path(__file__).parent / "sql"


def _terms_kept(file: str) -> str:
    """The function of that name as a file has it, put in the place of the one that stands."""
    text = (_SQL / file).read_text(encoding="utf-8")
    begin = text.index("CREATE FUNCTION scheduling_award_terms_kept()")
    end = text.index("END $$;", begin) + len("END $$;")
    return text[begin:end].replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION")


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0005_sharing")]

    operations = [
        migrations.AddField("award", "on_operator", models.JSONField(blank=True, default=list)),
        migrations.AddField("award", "returned", models.BigIntegerField(default=0)),
        migrations.AddConstraint(
            "award",
            models.CheckConstraint(
                condition=Q(returned__gte=0, returned__lte=F("paid")), name="award_returns_what_was_paid"
            ),
        ),
        migrations.AddIndex(
            "event",
            models.Index(fields=["tenant", "-id"], condition=Q(kind="low_balance"), name="event_low_balance"),
        ),
        migrations.RunSQL(sql=_terms_kept("terms.sql"), reverse_sql=_terms_kept("market.sql")),
    ]
