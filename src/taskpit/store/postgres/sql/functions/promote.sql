-- Make those of these waiting tasks ready that nothing holds any more. Return their number.
CREATE OR REPLACE FUNCTION {s}.promote(p_ids text[], p_now float8) RETURNS int LANGUAGE plpgsql AS $$
DECLARE moved int; small bytea; large bytea;
BEGIN
    WITH free AS (
        DELETE FROM {s}.waiting w WHERE w.id = ANY (p_ids) AND NOT w.held AND NOT w.blocked AND w.due <= p_now
            AND w.lane IS NULL RETURNING w.*),
    ready AS (
        INSERT INTO {s}.ready (big, key, id, tags, touches, limits, mark)
            SELECT f.big, f.key, f.id, f.tags, f.touches, f.limits, f.mark FROM free f RETURNING big, key),
    tagged AS (
        INSERT INTO {s}.ready_tag (tag, big, key)
            SELECT DISTINCT x.tag, f.big, f.key FROM free f, unnest(f.tags) x(tag))
    SELECT count(*), (array_agg(r.key ORDER BY r.key) FILTER (WHERE NOT r.big))[1],
           (array_agg(r.key ORDER BY r.key) FILTER (WHERE r.big))[1] FROM ready r INTO moved, small, large;
    IF small IS NOT NULL THEN
        PERFORM {s}.lower_floor(false, small);
    END IF;
    IF large IS NOT NULL THEN
        PERFORM {s}.lower_floor(true, large);
    END IF;
    RETURN moved;
END $$;
