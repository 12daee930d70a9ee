-- Append a piece to the log of a claim, at this byte. Return the length of the log, or NULL if the claim has ended.
CREATE OR REPLACE FUNCTION {s}.add_log(p_id text, p_fence text, p_start bigint, p_data bytea, p_now float8) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE have bigint;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);  -- a piece that a crash loses is sent again
    PERFORM 1 FROM {s}.lease l WHERE l.id = p_id AND l.fence = p_fence;
    IF NOT FOUND THEN
        RETURN NULL;
    ELSIF p_start = 0 AND p_data = '' THEN
        DELETE FROM {s}.printed p WHERE p.id = p_id AND p.fence = p_fence;
        RETURN 0;
    END IF;
    SELECT p.start + length(p.data) INTO have FROM {s}.printed p
        WHERE p.id = p_id AND p.fence = p_fence ORDER BY p.start DESC LIMIT 1;
    have := coalesce(have, 0);
    IF p_start > have OR p_start + length(p_data) <= have THEN
        RETURN have;
    END IF;
    INSERT INTO {s}.printed (id, fence, start, at, data)
        VALUES (p_id, p_fence, have, {s}.time_of(p_now), substr(p_data, (have - p_start + 1)::int)) ON CONFLICT DO NOTHING;
    RETURN p_start + length(p_data);
END $$;
