"""Units given up lie in home cells or on the operator's part of a server, and the two are sold apart."""

from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0008_feed_order")]

    operations = [
        migrations.AddField(
            "freedunits",
            "part",
            models.CharField(choices=[("home", "Home"), ("operator", "Operator")], default="home", max_length=8),
        ),
        migrations.RemoveConstraint("freedunits", "freed_once"),
        migrations.AddConstraint(
            "freedunits",
            models.UniqueConstraint(fields=["award", "server", "resource", "part", "slot"], name="freed_once"),
        ),
        migrations.AddConstraint(
            "freedunits",
            models.CheckConstraint(condition=Q(part__in=["home", "operator"]), name="freed_part_known"),
        ),
    ]
