-- Thirty days of a market, written behind the rules' back (session_replication_role = replica) but as they would have
-- it: every transaction sums to nothing and carries its digest, and balances and day totals are those of the entries.
-- Settings in `bench.`: jobs, servers, pool, epoch, slot_seconds, slots (that have passed), person, spec.

SET session_replication_role = replica;
SET work_mem = '256MB';

CREATE TEMP TABLE market AS
SELECT current_setting('bench.jobs')::int AS jobs, current_setting('bench.pool')::bigint AS pool,
       current_setting('bench.epoch')::timestamptz AS epoch, current_setting('bench.slot_seconds')::float8 AS seconds,
       current_setting('bench.slots')::bigint AS slots, current_setting('bench.person')::bigint AS person;
CREATE TEMP TABLE member_tenant AS
SELECT id, row_number() OVER (ORDER BY id) - 1 AS place, count(*) OVER () AS tenants FROM tenants_tenant;

-- Two owners hold most of each server, the operator the rest.
INSERT INTO scheduling_server (pool_id, name, hosts_workers, hosts_ps, state)
SELECT m.pool, 'n' || lpad(n::text, 4, '0'), true, true,
       CASE WHEN n % 100 = 7 THEN 'draining' WHEN n % 250 = 11 THEN 'lost' ELSE 'in_service' END
  FROM market m, generate_series(0, current_setting('bench.servers')::int - 1) AS n ORDER BY n;
INSERT INTO scheduling_servercapacity (pool_id, server_id, resource_id, units)
SELECT s.pool_id, s.id, r.id, 8
  FROM scheduling_server s JOIN scheduling_resourcekind r ON r.pool_id = s.pool_id ORDER BY s.id, r.id;
INSERT INTO scheduling_cell (tenant_id, server_id, resource_id, units)
SELECT t.id, s.id, r.id, CASE r.name WHEN 'worker' THEN 3 ELSE 2 END
  FROM scheduling_server s JOIN scheduling_resourcekind r ON r.pool_id = s.pool_id
  CROSS JOIN generate_series(0, 1) AS second
  JOIN member_tenant t ON t.place = (3 * right(s.name, 4)::int + second) % t.tenants ORDER BY s.id, r.id, t.id;

CREATE TEMP TABLE home AS
SELECT s.id AS server, row_number() OVER (ORDER BY s.id) - 1 AS place,
       (SELECT array_agg(DISTINCT c.tenant_id) FROM scheduling_cell c WHERE c.server_id = s.id) AS owners
  FROM scheduling_server s;

-- One job: whose (the first tenant has a tenth of all), when, what came of it, on which server, at what price a slot.
CREATE TEMP TABLE asked AS
SELECT i AS id, t.id AS tenant, h.server, h.owners,
       m.epoch + (m.slots - 10) * m.seconds * i / m.jobs * interval '1 second' AS submitted_at,
       (m.slots - 10) * i::float8 / m.jobs AS arrival,
       ceil((m.slots - 10) * i::float8 / m.jobs)::bigint + 1 AS start,
       2 + i % 3 AS length,
       (ARRAY['finished','rejected','cancelled','expired'])[CASE i % 100 WHEN 13 THEN 2 WHEN 14 THEN 2 WHEN 15 THEN 2
           WHEN 16 THEN 3 WHEN 17 THEN 3 WHEN 18 THEN 3 WHEN 19 THEN 4 WHEN 21 THEN 4 WHEN 22 THEN 4 ELSE 1 END] AS state,
       100000 + i % 97 * 1000 AS price
  FROM market m, generate_series(1, m.jobs) AS i
  JOIN member_tenant t ON t.place = CASE WHEN i % 10 = 0 THEN 0 ELSE 1 + i::bigint * 7919 % (t.tenants - 1) END
  JOIN home h ON h.place = i % (SELECT count(*) FROM home);
ANALYZE asked;

INSERT INTO scheduling_trainingjob
       (id, tenant_id, pool_id, name, lane, state, reason_code, reason_numbers, spec, submitted_at, submitted_by_id,
        arrival, client_key, request_digest, attempt, not_before, after, array_place, ended_at)
SELECT a.id, a.tenant, m.pool, 'train-' || a.id % 1000, CASE WHEN a.id % 3 = 0 THEN 'instant' ELSE 'batch' END, a.state,
       CASE a.state WHEN 'finished' THEN '' WHEN 'rejected' THEN 'no_room' WHEN 'cancelled' THEN 'cancelled'
                    ELSE 'worthless' END,
       '{}', current_setting('bench.spec')::jsonb, a.submitted_at, m.person, a.arrival, NULL, repeat('0', 64), 0, 0, '[]', 0,
       m.epoch + (a.start + a.length) * m.seconds * interval '1 second'
  FROM asked a, market m ORDER BY a.id;

-- An interval every two slots. Its input and answer are those of the first one that is decided afterwards.
INSERT INTO scheduling_interval
       (pool_id, number, slot, window_start, window_end, decided_at, code_version, policy, view, plan, windows,
        previous, digest, jobs_waiting, jobs_awarded, paid)
SELECT m.pool, n, 2 * (n - 1), 2 * (n - 1), 2 * n, m.epoch + 2 * (n - 1) * m.seconds * interval '1 second', 'bench',
       '\x', '\x', '\x', '\x', lpad((n - 1)::text, 64, '0'), lpad(n::text, 64, '0'), 140, 130, 30000000
  FROM market m, generate_series(1, m.slots / 2 - 1) AS n;

INSERT INTO scheduling_award
       (id, tenant_id, job_id, attempt, pool_id, lane, interval_id, awarded_at, state, phase, placement, start, "end",
        workers, ps, worker_type, ps_type, allocation, on_operator, value, floor, cost, paid, charges, cut_at, returned)
SELECT a.id, a.tenant, a.id, 0, m.pool, j.lane, i.id, a.submitted_at, 'done', 'shared', '', a.start, a.start + a.length,
       4, 1, 0, 0, jsonb_build_array(jsonb_build_array(a.server, a.start, a.start + a.length, 4, 1)), '[]', 100, 90, 1,
       a.price * a.length,
       (SELECT jsonb_agg(jsonb_build_array(jsonb_build_array(a.owners[1], a.price * 45 / 100),
                                           jsonb_build_array(a.owners[2], a.price * 45 / 100),
                                           jsonb_build_array(slot * 0, a.price - a.price * 45 / 100 * 2)))
          FROM generate_series(1, a.length) AS slot),
       NULL, 0
  FROM asked a JOIN scheduling_trainingjob j ON j.id = a.id CROSS JOIN market m
  LEFT JOIN scheduling_interval i ON i.pool_id = m.pool AND i.number = a.start / 2 + 1
 WHERE a.state = 'finished' ORDER BY a.id;

INSERT INTO scheduling_jobfloor
       (tenant_id, job_id, attempt, interval_id, value, start, "end", worker_type, ps_type, allocation)
SELECT tenant_id, job_id, 0, interval_id, 90, start, "end", 0, 0, allocation
  FROM scheduling_award WHERE lane = 'batch' AND interval_id IS NOT NULL ORDER BY id;

INSERT INTO scheduling_startestimate
       (tenant_id, job_id, made_at, earliest, latest, price_low, price_high, started, paid)
SELECT tenant_id, job_id, awarded_at, start, "end", paid / 2, paid, start, paid
  FROM scheduling_award WHERE id % 3 = 1 ORDER BY id;

INSERT INTO scheduling_event (pool_id, tenant_id, kind, subject, at, data)
SELECT m.pool, a.tenant_id, kind, 'job:' || a.job_id, a.awarded_at, jsonb_build_object('slot', a.start)
  FROM scheduling_award a, market m, unnest(ARRAY['job_awarded', 'job_finished']) AS kind ORDER BY a.id;

INSERT INTO scheduling_pricetick (pool_id, lane, resource_id, slot, price, offered, sold)
SELECT m.pool, lane, r.id, slot, 0.05 + slot % 50 / 100.0, 64, 32
  FROM market m, scheduling_resourcekind r, unnest(ARRAY['batch', 'instant']) AS lane,
       generate_series(0, m.slots - 1) AS slot;

-- ---------------------------------------------------------------- fairness
INSERT INTO scheduling_intervalfairness
       (interval_id, pool_id, number, decided_at, with_floors, revenue, ratio_variance, jain_index, reward_dispersion, worst_off,
        certificates, broken_count, broken, renters, top_prices, unsold, waiting_for)
SELECT i.id, i.pool_id, i.number, i.decided_at, true, 30, 0.01, 0.97, 0.1, (SELECT min(id) FROM tenants_tenant), 4, 0, '[]', 20,
       '{"worker": 0.4, "ps": 0.2}', '{"worker": 900, "ps": 400}', '{"no_room": 3, "worthless": 2}'
  FROM scheduling_interval i ORDER BY i.number;

INSERT INTO scheduling_tenantfairness
       (tenant_id, fairness_id, pool_id, number, own_value, rented_value, paid, received, gain, alone, share, ratio,
        earned, contributed, reward, offered, sold, kept, forgone, rent_saved, waiting)
SELECT t.id, f.id, f.pool_id, f.number, 60 + t.id % 9, 20, 4, 3, 80 + t.id % 9, 70, 0.03, 1.1, 3, 200, 0.015,
       '{"worker": 60, "ps": 20}', '{"worker": 30, "ps": 10}', '{"worker": 10, "ps": 5}', 1, 2, 3
  FROM scheduling_intervalfairness f, tenants_tenant t ORDER BY f.number, t.id;

INSERT INTO scheduling_poolday
       (pool_id, day, first_number, last_number, intervals, revenue, certificates, broken, broken_intervals, with_renters,
        one_bidder, price_jumps, waiting, idle_beside_waiting, waiting_for, unsold, highest)
SELECT pool_id, (decided_at AT TIME ZONE 'UTC')::date AS day, min(number), max(number), count(*), sum(revenue), 96, 0, 0,
       20, 1, 2, 40, 3, '{"no_room": 70, "worthless": 40}', '{"worker": 20000, "ps": 9000}', '{"worker": 0.5, "ps": 0.3}'
  FROM scheduling_intervalfairness GROUP BY 1, 2;

INSERT INTO scheduling_tenantday
       (tenant_id, pool_id, day, own_value, rented_value, paid, received, gain, alone, even, earned, contributed, forgone,
        rent_saved, waiting, broken, offered, sold, kept)
SELECT t.id, d.pool_id, d.day, 1500, 480, 96, 72, 1980, 1700, 1600, 72, 4800, 24, 48, 12, 0, '{"worker": 1440, "ps": 480}',
       '{"worker": 720, "ps": 240}', '{"worker": 240, "ps": 120}'
  FROM scheduling_poolday d, tenants_tenant t ORDER BY d.day, t.id;

-- ---------------------------------------------------------------- the book
CREATE TEMP TABLE posting AS
SELECT row_number() OVER (ORDER BY at, key) + (SELECT max(id) FROM ledger_transaction) AS id, p.*
  FROM (
    SELECT 'award:' || id AS key, 'hold' AS kind, 'job:' || job_id AS subject, awarded_at AS at,
           jsonb_build_object('award', id) AS facts,
           ARRAY[8 * tenant_id, 8 * tenant_id + 1] AS accounts, ARRAY[-paid, paid] AS amounts
      FROM scheduling_award
    UNION ALL
    SELECT 'settle:' || m.pool || ':' || slot || ':' || a.id, 'settle', 'job:' || a.id,
           m.epoch + (slot + 1) * m.seconds * interval '1 second', jsonb_build_object('slot', slot, 'award', a.id),
           ARRAY[8 * a.tenant + 1, 8 * a.owners[1] + 2, 8 * a.owners[2] + 2, 1],
           ARRAY[-a.price, a.price * 45 / 100, a.price * 45 / 100, a.price - a.price * 45 / 100 * 2]
      FROM asked a CROSS JOIN market m CROSS JOIN generate_series(a.start, a.start + a.length - 1) AS slot
     WHERE a.state = 'finished') AS p;

INSERT INTO ledger_transaction (id, key, kind, subject, occurred_at, corrects_id, facts, entry_count, digest)
SELECT id, key, kind, subject, at, NULL, facts, cardinality(accounts),
       ledger_digest(key, kind, subject, at, NULL, facts,
           (SELECT string_agg(ledger_line(account, amount), ', ' ORDER BY line)
              FROM unnest(accounts, amounts) WITH ORDINALITY AS l (account, amount, line)))
  FROM posting ORDER BY id;

INSERT INTO ledger_entry (transaction_id, line, account_id, amount, occurred_at)
SELECT p.id, l.line - 1, l.account, l.amount, p.at
  FROM posting p, unnest(p.accounts, p.amounts) WITH ORDINALITY AS l (account, amount, line) ORDER BY p.id, l.line;

INSERT INTO ledger_daytotal AS t (account_id, day, stripe, amount, entry_count)
SELECT l.account, (p.at AT TIME ZONE 'UTC')::date, 0, sum(l.amount), count(*)
  FROM posting p, unnest(p.accounts, p.amounts) AS l (account, amount) GROUP BY 1, 2
ON CONFLICT (account_id, day, stripe)
DO UPDATE SET amount = t.amount + excluded.amount, entry_count = t.entry_count + excluded.entry_count;

UPDATE ledger_balance b SET amount = b.amount + s.amount, entry_count = b.entry_count + s.entries
  FROM (SELECT l.account, sum(l.amount) AS amount, count(*) AS entries
          FROM posting p, unnest(p.accounts, p.amounts) AS l (account, amount) GROUP BY 1) AS s
 WHERE b.account_id = s.account AND b.stripe = 0;

SELECT setval(pg_get_serial_sequence('scheduling_trainingjob', 'id'), (SELECT max(id) FROM scheduling_trainingjob));
SELECT setval(pg_get_serial_sequence('scheduling_award', 'id'), (SELECT max(id) FROM scheduling_award));
SELECT setval(pg_get_serial_sequence('ledger_transaction', 'id'), (SELECT max(id) FROM ledger_transaction));
UPDATE scheduling_laneclock SET decided_slot = m.slots - 2, settled_slot = m.slots - 2, frontier = m.slots - 1,
       head = (SELECT digest FROM scheduling_interval ORDER BY number DESC LIMIT 1)
  FROM market m WHERE pool_id = m.pool;
