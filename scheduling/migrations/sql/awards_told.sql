-- Whoever runs awards hears at once, at the commit, that one was made, cut short or moved on.
CREATE FUNCTION scheduling_award_told() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('scheduling_awards', '');
    RETURN NULL;
END $$;

CREATE TRIGGER scheduling_award_told AFTER INSERT OR UPDATE ON scheduling_award
    FOR EACH STATEMENT EXECUTE FUNCTION scheduling_award_told();
