"""The instant lane publishes its prices: how far ahead, and that a slot may have none."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("scheduling", "0016_instant_counters"),
    ]

    operations = [
        migrations.AddField(
            model_name="pool",
            name="posted_slots",
            field=models.PositiveSmallIntegerField(default=96),
        ),
        migrations.AddConstraint(
            model_name="pool",
            constraint=models.CheckConstraint(
                condition=models.Q(("posted_slots__lte", 1024)), name="pool_posts_what_it_sells"
            ),
        ),
        migrations.AlterField(
            model_name="pricetick",
            name="price",
            field=models.FloatField(null=True),
        ),
    ]
