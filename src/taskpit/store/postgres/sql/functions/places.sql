-- List ids after a place in the order of one state: r(eady), c(laimed), f(ailed) or d(one).
CREATE OR REPLACE FUNCTION {s}.places(p_state text, p_after bytea, p_limit int) RETURNS TABLE (id text, key bytea) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    IF p_state = 'r' THEN
        RETURN QUERY SELECT x.id, x.key FROM (
            (SELECT r.id, r.key FROM {s}.ready r WHERE r.big = false AND r.key > p_after ORDER BY r.key LIMIT p_limit)
            UNION ALL
            (SELECT r.id, r.key FROM {s}.ready r WHERE r.big = true AND r.key > p_after ORDER BY r.key LIMIT p_limit)
            UNION ALL
            (SELECT w.id, w.key FROM {s}.waiting w WHERE w.key > p_after ORDER BY w.key LIMIT p_limit)) x
            ORDER BY x.key LIMIT p_limit;
    ELSIF p_state = 'c' THEN
        RETURN QUERY SELECT l.id, l.key FROM {s}.lease l WHERE l.key > p_after ORDER BY l.key LIMIT p_limit;
    ELSIF p_state = 'd' THEN
        RETURN QUERY SELECT t.id, t.key FROM {s}.task t
            WHERE t.state = 'd' AND t.key > p_after ORDER BY t.state, t.key LIMIT p_limit;
    ELSE
        RETURN QUERY SELECT t.id, t.key FROM {s}.task t
            WHERE t.state = 'f' AND t.key > p_after ORDER BY t.state, t.key LIMIT p_limit;
    END IF;
END $$;
