"""One job's share of the instant lane, and how long a job that was refused there has to wait."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("scheduling", "0015_awards_to_end"),
    ]

    operations = [
        migrations.AddField(
            model_name="pool",
            name="instant_cooling_slots",
            field=models.PositiveIntegerField(default=0),
        ),
        migrations.AddField(
            model_name="pool",
            name="instant_share_percent",
            field=models.PositiveSmallIntegerField(default=100),
        ),
        migrations.AddConstraint(
            model_name="pool",
            constraint=models.CheckConstraint(
                condition=models.Q(("instant_share_percent__gte", 1), ("instant_share_percent__lte", 100)),
                name="pool_share_is_a_part",
            ),
        ),
    ]
