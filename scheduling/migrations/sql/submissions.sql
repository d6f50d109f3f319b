-- What a submission asks, in functions: the database then plans their statements once for each connection, which takes
-- it longer than answering them.

-- A pool as its frame is made of: who reads the same text again has the same rows, so they come in order.
CREATE FUNCTION scheduling_pool_text(wanted bigint) RETURNS text LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN json_build_object(
        'resources', (SELECT json_agg(json_build_array(id, name) ORDER BY id)
                        FROM scheduling_resourcekind WHERE pool_id = wanted),
        'servers', (SELECT json_agg(json_build_array(id, state, hosts_workers, hosts_ps) ORDER BY id)
                      FROM scheduling_server WHERE pool_id = wanted),
        'stock', (SELECT json_agg(json_build_array(resource_id, server_id, units) ORDER BY server_id, resource_id)
                    FROM scheduling_servercapacity WHERE pool_id = wanted),
        'cells', (SELECT json_agg(json_build_array(c.resource_id, c.tenant_id, c.server_id, c.units)
                                  ORDER BY c.server_id, c.resource_id, c.tenant_id)
                    FROM scheduling_cell c JOIN scheduling_server s ON s.id = c.server_id
                   WHERE s.pool_id = wanted),
        'sharing', (SELECT json_agg(json_build_array(tenant_id, rent, budget, lend, reserve_price, plan)
                                    ORDER BY tenant_id)
                      FROM scheduling_tenantpolicy WHERE pool_id = wanted));
END $$;

-- What new jobs of a tenant meet in a pool, and where `fitting` the pool's text. `prices_from`: the first slot whose
-- posted prices count.
CREATE FUNCTION scheduling_intake(
    pool bigint, tenant bigint, prices_from bigint, fitting boolean, OUT met text, OUT pool_text text
) LANGUAGE plpgsql STABLE AS $$
BEGIN
    met := json_build_object(
        'frontier', (SELECT frontier FROM scheduling_laneclock WHERE pool_id = pool AND lane = 'batch'),
        'draining', EXISTS(SELECT FROM scheduling_laneclock WHERE pool_id = pool AND draining),
        'resources', (SELECT json_agg(json_build_array(id, name, least::text, step::text) ORDER BY id)
                        FROM scheduling_resourcekind WHERE pool_id = pool),
        'rent_budget', (SELECT budget FROM scheduling_tenantpolicy WHERE pool_id = pool AND tenant_id = tenant),
        'any_budget', EXISTS(SELECT FROM scheduling_budget WHERE tenant_id = tenant),
        'posted', (SELECT json_agg(json_build_array(resource_id, dearest))
                     FROM (SELECT resource_id, max(price) AS dearest FROM scheduling_pricetick
                            WHERE pool_id = pool AND lane = 'batch' AND slot >= prices_from AND price IS NOT NULL
                            GROUP BY resource_id) AS posted));
    IF fitting THEN
        pool_text := scheduling_pool_text(pool);
    END IF;
END $$;

-- The job that a client's key has made already, of which there is one at most. Until the transaction ends, whoever else
-- comes with the key waits, and then finds that job.
CREATE FUNCTION scheduling_client_key(tenant bigint, said text) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended(said, tenant));
    RETURN (SELECT id FROM scheduling_trainingjob WHERE tenant_id = tenant AND client_key = said);
END $$;
