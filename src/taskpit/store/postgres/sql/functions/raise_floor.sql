-- While an open transaction keeps many dead rows from being cleaned, claims begin at the first row that is ready now.
-- Return false if transactions are under way that make tasks ready: the next call tries again.
CREATE OR REPLACE FUNCTION {s}.raise_floor(p_many bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE w_dead bigint := pg_stat_get_dead_tuples('{q}.ready'::regclass); w_was bigint; w_big boolean; w_key bytea;
BEGIN
    SELECT max(f.dead) INTO w_was FROM {s}.floor f;
    IF (w_was IS NULL AND w_dead < p_many) OR (w_dead >= p_many AND w_dead BETWEEN w_was AND w_was + p_many / 2) THEN
        RETURN true;
    END IF;
    LOCK TABLE {s}.floor IN SHARE ROW EXCLUSIVE MODE NOWAIT;
    IF w_dead < p_many THEN
        DELETE FROM {s}.floor;
        RETURN true;
    END IF;
    FOREACH w_big IN ARRAY ARRAY[false, true] LOOP
        SELECT r.key INTO w_key FROM {s}.ready r
            WHERE r.big = w_big AND r.key >= {s}.floor_of(w_big) ORDER BY r.key LIMIT 1;
        IF NOT FOUND THEN
            w_key := '\xffffffffffffffffffffffffffffffff';
        END IF;
        INSERT INTO {s}.floor (big, key, dead) VALUES (w_big, w_key, w_dead)
            ON CONFLICT (big) DO UPDATE SET key = excluded.key, dead = excluded.dead;
    END LOOP;
    RETURN true;
EXCEPTION WHEN lock_not_available THEN
    RETURN false;
END $$;
