-- Let a lock last longer, if it is still the same.
CREATE OR REPLACE FUNCTION {s}.keep_lock(p_name text, p_holder text, p_number bigint, p_seconds float8, p_now float8) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE {s}.lock l SET expires = {s}.time_of(p_now) + p_seconds, seconds = p_seconds, graced = 0
        WHERE l.name = p_name AND l.holder = p_holder AND p_number IN (0, l.number);
    RETURN FOUND;
END $$;
