"""The rules of the book as triggers and the one function that writes it; see the comments in the SQL."""

from pathlib import Path

from django.db import migrations

_SQL = Path(__file__).parent / "sql"

_DROP = """
DROP FUNCTION ledger_post, ledger_open_accounts;
DROP FUNCTION ledger_refuse_change, ledger_transaction_check, ledger_transaction_enter, ledger_entry_apply,
    ledger_account_open_balance CASCADE;
DROP FUNCTION ledger_digest, ledger_line, ledger_seal_digest;
"""


class Migration(migrations.Migration):
    dependencies = [("ledger", "0001_initial")]

    operations = [
        migrations.RunSQL(
            sql=[(_SQL / "rules.sql").read_text(), (_SQL / "post.sql").read_text()],
            reverse_sql=_DROP,
        ),
    ]
