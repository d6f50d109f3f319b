-- The rules of the book, kept by the database itself so that they also hold for raw SQL.
--
-- 1. Append-only: no update, delete or truncate of accounts, transactions, entries, seals.
-- 2. A transaction is complete when it commits: exactly the declared number of entries, summing to zero,
--    under the digest of what was written. Later entries find no free line.
-- 3. Running balances and day totals move with the entries, in the same database transaction.
-- 4. A guarded account never falls below zero (CHECK ledger_balance_not_negative).
-- 5. Nothing enters a block that has been sealed.
--
-- LOCKING RULE (docs/architecture.md, "Locking"): balance rows are locked by whoever posts, highest account
-- id first, until commit. Tenants' accounts (ids from 8) have one row each; the house's accounts (ids below
-- 8, so they come last) have several, of which a writer takes the first that is free.

-- ---------------------------------------------------------------- 1. append-only

CREATE FUNCTION ledger_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% of % refused: the book only appends; post a correction', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'restrict_violation';
END $$;

CREATE TRIGGER ledger_account_appends BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_account
    FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_change();
CREATE TRIGGER ledger_transaction_appends BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_transaction
    FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_change();
CREATE TRIGGER ledger_entry_appends BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_entry
    FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_change();
CREATE TRIGGER ledger_seal_appends BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_seal
    FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_change();

-- Balances and day totals do change, but only from inside the trigger on entries (depth 1), never by hand (0).
CREATE TRIGGER ledger_balance_follows BEFORE INSERT OR UPDATE OR DELETE ON ledger_balance
    FOR EACH STATEMENT WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION ledger_refuse_change();
CREATE TRIGGER ledger_balance_stays BEFORE TRUNCATE ON ledger_balance
    FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_change();
CREATE TRIGGER ledger_daytotal_follows BEFORE INSERT OR UPDATE OR DELETE ON ledger_daytotal
    FOR EACH STATEMENT WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION ledger_refuse_change();
CREATE TRIGGER ledger_daytotal_stays BEFORE TRUNCATE ON ledger_daytotal
    FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_change();

-- ---------------------------------------------------------------- 2. complete at commit

-- SHA-256 of the posting as canonical JSON text:
-- [key, kind, subject, microseconds since 1970, corrected id, facts, [[account id, amount], ...]].
-- Built by concatenation, which is five times as fast as building jsonb; the CHECKs on key, kind and subject
-- admit nothing that JSON escapes. `lines` comes from ledger_line, joined by ', '.
CREATE FUNCTION ledger_digest(
    key text, kind text, subject text, occurred_at timestamptz, corrects bigint, facts jsonb, lines text
) RETURNS bytea LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT sha256(convert_to(
        '["' || key || '", "' || kind || '", "' || subject || '", '
        || (extract(epoch FROM occurred_at - timestamptz '1970-01-01 00:00:00+00') * 1000000)::bigint::text
        || ', ' || coalesce(corrects::text, 'null') || ', ' || facts::text || ', [' || lines || ']]', 'UTF8'))
$$;

CREATE FUNCTION ledger_line(account_id bigint, amount bigint) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$ SELECT '[' || account_id::text || ', ' || amount::text || ']' $$;

CREATE FUNCTION ledger_transaction_check() RETURNS trigger
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    found record;
BEGIN
    SELECT count(*) AS lines, coalesce(sum(e.amount), 0) AS total,
           string_agg(ledger_line(e.account_id, e.amount), ', ' ORDER BY e.line) AS body
      INTO found FROM ledger_entry e WHERE e.transaction_id = NEW.id;
    IF found.lines <> NEW.entry_count OR found.total <> 0 THEN
        RAISE EXCEPTION 'transaction "%" is unbalanced: % of % entries, sum %',
            NEW.key, found.lines, NEW.entry_count, found.total USING ERRCODE = 'check_violation';
    END IF;
    IF NEW.digest <> ledger_digest(
        NEW.key, NEW.kind, NEW.subject, NEW.occurred_at, NEW.corrects_id, NEW.facts, found.body) THEN
        RAISE EXCEPTION 'transaction "%" carries a digest of other contents', NEW.key
            USING ERRCODE = 'check_violation';
    END IF;
    IF NEW.id <= (SELECT max(last_transaction_id) FROM ledger_seal) THEN
        RAISE EXCEPTION 'transaction "%" has id %, inside a sealed block', NEW.key, NEW.id
            USING ERRCODE = 'check_violation';
    END IF;
    RETURN NULL;
END $$;

-- Deferred, because the entries follow the transaction's row.
CREATE CONSTRAINT TRIGGER ledger_transaction_balances AFTER INSERT ON ledger_transaction
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION ledger_transaction_check();

-- ---------------------------------------------------------------- 3. running balances

CREATE FUNCTION ledger_account_open_balance() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO ledger_balance (account_id, stripe, guarded, amount, entry_count)
    SELECT NEW.id, stripe, NEW.tenant_id IS NOT NULL, 0, 0
      FROM generate_series(0, CASE WHEN NEW.tenant_id IS NULL THEN 15 ELSE 0 END) AS stripe;
    RETURN NULL;
END $$;

CREATE TRIGGER ledger_account_opens AFTER INSERT ON ledger_account
    FOR EACH ROW EXECUTE FUNCTION ledger_account_open_balance();

CREATE FUNCTION ledger_entry_apply() RETURNS trigger
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    late record;
    house record;
    free smallint;
BEGIN
    SELECT e.transaction_id, e.line INTO late
      FROM added e
     WHERE (SELECT e.line < t.entry_count AND e.occurred_at = t.occurred_at
              FROM ledger_transaction t WHERE t.id = e.transaction_id) IS NOT TRUE LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'entry %.% does not belong: no such transaction, a line it never declared, or another time',
            late.transaction_id, late.line USING ERRCODE = 'check_violation';
    END IF;

    -- Tenants' accounts. ledger_post holds these locks already, in the order of the rule.
    UPDATE ledger_balance b SET amount = b.amount + d.amount, entry_count = b.entry_count + d.entries
      FROM (SELECT account_id, sum(amount)::bigint AS amount, count(*) AS entries
              FROM added WHERE account_id >= 8 GROUP BY 1) d
     WHERE b.account_id = d.account_id AND b.stripe = 0;
    -- The lock on a balance row covers the day rows of the same stripe.
    INSERT INTO ledger_daytotal AS t (account_id, day, stripe, amount, entry_count)
    SELECT account_id, (occurred_at AT TIME ZONE 'UTC')::date, 0, sum(amount), count(*)
      FROM added WHERE account_id >= 8 GROUP BY 1, 2
    ON CONFLICT (account_id, day, stripe)
    DO UPDATE SET amount = t.amount + excluded.amount, entry_count = t.entry_count + excluded.entry_count;

    FOR house IN
        SELECT account_id, (occurred_at AT TIME ZONE 'UTC')::date AS day, sum(amount)::bigint AS amount,
               count(*) AS entries
          FROM added WHERE account_id < 8 GROUP BY 1, 2 ORDER BY 1 DESC, 2
    LOOP
        SELECT b.stripe INTO free FROM ledger_balance b WHERE b.account_id = house.account_id
         ORDER BY b.stripe LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED;
        free := coalesce(free, 0);  -- all of them busy: wait for the first
        UPDATE ledger_balance b SET amount = b.amount + house.amount, entry_count = b.entry_count + house.entries
         WHERE b.account_id = house.account_id AND b.stripe = free;
        INSERT INTO ledger_daytotal AS t (account_id, day, stripe, amount, entry_count)
        VALUES (house.account_id, house.day, free, house.amount, house.entries)
        ON CONFLICT (account_id, day, stripe)
        DO UPDATE SET amount = t.amount + excluded.amount, entry_count = t.entry_count + excluded.entry_count;
    END LOOP;
    RETURN NULL;
END $$;

CREATE TRIGGER ledger_entry_moves_balances AFTER INSERT ON ledger_entry
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION ledger_entry_apply();

-- ---------------------------------------------------------------- 5. sealing

-- Tamper evidence: what a block holds and which block it follows is under its digest.
CREATE FUNCTION ledger_seal_digest(previous bytea, number bigint, sealed_at timestamptz, members bytea) RETURNS bytea
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT sha256(coalesce(previous, '') || int8send(number)
        || int8send((extract(epoch FROM sealed_at - timestamptz '1970-01-01 00:00:00+00') * 1000000)::bigint) || members)
$$;

-- Writers share this lock until commit; the sealer takes it alone for a moment. Having it, every id handed
-- out so far is committed or gone, so the highest visible id is a safe end for the next block. A writer takes
-- it before its statement draws the first id.
CREATE FUNCTION ledger_transaction_enter() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(7201, 1);
    RETURN NULL;
END $$;

CREATE TRIGGER ledger_transaction_enters BEFORE INSERT ON ledger_transaction
    FOR EACH STATEMENT EXECUTE FUNCTION ledger_transaction_enter();
