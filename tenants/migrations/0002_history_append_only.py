"""The database itself refuses to change or delete an entry of the history."""

from django.db import migrations

FORWARD = """
CREATE FUNCTION tenants_audit_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the history only grows: % of entry % refused', lower(TG_OP), OLD.sequence
        USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER tenants_auditentry_append_only BEFORE UPDATE OR DELETE ON tenants_auditentry
    FOR EACH ROW EXECUTE FUNCTION tenants_audit_refuse();
CREATE FUNCTION tenants_audit_head_grows() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' OR NEW.sequence <= OLD.sequence THEN
        RAISE EXCEPTION 'the end of the history only moves forward' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER tenants_audithead_grows BEFORE UPDATE OR DELETE ON tenants_audithead
    FOR EACH ROW EXECUTE FUNCTION tenants_audit_head_grows();
"""

BACKWARD = """
DROP TRIGGER tenants_audithead_grows ON tenants_audithead;
DROP FUNCTION tenants_audit_head_grows();
DROP TRIGGER tenants_auditentry_append_only ON tenants_auditentry;
DROP FUNCTION tenants_audit_refuse();
"""


class Migration(migrations.Migration):
    dependencies = [("tenants", "0001_initial")]

    operations = [migrations.RunSQL(FORWARD, BACKWARD)]
