"""What ended a little while ago is found by an index: charts of servers by time show it."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0014_awarded_at")]

    operations = [
        migrations.AddIndex("award", models.Index(fields=["pool", "end"], name="award_to_end")),
    ]
