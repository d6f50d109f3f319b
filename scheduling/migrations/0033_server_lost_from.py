"""A server says from which slot on it was lost, and after which decision: what was promised on it before stays void
when it comes back."""

from __future__ import annotations

from django.db import migrations, models

# Of servers that are lost as this version comes: what is settled was delivered.
KNOWN = """
UPDATE scheduling_server AS server
   SET lost_from = coalesce(clock.settled_slot + 1, 0), lost_after = coalesce(clock.decided_slot, -1)
  FROM scheduling_pool AS pool
  LEFT JOIN scheduling_laneclock AS clock ON clock.pool_id = pool.id AND clock.lane = 'batch'
 WHERE server.state = 'lost' AND pool.id = server.pool_id
"""


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0032_never_emptied")]

    operations = [
        migrations.AddField(
            model_name="server",
            name="lost_from",
            field=models.BigIntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="server",
            name="lost_after",
            field=models.BigIntegerField(blank=True, null=True),
        ),
        migrations.RunSQL(KNOWN, migrations.RunSQL.noop),
    ]
