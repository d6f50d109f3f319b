"""A pool that comes to rest."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0006_money_in_time")]

    operations = [migrations.AddField("laneclock", "draining", models.BooleanField(default=False))]
