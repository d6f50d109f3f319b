"""The database's rules for the book, as a list: `migrations/sql/` made them, and an audit checks that they
are there."""

from __future__ import annotations

from tenants.common.guards import Guards
from tenants.ledger.models import PLAIN


def _appends(table: str) -> str:
    return (
        f"CREATE TRIGGER {table}_appends BEFORE DELETE OR UPDATE OR TRUNCATE ON {table}"
        " FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_change()"
    )


def _follows(table: str) -> tuple[str, str]:
    """Return triggers that let only other triggers change the rows: nobody writes them by hand."""
    return (
        f"CREATE TRIGGER {table}_follows BEFORE INSERT OR DELETE OR UPDATE ON {table}"
        " FOR EACH STATEMENT WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION ledger_refuse_change()",
        f"CREATE TRIGGER {table}_stays BEFORE TRUNCATE ON {table}"
        " FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_change()",
    )


GUARDS = Guards(
    prefix="ledger_",
    triggers=(
        _appends("ledger_account"),
        _appends("ledger_transaction"),
        _appends("ledger_entry"),
        _appends("ledger_seal"),
        *_follows("ledger_balance"),
        *_follows("ledger_daytotal"),
        *_follows("ledger_sealhead"),
        "CREATE TRIGGER ledger_daysheet_fills BEFORE INSERT OR UPDATE ON ledger_daysheet"
        " FOR EACH ROW EXECUTE FUNCTION ledger_daysheet_fill()",
        "CREATE CONSTRAINT TRIGGER ledger_transaction_balances AFTER INSERT ON ledger_transaction"
        " DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION ledger_transaction_check()",
        "CREATE TRIGGER ledger_transaction_enters BEFORE INSERT ON ledger_transaction"
        " FOR EACH STATEMENT EXECUTE FUNCTION ledger_transaction_enter()",
        "CREATE TRIGGER ledger_entry_moves_balances AFTER INSERT ON ledger_entry REFERENCING NEW TABLE AS added"
        " FOR EACH STATEMENT EXECUTE FUNCTION ledger_entry_apply()",
        "CREATE TRIGGER ledger_account_opens AFTER INSERT ON ledger_account"
        " FOR EACH ROW EXECUTE FUNCTION ledger_account_open_balance()",
        "CREATE TRIGGER ledger_seal_moves_head AFTER INSERT ON ledger_seal"
        " FOR EACH ROW EXECUTE FUNCTION ledger_seal_move_head()",
    ),
    functions={
        "ledger_account_open_balance": "b9ef1e421f996a03c08c5868a674376751dfce8f31bb8b3125846ce2a34bd5ba",
        "ledger_daysheet_fill": "003cdf13d51b0162566b1b466b9f4618ed69bd55d28b75ddadbdce8cbdb03cc1",
        "ledger_digest": "e567de010b9cc1bdb6f4d9fa35483e4fe610421a504419736ff607a5011954d6",
        "ledger_entry_apply": "3696c845161dafeeb1da3adc61ce8b289f58700cf66b33af2d74728220fd17b1",
        "ledger_line": "79839e20549d876be20da498b939d1c246ed759d706c02d610d0a1758db32c1b",
        "ledger_open_accounts": "b25bbbf1bddca9527e34a93f4165a712a3611122fa472657a05839167e5f860b",
        "ledger_post": "1c9033403d3167fd8c470ab3beba96ac32d185d0478127707860aae55c8a1e4e",
        "ledger_refuse_change": "ecc10300b11531fa939cb80334480751825b107b89a375c6bc94054f27003305",
        "ledger_seal_digest": "f084b479d119b728d47f2d91dbd1c2f4cd47b44c2b682546fd44b569a0c55670",
        "ledger_seal_move_head": "853d816f6bd2b91583046b264a923da144ef47aa5fcbb92e03f2be535f898c7f",
        "ledger_sheet": "afd6694b27c7418582cdc5eee8c7c94c15f4de5553118acbd44b27d9ffff4236",
        "ledger_sheet_of_day": "d0312c104f88d170a98a50b6ef9c25074ef19abdbad337fe6befdf22d9bc3f10",
        "ledger_transaction_check": "3482a235ec1b38d9abfe24a4de3ab4ec4eb4fc4508d709d701a34a6e2d32ffa0",
        "ledger_transaction_enter": "39ec2f229ee2c3ea6031bb881ef69aa501bbac65cd119c9cdc3fb1aa29dc25b0",
    },
    constraints={
        "ledger_account_id_names_owner": "CHECK ("
        "id = (tenant_id * 8 + 0) AND kind::text = 'available'::text AND tenant_id IS NOT NULL OR "
        "id = (tenant_id * 8 + 1) AND kind::text = 'held'::text AND tenant_id IS NOT NULL OR "
        "id = (tenant_id * 8 + 2) AND kind::text = 'earned'::text AND tenant_id IS NOT NULL OR "
        "id = 1 AND kind::text = 'operator'::text AND tenant_id IS NULL OR "
        "id = 2 AND kind::text = 'outside'::text AND tenant_id IS NULL)",
        "ledger_balance_not_negative": "CHECK (NOT guarded OR amount >= 0 AND stripe = 0)",
        "ledger_entry_not_zero": "CHECK (NOT amount = 0)",
        "ledger_sealhead_single": "CHECK (id = 1)",
        "ledger_transaction_corrects_earlier": "CHECK (corrects_id < id)",
        "ledger_transaction_key_once": "UNIQUE (key)",
        "ledger_transaction_plain_names": f"CHECK (key::text ~ '{PLAIN}'::text AND kind::text ~ '{PLAIN}'::text)",
        "ledger_transaction_plain_subject": f"CHECK (subject::text = ''::text OR subject::text ~ '{PLAIN}'::text)",
        "ledger_transaction_two_entries": "CHECK (entry_count >= 2)",
    },
)
