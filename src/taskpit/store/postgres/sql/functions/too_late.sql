-- Answer for an end whose claim no longer exists: repeated, or too late and kept aside. A judge's late end is dropped.
CREATE OR REPLACE FUNCTION {s}.too_late(p_id text, p_fence text, p_mark text, p_seen float8, p_verdict text, p_result text, p_attempt text,
    p_again boolean, p_now float8) RETURNS text LANGUAGE plpgsql AS $$
DECLARE known record; w_late text := coalesce(p_result, p_attempt);
BEGIN
    SELECT t.fence, t.verdict, t.mark, coalesce(
               (SELECT l.mark FROM {s}.lease l WHERE l.id = t.id), (SELECT w.mark FROM {s}.waiting w WHERE w.id = t.id),
               (SELECT r.mark FROM {s}.ready r WHERE r.big = false AND r.key = t.key),
               (SELECT r.mark FROM {s}.ready r WHERE r.big = true AND r.key = t.key)) AS hot INTO known
        FROM {s}.task t WHERE t.id = p_id AND t.state <> 'w';
    IF NOT FOUND THEN
        RETURN 'lost';
    END IF;
    IF (known.fence, known.verdict) = (p_fence, p_verdict) OR known.mark = p_mark OR known.hot = p_mark
       OR EXISTS (SELECT 1 FROM {s}.attempt a WHERE a.id = p_id AND a.doc = p_attempt) THEN
        RETURN CASE WHEN p_again THEN 'ok' ELSE 'already' END;  -- by the first asking, whose answer got lost
    END IF;
    IF p_seen IS NULL AND w_late IS NOT NULL AND NOT (p_again AND EXISTS (
        SELECT 1 FROM {s}.late l WHERE l.id = p_id AND l.fence = p_fence AND l.doc = w_late)) THEN
        INSERT INTO {s}.late (id, at, fence, doc) VALUES (p_id, p_now, p_fence, w_late);
        INSERT INTO {s}.event (at, worker, action, id) VALUES (p_now, p_fence, 'late_result', p_id);
    END IF;
    RETURN 'lost';
END $$;
