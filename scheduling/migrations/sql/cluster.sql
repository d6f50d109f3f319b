-- The rules of the cluster that Django cannot declare. They hold for raw SQL too.

-- A policy says its name. (A missing key is NULL, which a check lets pass, hence coalesce.)
ALTER TABLE scheduling_pool
    ADD CONSTRAINT pool_batch_policy_named CHECK (coalesce(jsonb_typeof(batch_policy -> 'name'), '') = 'string'),
    ADD CONSTRAINT pool_instant_policy_named CHECK (
        instant_policy IS NULL OR coalesce(jsonb_typeof(instant_policy -> 'name'), '') = 'string');

-- One pool: a capacity's server and resource are of the pool that the capacity names.
ALTER TABLE scheduling_servercapacity
    ADD CONSTRAINT capacity_server_in_pool FOREIGN KEY (server_id, pool_id)
        REFERENCES scheduling_server (id, pool_id) DEFERRABLE INITIALLY DEFERRED,
    ADD CONSTRAINT capacity_resource_in_pool FOREIGN KEY (resource_id, pool_id)
        REFERENCES scheduling_resourcekind (id, pool_id) DEFERRABLE INITIALLY DEFERRED;

-- A cell lies on a capacity, so it is of one pool too, and a capacity with cells cannot go away.
ALTER TABLE scheduling_cell
    ADD CONSTRAINT cell_on_capacity FOREIGN KEY (server_id, resource_id)
        REFERENCES scheduling_servercapacity (server_id, resource_id) DEFERRABLE INITIALLY DEFERRED;

-- The cells of a server and a resource sum to at most its capacity, once the transaction commits.
--
-- Two transactions that each add a cell cannot see each other's. So the check takes the capacity row first: the
-- second one waits there, and the sum it then reads contains what the first one committed. The row is taken by
-- an update of nothing rather than by FOR UPDATE, because under REPEATABLE READ the second one would go on with
-- its old view of the cells; an updated row makes it fail instead.
CREATE FUNCTION scheduling_cells_within_capacity() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    capacity bigint;
    taken bigint;
BEGIN
    UPDATE scheduling_servercapacity SET units = units
        WHERE server_id = NEW.server_id AND resource_id = NEW.resource_id
        RETURNING units INTO capacity;
    SELECT coalesce(sum(units), 0) INTO taken FROM scheduling_cell
        WHERE server_id = NEW.server_id AND resource_id = NEW.resource_id;
    IF taken > coalesce(capacity, 0) THEN
        RAISE EXCEPTION 'cells take % of % units of resource % on server %',
            taken, coalesce(capacity, 0), NEW.resource_id, NEW.server_id
            USING ERRCODE = 'check_violation', CONSTRAINT = 'cells_within_capacity';
    END IF;
    RETURN NULL;
END $$;

CREATE CONSTRAINT TRIGGER cells_within_capacity
    AFTER INSERT OR UPDATE ON scheduling_cell DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION scheduling_cells_within_capacity();

-- Only a smaller capacity can break the rule; the update of nothing above does not come back here.
CREATE CONSTRAINT TRIGGER capacity_covers_cells
    AFTER UPDATE ON scheduling_servercapacity DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.units < OLD.units) EXECUTE FUNCTION scheduling_cells_within_capacity();
