-- Lock the best ready tasks after p_after. Each tag and size has an index entry of its own, so none is searched for.
CREATE OR REPLACE FUNCTION {s}.pick(p_count int, p_tags text[], p_bigs boolean[], p_after bytea, OUT keys bytea[], OUT alone boolean)
LANGUAGE plpgsql AS $$
BEGIN
    IF p_tags IS NULL THEN
        SELECT array_agg(h.key ORDER BY h.key), bool_or(h.alone) INTO keys, alone FROM (
            SELECT head.* FROM unnest(p_bigs) lane(big), LATERAL (
                SELECT r.key, r.touches IS NOT NULL OR r.limits IS NOT NULL AS alone FROM {s}.ready r
                WHERE r.big = lane.big AND r.key > p_after AND r.key >= {s}.floor_of(lane.big)
                ORDER BY r.key LIMIT p_count FOR UPDATE SKIP LOCKED) head
            ORDER BY head.key LIMIT p_count) h;
    ELSE
        SELECT array_agg(h.key ORDER BY h.key), bool_or(h.alone) INTO keys, alone FROM (
            SELECT DISTINCT ON (head.key) head.* FROM unnest(p_tags) wanted(tag), unnest(p_bigs) lane(big), LATERAL (
                SELECT one.key, one.alone FROM {s}.ready_tag g, LATERAL (
                    SELECT r.key, r.touches IS NOT NULL OR r.limits IS NOT NULL AS alone FROM {s}.ready r
                    WHERE r.big = g.big AND r.key = g.key FOR UPDATE SKIP LOCKED) one
                WHERE g.tag = wanted.tag AND g.big = lane.big AND g.key > p_after AND g.key >= {s}.floor_of(lane.big)
                ORDER BY g.key LIMIT p_count) head
            ORDER BY head.key LIMIT p_count) h;
    END IF;
END $$;
