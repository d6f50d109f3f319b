-- The rules of the market that Django cannot declare.

-- What was decided, promised or announced stays as it was written.
CREATE FUNCTION scheduling_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only: % refused', TG_TABLE_NAME, TG_OP
        USING ERRCODE = 'restrict_violation';
END $$;

-- The one exception: the input and the answer of an interval are removed once an archive has them.
CREATE FUNCTION scheduling_interval_archived() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    emptied scheduling_interval%ROWTYPE := OLD;
BEGIN
    emptied.view := '';
    emptied.plan := '';
    IF NEW IS DISTINCT FROM emptied OR NOT EXISTS (
        SELECT FROM scheduling_intervalarchive AS one
         WHERE one.pool_id = OLD.pool_id AND OLD.number BETWEEN one.first AND one.last)
    THEN
        RAISE EXCEPTION '% is append-only: % refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER interval_append_only BEFORE DELETE ON scheduling_interval
    FOR EACH ROW EXECUTE FUNCTION scheduling_append_only();
CREATE TRIGGER interval_only_archived BEFORE UPDATE ON scheduling_interval
    FOR EACH ROW EXECUTE FUNCTION scheduling_interval_archived();
CREATE TRIGGER interval_never_emptied BEFORE TRUNCATE ON scheduling_interval
    FOR EACH STATEMENT EXECUTE FUNCTION scheduling_append_only();

-- What an award costs, when, and on whose units, is settled at the award. Only its life goes on: state, cut, return.
CREATE FUNCTION scheduling_award_terms_kept() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (OLD.job_id, OLD.tenant_id, OLD.attempt, OLD.pool_id, OLD.lane, OLD.interval_id, OLD.start, OLD."end",
        OLD.paid, OLD.charges, OLD.allocation, OLD.on_operator, OLD.work_left, OLD.paid_before, OLD.work)
        IS DISTINCT FROM
       (NEW.job_id, NEW.tenant_id, NEW.attempt, NEW.pool_id, NEW.lane, NEW.interval_id, NEW.start, NEW."end",
        NEW.paid, NEW.charges, NEW.allocation, NEW.on_operator, NEW.work_left, NEW.paid_before, NEW.work)
    THEN
        RAISE EXCEPTION 'the terms of award % are fixed', OLD.id USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER award_terms_kept BEFORE UPDATE OF job_id, tenant_id, attempt, pool_id, lane, interval_id, start, "end",
    paid, charges, allocation, on_operator, work_left, paid_before, work ON scheduling_award
    FOR EACH ROW EXECUTE FUNCTION scheduling_award_terms_kept();
CREATE TRIGGER award_never_deleted BEFORE DELETE ON scheduling_award
    FOR EACH ROW EXECUTE FUNCTION scheduling_append_only();
CREATE TRIGGER award_never_emptied BEFORE TRUNCATE ON scheduling_award
    FOR EACH STATEMENT EXECUTE FUNCTION scheduling_append_only();

-- Whoever runs awards hears at once, at the commit, that one was made, cut short or moved on.
CREATE FUNCTION scheduling_award_told() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('scheduling_awards', '');
    RETURN NULL;
END $$;

CREATE TRIGGER scheduling_award_told AFTER INSERT OR UPDATE ON scheduling_award
    FOR EACH STATEMENT EXECUTE FUNCTION scheduling_award_told();
