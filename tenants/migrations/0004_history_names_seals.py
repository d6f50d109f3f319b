"""An entry of the history says which seal of the ledger was the newest; and history is not emptied at one go either."""

from django.db import migrations, models

from tenants.common.guards import HISTORY

# TRUNCATE fires once for a table and has no row that could be named.
FORWARD = """
CREATE OR REPLACE FUNCTION tenants_audit_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the history only grows: % of % refused', lower(TG_OP),
        CASE WHEN TG_LEVEL = 'ROW' THEN 'entry ' || OLD.sequence ELSE 'everything' END
        USING ERRCODE = 'restrict_violation';
END $$;
"""
BACKWARD = """
DROP TRIGGER tenants_audithead_never_emptied ON tenants_audithead;
DROP TRIGGER tenants_auditentry_never_emptied ON tenants_auditentry;
CREATE OR REPLACE FUNCTION tenants_audit_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the history only grows: % of entry % refused', lower(TG_OP), OLD.sequence
        USING ERRCODE = 'restrict_violation';
END $$;
"""


class Migration(migrations.Migration):
    dependencies = [("tenants", "0003_api")]

    operations = [
        migrations.AddField("auditentry", "seal_number", models.BigIntegerField(blank=True, null=True)),
        migrations.AddField(
            "auditentry",
            "seal_digest",
            models.CharField(blank=True, default="", max_length=64),
            preserve_default=False,
        ),
        migrations.RunSQL(
            [FORWARD, HISTORY.sql("tenants_auditentry_never_emptied", "tenants_audithead_never_emptied")], BACKWARD
        ),
    ]
