"""A run keeps whatever its engine needs to find the gang again, and what was delivered on which server. Who is in a
gang is the engine's own."""

from __future__ import annotations

from django.db import migrations, models

COPY = "UPDATE scheduling_run SET reference = jsonb_build_object('pid', pid, 'began', began) WHERE pid <> 0"
BACK = """
UPDATE scheduling_run SET pid = coalesce((reference->>'pid')::integer, 0),
                          began = coalesce((reference->>'began')::bigint, 0)
"""


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0034_answers")]

    operations = [
        migrations.AddField("run", "reference", models.JSONField(blank=True, default=dict)),
        migrations.AddField("run", "delivered", models.JSONField(blank=True, default=list)),
        migrations.RunSQL(COPY, BACK),
        migrations.RemoveField("run", "pid"),
        migrations.RemoveField("run", "began"),
        migrations.RemoveField("run", "members"),
    ]
