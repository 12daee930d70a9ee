-- Turn the pieces of a claim's log into a log. Return its number, or NULL if there were none.
CREATE OR REPLACE FUNCTION {s}.end_log(p_id text, p_fence text, p_worker text, p_now float8) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE w_all bytea; made bigint;
BEGIN
    SELECT string_agg(p.data, '' ORDER BY p.start) INTO w_all FROM {s}.printed p WHERE p.id = p_id AND p.fence = p_fence;
    IF w_all IS NOT NULL THEN
        INSERT INTO {s}.log (worker, at, data) VALUES (p_worker, {s}.time_of(p_now), w_all) RETURNING n INTO made;
        DELETE FROM {s}.printed p WHERE p.id = p_id AND p.fence = p_fence;
    END IF;
    RETURN made;
END $$;
