-- The rules of the market that Django cannot declare.

-- What was decided, promised or announced stays as it was written.
CREATE FUNCTION scheduling_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only: % refused', TG_TABLE_NAME, TG_OP
        USING ERRCODE = 'restrict_violation';
END $$;

CREATE TRIGGER interval_append_only BEFORE UPDATE OR DELETE ON scheduling_interval
    FOR EACH ROW EXECUTE FUNCTION scheduling_append_only();
CREATE TRIGGER interval_never_emptied BEFORE TRUNCATE ON scheduling_interval
    FOR EACH STATEMENT EXECUTE FUNCTION scheduling_append_only();
CREATE TRIGGER floor_append_only BEFORE UPDATE OR DELETE ON scheduling_jobfloor
    FOR EACH ROW EXECUTE FUNCTION scheduling_append_only();
CREATE TRIGGER floor_never_emptied BEFORE TRUNCATE ON scheduling_jobfloor
    FOR EACH STATEMENT EXECUTE FUNCTION scheduling_append_only();
CREATE TRIGGER event_append_only BEFORE UPDATE OR DELETE ON scheduling_event
    FOR EACH ROW EXECUTE FUNCTION scheduling_append_only();

-- An event carries the transaction that wrote it, so that readers can stop before those still open.
CREATE FUNCTION scheduling_event_stamp() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.xact := pg_current_xact_id()::text::bigint;
    RETURN NEW;
END $$;

CREATE TRIGGER event_stamped BEFORE INSERT ON scheduling_event
    FOR EACH ROW EXECUTE FUNCTION scheduling_event_stamp();

-- What an award costs, and when, is settled at the award. Only its life goes on: state and cut.
CREATE FUNCTION scheduling_award_terms_kept() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (OLD.job_id, OLD.tenant_id, OLD.attempt, OLD.interval_id, OLD.start, OLD."end", OLD.paid, OLD.charges, OLD.allocation)
        IS DISTINCT FROM
       (NEW.job_id, NEW.tenant_id, NEW.attempt, NEW.interval_id, NEW.start, NEW."end", NEW.paid, NEW.charges, NEW.allocation)
    THEN
        RAISE EXCEPTION 'the terms of award % are fixed', OLD.id USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER award_terms_kept BEFORE UPDATE ON scheduling_award
    FOR EACH ROW EXECUTE FUNCTION scheduling_award_terms_kept();
CREATE TRIGGER award_never_deleted BEFORE DELETE ON scheduling_award
    FOR EACH ROW EXECUTE FUNCTION scheduling_append_only();
