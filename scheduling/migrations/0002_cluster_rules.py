"""Named policies, one pool per server and no cell above capacity; the reasons stand in the SQL."""

from pathlib import Path

from django.db import migrations

_SQL = Path(__file__).parent / "sql" / "cluster.sql"

_DROP = """
DROP TRIGGER capacity_covers_cells ON scheduling_servercapacity;
DROP TRIGGER cells_within_capacity ON scheduling_cell;
DROP FUNCTION scheduling_cells_within_capacity();
ALTER TABLE scheduling_cell DROP CONSTRAINT cell_on_capacity;
ALTER TABLE scheduling_servercapacity
    DROP CONSTRAINT capacity_resource_in_pool, DROP CONSTRAINT capacity_server_in_pool;
ALTER TABLE scheduling_pool
    DROP CONSTRAINT pool_instant_policy_named, DROP CONSTRAINT pool_batch_policy_named;
"""


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0001_initial")]

    operations = [migrations.RunSQL(sql=_SQL.read_text(encoding="utf-8"), reverse_sql=_DROP)]
