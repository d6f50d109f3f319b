-- Who wrote a row last. A transaction that was not over when somebody read the calendar can still add to it, so what was
-- written since is what transactions wrote that had not ended by then: not what has a larger number.
CREATE FUNCTION scheduling_calendar_written() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.written_by := pg_current_xact_id();
    RETURN NEW;
END $$;

CREATE FUNCTION scheduling_shape_changed() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    changed CONSTANT record := coalesce(NEW, OLD);
BEGIN
    IF TG_TABLE_NAME = 'scheduling_cell' THEN
        INSERT INTO scheduling_shapechange (pool_id, written_by)
        SELECT pool_id, pg_current_xact_id() FROM scheduling_server WHERE id = changed.server_id
            ON CONFLICT DO NOTHING;
    ELSE
        INSERT INTO scheduling_shapechange (pool_id, written_by) VALUES (changed.pool_id, pg_current_xact_id())
            ON CONFLICT DO NOTHING;
    END IF;
    RETURN NULL;
END $$;
