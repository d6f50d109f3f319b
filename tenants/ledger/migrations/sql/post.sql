-- One round trip per posting, or per batch of postings. Called by tenants.ledger.services alone.
--
-- deltas: {"account id": amount, ...}, what the batch adds to each tenant's account that it touches.
-- batch: JSON array of postings, each
--   [key, kind, subject, microseconds since 1970, corrected transaction id or null, facts, [[account id, amount], ...]]
--
-- All or nothing. Writes nothing and returns rows of
--   'conflict'  a key that was used before with other contents (key, id), or
--   'short'     a tenant's account (id), what it has (balance) and what would be taken from it (needed);
-- otherwise returns one row per posting, in any order,
--   'posted'    written now, or 'repeated': the same posting was written before under this key.

-- First use opens all three accounts of a tenant (whose they are stands in their ids), and the house's with
-- the first of them. All at once and in the order of the locking rule: nobody waits for an account that another
-- opens while holding a balance that the other wants.
CREATE FUNCTION ledger_open_accounts(ids bigint[]) RETURNS void LANGUAGE sql AS $$
    INSERT INTO ledger_account (id, kind, tenant_id)
    SELECT DISTINCT id / 8 * 8 + place, kind, id / 8
      FROM unnest(ids) AS id, (VALUES (0, 'available'), (1, 'held'), (2, 'earned')) AS kinds (place, kind)
     WHERE id >= 8
    UNION ALL VALUES (1, 'operator', NULL::bigint), (2, 'outside', NULL)
    ORDER BY 1 DESC
    ON CONFLICT DO NOTHING
$$;

CREATE FUNCTION ledger_post(batch jsonb, deltas jsonb)
RETURNS TABLE (outcome text, posting_key text, id bigint, balance bigint, needed bigint)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    ids bigint[] := ARRAY(SELECT jsonb_object_keys(deltas)::bigint);
    known int;
    short boolean;
    used text[];
BEGIN
    -- The locking rule: highest account id first, before anything is looked at. Nothing is locked while an
    -- account is missing: locking the rest after opening it would be out of order.
    LOOP
        WITH locked AS (
            SELECT b.amount, (deltas ->> b.account_id::text)::bigint AS delta
              FROM ledger_balance b
             WHERE b.account_id = ANY (ids) AND b.stripe = 0
               AND cardinality(ids) = (
                   SELECT count(*) FROM ledger_balance b WHERE b.account_id = ANY (ids) AND b.stripe = 0)
             ORDER BY b.account_id DESC FOR NO KEY UPDATE OF b
        )
        SELECT count(*), bool_or(delta < 0 AND amount + delta < 0) INTO known, short FROM locked;
        EXIT WHEN known = cardinality(ids) AND known > 0;
        PERFORM ledger_open_accounts(ids);
        IF cardinality(ids) = 0 THEN  -- house accounts have no lock: two writers with one key meet here
            PERFORM pg_advisory_xact_lock(7202, hashtext(p ->> 0))
               FROM jsonb_array_elements(batch) p ORDER BY hashtext(p ->> 0);
            EXIT;
        END IF;
    END LOOP;

    SELECT array_agg(t.key) INTO used FROM ledger_transaction t
     WHERE t.key = ANY (ARRAY(SELECT p ->> 0 FROM jsonb_array_elements(batch) p));
    IF used IS NOT NULL THEN
        RETURN QUERY
        SELECT 'conflict', t.key::text, t.id, NULL::bigint, NULL::bigint
          FROM jsonb_array_elements(batch) p JOIN ledger_transaction t ON t.key = p ->> 0
         WHERE t.digest <> sha256(convert_to(p::text, 'UTF8'));
        IF FOUND THEN RETURN; END IF;
    END IF;

    IF short OR used IS NOT NULL THEN
        RETURN QUERY
        SELECT 'short', NULL, b.account_id, b.amount, (-d.delta)::bigint
          FROM (SELECT (e ->> 0)::bigint AS account_id, sum((e ->> 1)::bigint) AS delta
                  FROM jsonb_array_elements(batch) p, jsonb_array_elements(p -> 6) e
                 WHERE used IS NULL OR p ->> 0 <> ALL (used) GROUP BY 1) d
          JOIN ledger_balance b USING (account_id)
         WHERE b.guarded AND d.delta < 0 AND b.amount + d.delta < 0 ORDER BY b.account_id;
        IF FOUND THEN RETURN; END IF;
    END IF;

    RETURN QUERY
    WITH fresh AS MATERIALIZED (
        SELECT p, p ->> 0 AS key, timestamptz 'epoch' + (p ->> 3)::bigint * interval '1 microsecond' AS occurred_at
          FROM jsonb_array_elements(batch) WITH ORDINALITY AS b (p, n)
         WHERE used IS NULL OR p ->> 0 <> ALL (used) ORDER BY n
    ), written AS (
        INSERT INTO ledger_transaction AS t
               (key, kind, subject, occurred_at, corrects_id, facts, entry_count, digest)
        SELECT key, p ->> 1, p ->> 2, occurred_at, (p ->> 4)::bigint, p -> 5, jsonb_array_length(p -> 6),
               sha256(convert_to(p::text, 'UTF8'))
          FROM fresh
        RETURNING t.id, t.key
    ), lines AS (
        INSERT INTO ledger_entry (transaction_id, line, account_id, amount, occurred_at)
        SELECT w.id, e.n - 1, (e.e ->> 0)::bigint, (e.e ->> 1)::bigint, f.occurred_at
          FROM written w JOIN fresh f ON f.key = w.key, jsonb_array_elements(f.p -> 6) WITH ORDINALITY AS e (e, n)
    )
    SELECT 'posted', w.key::text, w.id, NULL::bigint, NULL::bigint FROM written w;
    IF used IS NOT NULL THEN
        RETURN QUERY
        SELECT 'repeated', t.key::text, t.id, NULL::bigint, NULL::bigint
          FROM ledger_transaction t WHERE t.key = ANY (used);
    END IF;
END $$;
