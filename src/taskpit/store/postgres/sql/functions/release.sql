-- Make tasks ready that needed only these done ones. This runs in a statement of its own after the one that ended them,
-- so that it sees tasks which came to need them in the meantime.
CREATE OR REPLACE FUNCTION {s}.release(p_done text[], p_now float8) RETURNS int LANGUAGE plpgsql AS $$
DECLARE ids text[];
BEGIN
    ids := ARRAY(SELECT DISTINCT n.id FROM {s}.need n WHERE n.on_id = ANY (p_done));
    IF ids = '{}' THEN
        RETURN 0;
    END IF;
    PERFORM 1 FROM {s}.waiting w WHERE w.id = ANY (ids) ORDER BY w.id FOR UPDATE;
    DELETE FROM {s}.need n WHERE n.on_id = ANY (p_done);
    UPDATE {s}.waiting w SET blocked = false
        WHERE w.id = ANY (ids) AND w.blocked AND (SELECT true FROM {s}.need n WHERE n.id = w.id LIMIT 1) IS NULL;
    RETURN {s}.promote(ids, p_now);
END $$;
