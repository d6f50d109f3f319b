-- A feed that can be followed by id alone. A transaction about to write its first event takes a lock that names the
-- newest id so far, and only then takes ids, which are larger. So below the least number locked everything is settled.
-- The lock ends with the transaction. (Of the number its last 31 bits are named, for a lock has no room for more.)
CREATE FUNCTION scheduling_event_stamp() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    ids CONSTANT regclass := pg_get_serial_sequence('scheduling_event', 'id');
    newest bigint;
BEGIN
    IF current_setting('scheduling.writes_events', true) IS DISTINCT FROM pg_current_xact_id()::text THEN
        newest := scheduling_event_newest();
        PERFORM pg_advisory_xact_lock_shared(1163284809, (newest & 2147483647)::int);
        PERFORM set_config('scheduling.writes_events', pg_current_xact_id()::text, true);
    END IF;
    NEW.id := nextval(ids);  -- the one from the column's default was taken before the lock
    RETURN NEW;
END $$;

CREATE FUNCTION scheduling_event_newest() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    newest bigint;
BEGIN
    EXECUTE format('SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END FROM %s',
                   pg_get_serial_sequence('scheduling_event', 'id')) INTO newest;
    RETURN newest;
END $$;

-- No event with this id or a smaller one can still appear. The newest id is read first: who took that or a smaller
-- one holds its lock by then, or has ended. The events themselves are to be read by a later statement.
CREATE FUNCTION scheduling_event_settled() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    newest CONSTANT bigint := scheduling_event_newest();
    least_locked bigint;
BEGIN
    SELECT min(newest - ((newest - objid::bigint) & 2147483647)) INTO least_locked
      FROM pg_locks
     WHERE locktype = 'advisory' AND classid = 1163284809 AND objsubid = 2
       AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
       -- Locked since `newest` was read: names at least that, and cannot be told from a very old one.
       AND ((newest - objid::bigint) & 2147483647) < 1073741824;
    RETURN least(newest, coalesce(least_locked, newest));
END $$;

CREATE TRIGGER event_stamped BEFORE INSERT ON scheduling_event
    FOR EACH ROW EXECUTE FUNCTION scheduling_event_stamp();
