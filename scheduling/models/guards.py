"""The rules of the cluster and the market in the database, as a list: what migrations made, and what a verification of
intervals checks for."""

from __future__ import annotations

from tenants.common.guards import Guards, append_only, never_emptied

_REFUSE = "scheduling_append_only"
_TERMS = (
    'job_id, tenant_id, attempt, pool_id, lane, interval_id, start, "end", paid, owners, amounts, charges,'
    " allocation, on_operator, work_left, paid_before, work"
)

GUARDS = Guards(
    prefix="scheduling_",
    triggers=(
        # The one exception: the owning role removes the input and the answer of an interval once an archive has them.
        "CREATE TRIGGER interval_append_only BEFORE DELETE ON scheduling_interval"
        f" FOR EACH ROW EXECUTE FUNCTION {_REFUSE}()",
        "CREATE TRIGGER interval_only_archived BEFORE UPDATE ON scheduling_interval"
        " FOR EACH ROW EXECUTE FUNCTION scheduling_interval_archived()",
        never_emptied("scheduling_interval", "interval", _REFUSE),
        *append_only("scheduling_intervalarchive", "interval_archive", _REFUSE),
        *append_only("scheduling_answerframe", "frame", _REFUSE),
        *append_only("scheduling_instantanswer", "answer", _REFUSE),
        *append_only("scheduling_jobfloor", "floor", _REFUSE),
        *append_only("scheduling_jobarray", "array", _REFUSE),
        *append_only("scheduling_jobdescription", "description", _REFUSE),
        *append_only("scheduling_event", "event", _REFUSE),
        *append_only("scheduling_feedseal", "feedseal", _REFUSE),
        "CREATE TRIGGER event_stamped BEFORE INSERT ON scheduling_event"
        " FOR EACH ROW EXECUTE FUNCTION scheduling_event_stamp()",
        f"CREATE TRIGGER award_terms_kept BEFORE UPDATE OF {_TERMS} ON scheduling_award"
        " FOR EACH ROW EXECUTE FUNCTION scheduling_award_terms_kept()",
        "CREATE TRIGGER award_never_deleted BEFORE DELETE ON scheduling_award"
        f" FOR EACH ROW EXECUTE FUNCTION {_REFUSE}()",
        never_emptied("scheduling_award", "award", _REFUSE),
        "CREATE TRIGGER scheduling_award_told AFTER INSERT OR UPDATE ON scheduling_award"
        " FOR EACH STATEMENT EXECUTE FUNCTION scheduling_award_told()",
        *append_only("scheduling_outage", "outage", _REFUSE),
        *append_only("scheduling_useprice", "use_price", _REFUSE),
        *append_only("scheduling_intervalfairness", "fairness", _REFUSE),
        *append_only("scheduling_tenantfairness", "fairness", _REFUSE),
        *append_only("scheduling_policyweights", "weights", _REFUSE),
        *append_only("scheduling_weightspromotion", "promotion", _REFUSE),
        *append_only("scheduling_programarchive", "archive", _REFUSE),
        # The other exception: the content of an archive that no new job can name.
        "CREATE TRIGGER archive_piece_append_only BEFORE UPDATE ON scheduling_programarchivepiece"
        f" FOR EACH ROW EXECUTE FUNCTION {_REFUSE}()",
        "CREATE TRIGGER archive_piece_only_of_closed BEFORE DELETE ON scheduling_programarchivepiece"
        " FOR EACH ROW EXECUTE FUNCTION scheduling_archive_closed()",
        never_emptied("scheduling_programarchivepiece", "archive_piece", _REFUSE),
        *append_only("scheduling_programversion", "version", _REFUSE),
        "CREATE CONSTRAINT TRIGGER cells_within_capacity AFTER INSERT OR UPDATE ON scheduling_cell"
        " DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION scheduling_cells_within_capacity()",
        "CREATE CONSTRAINT TRIGGER capacity_covers_cells AFTER UPDATE ON scheduling_servercapacity"
        " DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (new.units < old.units)"
        " EXECUTE FUNCTION scheduling_cells_within_capacity()",
        # A process that has read rows before brings them up to date by what was written since (`market.view.kept`).
        "CREATE TRIGGER calendar_written BEFORE INSERT OR UPDATE ON scheduling_calendarcell"
        " FOR EACH ROW EXECUTE FUNCTION scheduling_calendar_written()",
        "CREATE TRIGGER shape_calendar AFTER DELETE ON scheduling_calendarcell"
        " FOR EACH ROW EXECUTE FUNCTION scheduling_shape_changed()",
        *(
            f"CREATE TRIGGER shape_{name} AFTER INSERT OR DELETE OR UPDATE ON scheduling_{name}"
            " FOR EACH ROW EXECUTE FUNCTION scheduling_shape_changed()"
            for name in ("resourcekind", "server", "servercapacity", "cell", "tenantpolicy")
        ),
    ),
    functions={
        "scheduling_append_only": "1dc709a0bef00b3fcc627316c337be16be38d1a9b5eedfa71b915a7f11f4a144",
        "scheduling_archive_closed": "b860142364c05d6fcb1a20252bb8cbaee97de09d5530fa443522e3f9f8d183b3",
        "scheduling_award_terms_kept": "fc392f9bf5720983907934af6fcf619ce7e8072cc23e6cce307df7bd7740badb",
        "scheduling_award_told": "a56f6b73508238429150c13b3845d3e1501ee17e6dc8112c14dfbde071cae076",
        "scheduling_calendar_written": "b5096acfb49f5cf98bbcb4dd2a196cf7ca4d65f6c276cd2330566633504be2b6",
        "scheduling_cells_within_capacity": "184a3c3eccf686d7babd25ff803bfe74e334d8b52948ed179deebac4a462875c",
        "scheduling_client_key": "5119371bc68b5d9f3024e7b51ba141e16da96578096616a21773404c56f51d58",
        "scheduling_event_newest": "0e9259d8eb1d2866704e0c88703eb013cf8622a6332831bc8dc1bccc749daaa4",
        "scheduling_event_settled": "d413bd03131e1aa60594ae9e8892a4db6d6bc33e893f32f23c954f4a882420ab",
        "scheduling_event_stamp": "0ce155aecf93d1761b9c3e2813078a20fab16b85aec6823167c038404bf44bd7",
        "scheduling_intake": "c3957b219e20e459bfb52ec745efad62ce32906db8c78dbedf537f3be47ecc7c",
        "scheduling_interval_archived": "9f01b4aeb32da6bb4aecf8ad7b3a88130e693503298e8f90e48c481b1093eff2",
        "scheduling_pool_text": "1e756b1271c31730ecc5da5321cbd6122c07a69f0b267b49d35b1f1e7d4c77e2",
        "scheduling_shape_changed": "f557de6b7e07b6caa2c783f475691b4e40e53bd09a5c502f8a5bbfb7bff53886",
    },
)
