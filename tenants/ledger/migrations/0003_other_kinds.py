"""What is neither a hold nor a settlement is found by an index of its own."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("ledger", "0002_rules")]

    operations = [
        migrations.AddIndex(
            model_name="transaction",
            index=models.Index(
                condition=models.Q(("kind__in", ["hold", "settle"]), _negated=True),
                fields=["occurred_at", "id"],
                name="ledger_transaction_other",
            ),
        ),
    ]
