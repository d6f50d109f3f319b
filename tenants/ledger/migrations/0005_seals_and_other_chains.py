"""Seals that say where the other chains end, and a row that says where the seals end.

Seals from before say nothing of other chains, and their digests stay as they are.
"""

from pathlib import Path

from django.db import migrations, models

from tenants.ledger.guards import GUARDS

_SQL = Path(__file__).parent / "sql"
_TRIGGERS = GUARDS.sql("ledger_seal_moves_head", "ledger_sealhead_follows", "ledger_sealhead_stays")
_BACK = """
DROP FUNCTION ledger_seal_digest(bytea, bigint, timestamptz, bytea, jsonb);
CREATE FUNCTION ledger_seal_digest(previous bytea, number bigint, sealed_at timestamptz, members bytea) RETURNS bytea
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT sha256(coalesce(previous, '') || int8send(number)
        || int8send((extract(epoch FROM sealed_at - timestamptz '1970-01-01 00:00:00+00') * 1000000)::bigint) || members)
$$;
DROP FUNCTION ledger_seal_move_head CASCADE;
"""


class Migration(migrations.Migration):
    dependencies = [("ledger", "0001_initial")]

    operations = [
        migrations.AddField("seal", "heads", models.JSONField(null=True)),
        migrations.AlterField("seal", "last_transaction_id", models.BigIntegerField(db_index=True)),
        migrations.CreateModel(
            name="SealHead",
            fields=[
                ("id", models.SmallIntegerField(default=1, primary_key=True, serialize=False)),
                ("number", models.BigIntegerField()),
                ("digest", models.BinaryField(max_length=32)),
            ],
            options={
                "constraints": [models.CheckConstraint(condition=models.Q(("id", 1)), name="ledger_sealhead_single")],
            },
        ),
        migrations.RunSQL([(_SQL / "heads.sql").read_text(encoding="utf-8"), _TRIGGERS], _BACK),
    ]
