-- End one claim with a result and nothing else: what most ends are. `woke` is `ok` where other tasks became ready.
CREATE OR REPLACE FUNCTION {s}.finish_one(p_id text, p_fence text, p_mark text, p_seen float8, p_verdict text, p_result text,
    p_attempt text, p_action text, p_details text, p_again boolean, p_now float8) RETURNS text LANGUAGE plpgsql AS $$
DECLARE w_touches text[]; w_limits text[]; w_stopped boolean; w_needed boolean; woken int := 0;
BEGIN
    DELETE FROM {s}.lease l WHERE l.id = p_id AND l.fence = p_fence AND (p_seen IS NULL OR p_seen = l.until)
        RETURNING l.touches, l.limits INTO w_touches, w_limits;
    IF NOT FOUND THEN
        RETURN {s}.too_late(p_id, p_fence, p_mark, p_seen, p_verdict, p_result, p_attempt, p_again, p_now);
    END IF;
    IF p_attempt IS NOT NULL THEN
        INSERT INTO {s}.attempt (id, doc) VALUES (p_id, p_attempt);
    END IF;
    UPDATE {s}.task t SET state = CASE p_verdict WHEN 'done' THEN 'd' ELSE 'f' END::"char", result = p_result,
           fence = p_fence, verdict = p_verdict, mark = p_mark
        WHERE t.id = p_id;
    INSERT INTO {s}.tally (open, done, failed)
        VALUES (-1, (p_verdict = 'done')::int, (p_verdict <> 'done')::int);
    INSERT INTO {s}.event (at, worker, action, id, details) VALUES (p_now, p_fence, p_action, p_id, p_details);
    -- A statement after the one that ended it sees tasks that came to need it while that one waited for its row.
    SELECT EXISTS (SELECT 1 FROM {s}.stop s WHERE s.id = p_id), EXISTS (SELECT 1 FROM {s}.need n WHERE n.on_id = p_id)
        INTO w_stopped, w_needed;
    IF w_stopped THEN
        DELETE FROM {s}.stop s WHERE s.id = p_id;
    END IF;
    IF w_needed AND p_verdict = 'done' THEN
        woken := {s}.release(ARRAY[p_id], p_now);
    END IF;
    IF w_touches IS NOT NULL OR w_limits IS NOT NULL THEN
        woken := woken + {s}.let_in(ARRAY[p_id], w_limits, p_now);
    END IF;
    RETURN CASE WHEN woken > 0 THEN 'woke' ELSE 'ok' END;
END $$;
