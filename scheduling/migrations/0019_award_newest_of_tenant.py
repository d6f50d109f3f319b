"""The list of a tenant's awards reads one page of an index, however many there are."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("scheduling", "0018_webhooks"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="award",
            index=models.Index(fields=["tenant", "-id"], name="award_newest_of_tenant"),
        ),
    ]
