"""What holds units in some slots is found by both ends of its span at once, however long ago it was."""

import django.contrib.postgres.fields.ranges
import django.contrib.postgres.indexes
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0021_fairness")]

    operations = [
        migrations.AddIndex(
            model_name="award",
            index=django.contrib.postgres.indexes.GistIndex(
                models.Func(
                    models.F("start"),
                    models.F("end"),
                    function="int8range",
                    output_field=django.contrib.postgres.fields.ranges.BigIntegerRangeField(),
                ),
                name="award_span",
            ),
        )
    ]
