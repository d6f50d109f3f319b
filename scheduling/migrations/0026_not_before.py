from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("scheduling", "0025_verification_and_what_if"),
    ]

    operations = [
        migrations.AddField(
            model_name="trainingjob",
            name="not_before",
            field=models.BigIntegerField(default=0),
        ),
    ]
