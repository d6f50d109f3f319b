-- Settings in `bench.`: pool, servers, awards, slots, at, spec. On each server one tenant has 16 of 24 workers and as many
-- parameter servers; each award takes one of both at home, from the first slot to one of the later ones.
INSERT INTO scheduling_server (pool_id, name, hosts_workers, hosts_ps, state)
SELECT current_setting('bench.pool')::bigint, 's' || lpad(n::text, 4, '0'), true, true, 'in_service'
  FROM generate_series(1, current_setting('bench.servers')::int) AS n ORDER BY n;
INSERT INTO scheduling_servercapacity (pool_id, server_id, resource_id, units)
SELECT s.pool_id, s.id, r.id, 24 FROM scheduling_server s JOIN scheduling_resourcekind r USING (pool_id);
INSERT INTO scheduling_cell (tenant_id, server_id, resource_id, units)
SELECT t.id, s.id, r.id, 16
  FROM (SELECT id, pool_id, row_number() OVER (ORDER BY id) - 1 AS place FROM scheduling_server) AS s
  JOIN scheduling_resourcekind r USING (pool_id)
  JOIN (SELECT id, row_number() OVER (ORDER BY id) - 1 AS place, count(*) OVER () AS tenants FROM tenants_tenant) AS t
    ON t.place = s.place % t.tenants;
WITH held AS MATERIALIZED (
    SELECT 1000000 + n AS id,  -- the numbers of the sequence are for those that come
           c.tenant_id AS owner, c.server_id AS server,
           n % 4 = 0 AS own, 0 AS start, 8 + n / 7 % (current_setting('bench.slots')::int - 8) AS over, t.id AS renter
      FROM generate_series(1, current_setting('bench.awards')::int) AS n
      JOIN (SELECT tenant_id, server_id, row_number() OVER (ORDER BY server_id) AS place FROM scheduling_cell
             WHERE resource_id = (SELECT min(id) FROM scheduling_resourcekind)) AS c
        ON c.place = 1 + n % current_setting('bench.servers')::int
      JOIN (SELECT id, row_number() OVER (ORDER BY id) - 1 AS place, count(*) OVER () AS tenants FROM tenants_tenant) AS t
        ON t.place = n / 3 % t.tenants
     ORDER BY n),
jobs AS (
    INSERT INTO scheduling_trainingjob
           (id, tenant_id, pool_id, name, lane, state, reason_code, reason_numbers, spec, submitted_at, arrival,
            request_digest, attempt, not_before, after, array_place)
    SELECT id, CASE WHEN own THEN owner ELSE renter END, current_setting('bench.pool')::bigint, 'job', 'batch', 'running',
           '', '{}', current_setting('bench.spec')::jsonb, current_setting('bench.at')::timestamptz, 0, repeat('0', 64), 0, 0,
           '[]', 0
      FROM held),
awards AS (
    INSERT INTO scheduling_award
           (tenant_id, job_id, attempt, pool_id, lane, awarded_at, state, phase, placement, start, "end", workers, ps,
            worker_type, ps_type, allocation, on_operator, value, floor, cost, paid, charges, returned)
    SELECT CASE WHEN own THEN owner ELSE renter END, id, 0, current_setting('bench.pool')::bigint, 'batch',
           current_setting('bench.at')::timestamptz, 'running', CASE WHEN own THEN 'own' ELSE 'shared' END, '', start, over,
           1, 1, 0, 0, jsonb_build_array(jsonb_build_array(server, start, over, 1, 1)), '[]', 100, 90, 1, 0, '[]', 0
      FROM held)
INSERT INTO scheduling_calendarcell (server_id, resource_id, part, slot, pool_id, capacity, batch, instant)
SELECT h.server, r.id, 'home', slot, r.pool_id, 16, count(*), 0
  FROM held h CROSS JOIN scheduling_resourcekind r CROSS JOIN generate_series(h.start, h.over - 1) AS slot
 GROUP BY 1, 2, 4, 5;
