"""Trained weights for live pools: written once, like everything that intervals are decided again from."""

from django.db import migrations, models

_KEPT = (
    "CREATE TRIGGER weights_append_only BEFORE UPDATE OR DELETE ON scheduling_policyweights"
    " FOR EACH ROW EXECUTE FUNCTION scheduling_append_only();"
    "CREATE TRIGGER weights_never_emptied BEFORE TRUNCATE ON scheduling_policyweights"
    " FOR EACH STATEMENT EXECUTE FUNCTION scheduling_append_only();"
)
_BACK = (
    "DROP TRIGGER weights_never_emptied ON scheduling_policyweights;"
    "DROP TRIGGER weights_append_only ON scheduling_policyweights;"
)


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0001_initial")]

    operations = [
        migrations.CreateModel(
            name="PolicyWeights",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.SlugField(max_length=60, unique=True)),
                ("digest", models.CharField(max_length=64)),
                ("content", models.BinaryField()),
                ("added_at", models.DateTimeField()),
            ],
            options={
                "verbose_name_plural": "policy weights",
                "ordering": ["name"],
                "constraints": [models.CheckConstraint(condition=~models.Q(name=""), name="weights_named")],
            },
        ),
        migrations.RunSQL(_KEPT, _BACK),
    ]
