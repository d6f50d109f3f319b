-- A seal says where the other chains end, and the end of the seals' own chain stands in a row of its own.

DROP FUNCTION ledger_seal_digest(bytea, bigint, timestamptz, bytea);

-- Tamper evidence: what a block holds, where the other chains ended and which block it follows is under its digest.
CREATE FUNCTION ledger_seal_digest(
    previous bytea, number bigint, sealed_at timestamptz, members bytea, heads jsonb
) RETURNS bytea LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT sha256(coalesce(previous, '') || int8send(number)
        || int8send((extract(epoch FROM sealed_at - timestamptz '1970-01-01 00:00:00+00') * 1000000)::bigint) || members
        || coalesce(sha256(convert_to(heads::text, 'UTF8')), ''))
$$;

CREATE FUNCTION ledger_seal_move_head() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO ledger_sealhead (id, number, digest) VALUES (1, NEW.number, NEW.digest)
    ON CONFLICT (id) DO UPDATE SET number = excluded.number, digest = excluded.digest;
    RETURN NULL;
END $$;

INSERT INTO ledger_sealhead (id, number, digest)
SELECT 1, number, digest FROM ledger_seal ORDER BY number DESC LIMIT 1;
