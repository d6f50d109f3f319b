-- What an award costs, when, and on whose units, is settled at the award. Only its life goes on: state, cut, return.
CREATE FUNCTION scheduling_award_terms_kept() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (OLD.job_id, OLD.tenant_id, OLD.attempt, OLD.pool_id, OLD.lane, OLD.interval_id, OLD.start, OLD."end",
        OLD.paid, OLD.charges, OLD.allocation, OLD.on_operator)
        IS DISTINCT FROM
       (NEW.job_id, NEW.tenant_id, NEW.attempt, NEW.pool_id, NEW.lane, NEW.interval_id, NEW.start, NEW."end",
        NEW.paid, NEW.charges, NEW.allocation, NEW.on_operator)
    THEN
        RAISE EXCEPTION 'the terms of award % are fixed', OLD.id USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
