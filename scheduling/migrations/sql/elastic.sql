-- The terms of an award of a single slot say what was left and paid when it was made.
CREATE OR REPLACE FUNCTION scheduling_award_terms_kept() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (OLD.job_id, OLD.tenant_id, OLD.attempt, OLD.pool_id, OLD.lane, OLD.interval_id, OLD.start, OLD."end",
        OLD.paid, OLD.charges, OLD.allocation, OLD.on_operator, OLD.work_left, OLD.paid_before)
        IS DISTINCT FROM
       (NEW.job_id, NEW.tenant_id, NEW.attempt, NEW.pool_id, NEW.lane, NEW.interval_id, NEW.start, NEW."end",
        NEW.paid, NEW.charges, NEW.allocation, NEW.on_operator, NEW.work_left, NEW.paid_before)
    THEN
        RAISE EXCEPTION 'the terms of award % are fixed', OLD.id USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;

DROP TRIGGER award_terms_kept ON scheduling_award;
CREATE TRIGGER award_terms_kept BEFORE UPDATE OF job_id, tenant_id, attempt, pool_id, lane, interval_id, start, "end",
    paid, charges, allocation, on_operator, work_left, paid_before ON scheduling_award
    FOR EACH ROW EXECUTE FUNCTION scheduling_award_terms_kept();

-- What a slot costs is known before it begins, and stays known.
CREATE TRIGGER use_price_append_only BEFORE UPDATE OR DELETE ON scheduling_useprice
    FOR EACH ROW EXECUTE FUNCTION scheduling_append_only();
