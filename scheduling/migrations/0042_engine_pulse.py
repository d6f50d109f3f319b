"""Engines say when they were last at work and how their servers are; a pool may take a server back by itself."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0041_archive_pieces_and_secrets")]

    operations = [
        migrations.AddField("pool", "servers_return", models.BooleanField(default=False)),
        migrations.CreateModel(
            name="EnginePulse",
            fields=[
                ("name", models.CharField(max_length=20, primary_key=True, serialize=False)),
                ("alive_at", models.DateTimeField()),
                ("servers", models.JSONField(default=dict)),
                ("alerts", models.JSONField(default=list)),
                ("figures", models.TextField(blank=True)),
            ],
            options={"ordering": ["name"]},
        ),
    ]
