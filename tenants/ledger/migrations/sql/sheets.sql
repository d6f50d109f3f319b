-- A tenant's movements of a time in one row: what each kind of transaction moved, what was paid for each subject, what
-- each award brought. Of a UTC day that is over such a row is kept (`ledger_daysheet`), so that a statement reads days
-- instead of entries.
--
-- A kept sheet is never believed by itself: it says how many entries it sums, the book only appends, and so it is
-- complete exactly while the day totals count as many. A day that something was added to later is read from the book.

-- Of [low, high): the one place where a sheet is made, for keeping it, for a time that has none, and for the audit.
-- Each transaction is looked up once; their ids go as one array, which the index answers in one walk.
CREATE FUNCTION ledger_sheet(tenant bigint, low timestamptz, high timestamptz) RETURNS ledger_daysheet
LANGUAGE sql STABLE AS $$
    WITH moved AS MATERIALIZED (
        SELECT e.transaction_id AS id, min(e.occurred_at) AS at, count(*) AS entries,
               bool_or(e.account_id <> 8 * tenant + 2) AS own,
               coalesce(sum(e.amount) FILTER (WHERE e.account_id = 8 * tenant), 0)::bigint AS available,
               coalesce(sum(e.amount) FILTER (WHERE e.account_id = 8 * tenant + 1), 0)::bigint AS held,
               sum(e.amount) FILTER (WHERE e.account_id = 8 * tenant + 2)::bigint AS earned
          FROM ledger_entry e
         WHERE e.account_id = ANY (ARRAY[8 * tenant, 8 * tenant + 1, 8 * tenant + 2])
           AND e.occurred_at >= low AND e.occurred_at < high
         GROUP BY 1
    ), known AS MATERIALIZED (
        SELECT m.*, t.kind::text AS kind, t.subject::text AS subject, (t.facts ->> 'award')::bigint AS award,
               (t.facts ->> 'slot')::bigint AS slot
          FROM moved m
          JOIN (SELECT * FROM ledger_transaction WHERE id = ANY (ARRAY(SELECT id FROM moved))) t USING (id)
    ), by_kind AS (
        SELECT kind, count(*) FILTER (WHERE own) AS payments, sum(available)::bigint AS available,
               sum(held)::bigint AS held, coalesce(sum(earned), 0)::bigint AS earned
          FROM known GROUP BY kind
    ), by_subject AS (
        SELECT subject, kind, count(*) AS payments, sum(available)::bigint AS available, sum(held)::bigint AS held,
               max(at) AS at
          FROM known WHERE own AND kind IN ('settle', 'cancel') GROUP BY subject, kind
    ), by_award AS (
        SELECT award, kind, count(*) AS payments, min(slot) AS first, max(slot) AS last, sum(earned)::bigint AS amount,
               min(at) AS at
          FROM known WHERE earned IS NOT NULL AND kind IN ('settle', 'cancel') GROUP BY award, kind
    ), kinds AS (
        SELECT array_agg(kind ORDER BY kind) AS kind, array_agg(payments ORDER BY kind) AS payments,
               array_agg(available ORDER BY kind) AS available, array_agg(held ORDER BY kind) AS held,
               array_agg(earned ORDER BY kind) AS earned
          FROM by_kind
    ), outgoing AS (
        SELECT array_agg(subject ORDER BY subject, kind) AS subject, array_agg(kind ORDER BY subject, kind) AS kind,
               array_agg(payments ORDER BY subject, kind) AS payments,
               array_agg(available ORDER BY subject, kind) AS available, array_agg(held ORDER BY subject, kind) AS held,
               array_agg(at ORDER BY subject, kind) AS at
          FROM by_subject
    ), unpaid AS (
        SELECT array_agg(subject ORDER BY subject) AS subject
          FROM (SELECT subject FROM known WHERE own EXCEPT SELECT subject FROM by_subject) AS s
    ), incoming AS (
        SELECT array_agg(award ORDER BY award, kind) AS award, array_agg(kind ORDER BY award, kind) AS kind,
               array_agg(payments ORDER BY award, kind) AS payments, array_agg(first ORDER BY award, kind) AS first,
               array_agg(last ORDER BY award, kind) AS last, array_agg(amount ORDER BY award, kind) AS amount,
               array_agg(at ORDER BY award, kind) AS at
          FROM by_award
    )
    SELECT tenant, (low AT TIME ZONE 'UTC')::date, (SELECT coalesce(sum(entries), 0)::bigint FROM moved),
           coalesce(k.kind, '{}'), coalesce(k.payments, '{}'), coalesce(k.available, '{}'), coalesce(k.held, '{}'),
           coalesce(k.earned, '{}'),
           coalesce(o.subject, '{}'), coalesce(o.kind, '{}'), coalesce(o.payments, '{}'), coalesce(o.available, '{}'),
           coalesce(o.held, '{}'), coalesce(o.at, '{}'), coalesce(u.subject, '{}'),
           coalesce(i.award, '{}'), coalesce(i.kind, '{}'), coalesce(i.payments, '{}'), coalesce(i.first, '{}'),
           coalesce(i.last, '{}'), coalesce(i.amount, '{}'), coalesce(i.at, '{}')
      FROM kinds k, outgoing o, unpaid u, incoming i
$$;

CREATE FUNCTION ledger_sheet_of_day(tenant bigint, day date) RETURNS ledger_daysheet LANGUAGE sql STABLE AS $$
    SELECT ledger_sheet(tenant, day::timestamp AT TIME ZONE 'UTC', (day + 1)::timestamp AT TIME ZONE 'UTC')
$$;

-- Whatever is written into a sheet, it holds what the book says. It may be thrown away: then the book is read.
CREATE FUNCTION ledger_daysheet_fill() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RETURN ledger_sheet_of_day(NEW.tenant_id, NEW.day);
END $$;

CREATE TRIGGER ledger_daysheet_fills BEFORE INSERT OR UPDATE ON ledger_daysheet
    FOR EACH ROW EXECUTE FUNCTION ledger_daysheet_fill();
