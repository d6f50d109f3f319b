"""New webhooks are signed in the form of Standard Webhooks; those that are there keep theirs."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0044_stored_secrets")]

    operations = [
        # The database's own default is for rows of before, and for processes of the version before, which know no form.
        migrations.AddField(
            "webhook",
            "form",
            models.CharField(
                choices=[("before", "Before"), ("standard", "Standard")],
                db_default="before",
                default="standard",
                max_length=8,
            ),
        ),
        migrations.AddConstraint(
            "webhook",
            models.CheckConstraint(condition=models.Q(form__in=["before", "standard"]), name="webhook_form_known"),
        ),
    ]
