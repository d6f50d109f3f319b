"""A row of the calendar lies on a server's capacity: one key of three columns in place of three keys of one column.

It says more, since server and resource are of the pool that the row names, and a commit that wrote hundreds of thousands
of rows asks once for each and not three times. Rows that are there already are checked by the next migration, beside
those who write.
"""

from __future__ import annotations

import django.db.models.deletion
from django.db import migrations, models

ON_CAPACITY = """
ALTER TABLE scheduling_calendarcell
    ADD CONSTRAINT calendar_on_capacity FOREIGN KEY (server_id, resource_id, pool_id)
        REFERENCES scheduling_servercapacity (server_id, resource_id, pool_id) DEFERRABLE INITIALLY DEFERRED NOT VALID
"""
ON_NOTHING = "ALTER TABLE scheduling_calendarcell DROP CONSTRAINT calendar_on_capacity"


def _without_key(name: str, model: str) -> migrations.AlterField:
    return migrations.AlterField(
        model_name="calendarcell",
        name=name,
        field=models.ForeignKey(
            db_constraint=False,
            db_index=False,
            on_delete=django.db.models.deletion.PROTECT,
            related_name="+",
            to=model,
        ),
    )


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0069_charges_as_bytes")]

    operations = [
        migrations.AddConstraint(
            "servercapacity",
            models.UniqueConstraint(fields=["server", "resource", "pool"], name="capacity_with_pool"),
        ),
        migrations.RunSQL(ON_CAPACITY, ON_NOTHING),
        _without_key("pool", "scheduling.pool"),
        _without_key("server", "scheduling.server"),
        _without_key("resource", "scheduling.resourcekind"),
    ]
