-- Lease one task by its id: ready or, if p_want says even_held, waiting.
CREATE OR REPLACE FUNCTION {s}.grant_one(p_id text, p_want jsonb, p_tags text[], p_bigs boolean[], p_now float8) RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE one {s}.ready; even boolean := (p_want ->> 'even_held')::boolean; moved {s}.waiting;
BEGIN
    SELECT w.* INTO moved FROM {s}.waiting w WHERE w.id = p_id;
    IF moved.lane IS NULL AND moved.id IS NULL THEN
        SELECT r.* INTO one FROM {s}.ready r WHERE r.big = false AND r.key = (SELECT t.key FROM {s}.task t WHERE t.id = p_id);
        IF NOT FOUND THEN
            SELECT r.* INTO one FROM {s}.ready r WHERE r.big = true AND r.key = (SELECT t.key FROM {s}.task t WHERE t.id = p_id);
        END IF;
    END IF;
    IF moved.lane IS NOT NULL OR one.touches IS NOT NULL OR one.limits IS NOT NULL THEN
        PERFORM {s}.one_by_one();  -- before any row lock: otherwise two transactions could wait for each other
    END IF;
    IF even THEN  -- bring it to where the others are taken from; only this transaction ever sees it there
        SELECT w.* INTO moved FROM {s}.waiting w WHERE w.id = p_id FOR UPDATE;
        IF FOUND THEN
            DELETE FROM {s}.waiting w WHERE w.id = p_id;
            DELETE FROM {s}.need n WHERE n.id = p_id;
            INSERT INTO {s}.ready (big, key, id, tags, touches, limits, mark)
                VALUES (moved.big, moved.key, moved.id, NULL, moved.touches, moved.limits, moved.mark);
        END IF;
    ELSIF moved.lane IS NOT NULL AND {s}.is_free(moved.touches, moved.limits, p_want, p_now) THEN
        UPDATE {s}.waiting w SET lane = NULL WHERE w.id = p_id AND w.lane IS NOT NULL;
        PERFORM {s}.promote(ARRAY[p_id], p_now);
    END IF;
    SELECT r.* INTO one FROM {s}.ready r
        WHERE r.big = false AND r.key = (SELECT t.key FROM {s}.task t WHERE t.id = p_id) FOR UPDATE OF r;
    IF NOT FOUND THEN
        SELECT r.* INTO one FROM {s}.ready r
            WHERE r.big = true AND r.key = (SELECT t.key FROM {s}.task t WHERE t.id = p_id) FOR UPDATE OF r;
    END IF;
    IF NOT FOUND OR NOT (one.big = ANY (p_bigs)) OR NOT coalesce(p_tags IS NULL OR one.tags && p_tags, false) THEN
        RETURN NULL;
    END IF;
    IF (one.touches IS NOT NULL OR one.limits IS NOT NULL) AND NOT even THEN
        PERFORM {s}.one_by_one();
        IF NOT {s}.is_free(one.touches, one.limits, p_want, p_now) THEN
            RETURN NULL;
        END IF;
    END IF;
    RETURN {s}.grant_ready(ARRAY[one.key], p_want, p_now);
END $$;
