"""Memberships begin at the moment that their service is told, and tokens whose role has ended are revoked."""

import django.utils.timezone
from django.db import migrations, models

END = """
UPDATE tenants_apitoken token SET revoked_at = now()
 WHERE token.revoked_at IS NULL AND token.expires_at > now()
   AND NOT EXISTS (
       SELECT FROM tenants_membership member
        WHERE member.tenant_id = token.tenant_id AND member.user_id = token.user_id
          AND member.created_at <= token.created_at
   )
   AND (token.tenant_id IS NOT NULL OR NOT EXISTS (
       SELECT FROM tenants_staffgrant staff
        WHERE staff.user_id = token.user_id AND staff.revoked_at IS NULL AND staff.granted_at <= token.created_at
   ))
"""


class Migration(migrations.Migration):
    dependencies = [("tenants", "0007_kept_answers")]

    operations = [
        migrations.AlterField(
            model_name="membership",
            name="created_at",
            field=models.DateTimeField(default=django.utils.timezone.now),
        ),
        migrations.RunSQL(END, migrations.RunSQL.noop),
    ]
