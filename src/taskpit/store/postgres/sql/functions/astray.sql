-- Find states that a manual change can leave and no verb does: the id, the kind, and the text of a task that is nowhere.
CREATE OR REPLACE FUNCTION {s}.astray() RETURNS TABLE (id text, kind text, doc text) LANGUAGE plpgsql STABLE
SET jit = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY SELECT t.id, 'stray task', t.doc FROM {s}.task t
        WHERE t.state = 'o' AND NOT EXISTS (SELECT 1 FROM {s}.lease l WHERE l.id = t.id)
              AND NOT EXISTS (SELECT 1 FROM {s}.waiting w WHERE w.id = t.id)
              AND NOT EXISTS (SELECT 1 FROM {s}.ready r WHERE r.key = t.key AND r.id = t.id AND r.big IN (false, true))
    UNION ALL
    SELECT w.id, 'waits for nothing', NULL FROM {s}.waiting w
        WHERE w.blocked AND NOT EXISTS (
            SELECT 1 FROM {s}.need n JOIN {s}.task t ON t.id = n.on_id WHERE n.id = w.id AND t.state <> 'd')
    UNION ALL
    SELECT x.id, 'no such task', NULL FROM (
            SELECT r.id FROM {s}.ready r UNION SELECT w.id FROM {s}.waiting w UNION SELECT l.id FROM {s}.lease l) x
        WHERE NOT EXISTS (SELECT 1 FROM {s}.task t WHERE t.id = x.id AND t.state = 'o')
    UNION ALL
    SELECT r.id, 'not under its tags', NULL FROM {s}.ready r
        WHERE EXISTS (SELECT 1 FROM unnest(r.tags) x(tag)
            WHERE NOT EXISTS (SELECT 1 FROM {s}.ready_tag g WHERE g.tag = x.tag AND g.big = r.big AND g.key = r.key))
    UNION ALL
    SELECT w.id, 'stands aside', NULL FROM {s}.waiting w LEFT JOIN {s}.lane x ON x.lane = w.lane
        WHERE w.lane IS NOT NULL AND CASE
            WHEN x.lane IS NULL THEN w.lane NOT IN (
                SELECT {s}.lane_of(r.big, r.tags, r.touches, r.limits) FROM {s}.ready r
                WHERE r.touches IS NOT NULL OR r.limits IS NOT NULL)
            WHEN x.blocker LIKE '=%' THEN NOT EXISTS (
                SELECT 1 FROM {s}.lease l, unnest(l.limits) y(word) WHERE '=' || split_part(y.word, '=', 1) = x.blocker)
            ELSE x.blocker <> '' AND NOT EXISTS (SELECT 1 FROM {s}.lease l WHERE l.id = x.blocker) END
    UNION ALL
    SELECT 'the tally', 'miscounted', NULL
        WHERE (SELECT (coalesce(sum(x.open), 0)::bigint, coalesce(sum(x.done), 0)::bigint, coalesce(sum(x.failed), 0)::bigint)
               FROM {s}.tally x)
            <> (SELECT (count(*) FILTER (WHERE t.state = 'o'), count(*) FILTER (WHERE t.state = 'd'),
                        count(*) FILTER (WHERE t.state = 'f')) FROM {s}.task t);
END $$;
