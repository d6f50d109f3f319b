"""The content of archives that no job has used for long leaves, by a door of its own."""

from __future__ import annotations

import django.db.models.deletion
from django.db import migrations, models
from django.db.models import Q

from scheduling.models.guards import GUARDS

FUNCTION = """
CREATE FUNCTION scheduling_archive_closed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (
        SELECT FROM scheduling_archivekeeping AS one
         WHERE one.archive_id = OLD.archive_id AND one.closed_at IS NOT NULL)
    THEN
        RAISE EXCEPTION '% is append-only: % refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN OLD;
END $$;
"""
# What is there counts as used today.
THERE = """
INSERT INTO scheduling_archivekeeping (archive_id, used_at) SELECT digest, now() FROM scheduling_programarchive
"""
_DOOR = ("archive_piece_append_only", "archive_piece_only_of_closed")
_BACK = """
DROP TRIGGER archive_piece_only_of_closed ON scheduling_programarchivepiece;
DROP TRIGGER archive_piece_append_only ON scheduling_programarchivepiece;
CREATE TRIGGER archive_piece_append_only BEFORE UPDATE OR DELETE ON scheduling_programarchivepiece
    FOR EACH ROW EXECUTE FUNCTION scheduling_append_only();
DROP FUNCTION scheduling_archive_closed();
"""


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0060_server_names")]

    operations = [
        migrations.CreateModel(
            name="ArchiveKeeping",
            fields=[
                (
                    "archive",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to="scheduling.programarchive",
                    ),
                ),
                ("used_at", models.DateTimeField()),
                ("closed_at", models.DateTimeField(blank=True, null=True)),
                ("removed_at", models.DateTimeField(blank=True, null=True)),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=Q(removed_at__isnull=True) | Q(closed_at__isnull=False),
                        name="archive_closed_before_removed",
                    )
                ]
            },
        ),
        migrations.RunSQL(THERE, migrations.RunSQL.noop),
        migrations.RunSQL(
            [
                FUNCTION,
                "DROP TRIGGER archive_piece_append_only ON scheduling_programarchivepiece",
                *(each for each in GUARDS.triggers if each.split()[2] in _DOOR),
            ],
            _BACK,
        ),
    ]
