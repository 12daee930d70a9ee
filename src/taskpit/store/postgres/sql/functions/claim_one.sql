-- Claim the best task of any tag: what most claims ask for. Anything less simple (a repeated call, tasks whose time has
-- come, tasks with paths or limits) goes to `claim`.
CREATE OR REPLACE FUNCTION {s}.claim_one(p_worker text, p_bigs boolean[], p_lease float8, p_call text, p_member bigint, p_limits jsonb,
    p_again boolean, p_now float8, OUT id text, OUT doc text, OUT fence text, OUT since float8) LANGUAGE plpgsql AS $$
DECLARE
    w_now float8 := {s}.time_of(p_now);
    w_paused boolean;
    w_later boolean := p_again;
    best_id text;
    best_key bytea;
    best_big boolean;
    best_tags text[];
    best_mark text;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    IF NOT p_again THEN
        SELECT EXISTS (SELECT 1 FROM {s}.pause p WHERE p.until = 0 OR p.until > w_now),
               EXISTS (SELECT 1 FROM {s}.waiting w WHERE NOT w.held AND NOT w.blocked AND w.lane IS NULL AND w.due <= w_now)
               OR EXISTS (SELECT 1 FROM {s}.lane x WHERE x.due <= w_now) INTO w_paused, w_later;
        IF w_paused THEN
            RETURN;
        END IF;
    END IF;
    IF NOT w_later THEN
        SELECT h.id, h.key, h.big, h.tags, h.mark, h.alone INTO best_id, best_key, best_big, best_tags, best_mark, w_later
            FROM unnest(p_bigs) lane(big), LATERAL (
                SELECT r.id, r.key, r.big, r.tags, r.mark, r.touches IS NOT NULL OR r.limits IS NOT NULL AS alone FROM {s}.ready r
                WHERE r.big = lane.big AND r.key >= coalesce((SELECT f.key FROM {s}.floor f WHERE f.big = lane.big), '')
                ORDER BY r.key LIMIT 1 FOR UPDATE SKIP LOCKED) h ORDER BY h.key LIMIT 1;
        IF best_key IS NULL THEN
            RETURN;
        END IF;
    END IF;
    IF w_later THEN
        SELECT c.id, c.doc, c.fence, c.since INTO id, doc, fence, since FROM {s}.claim(jsonb_build_object(
            'worker', p_worker, 'lease', p_lease, 'count', 1, 'ids', '[]'::jsonb, 'tags', '[]'::jsonb,
            'big', CASE cardinality(p_bigs) WHEN 1 THEN p_bigs[1] END, 'even_held', false, 'verbatim', false,
            'member', p_member, 'limits', p_limits, 'call', p_call), p_again, p_now) c;
        RETURN;
    END IF;
    fence := p_worker || '~' || nextval('{q}.fence_number') || 'e' || {s}.epoch() || p_call;
    id := best_id;
    since := w_now;
    DELETE FROM {s}.ready r WHERE r.big = best_big AND r.key = best_key;
    IF best_tags IS NOT NULL THEN
        DELETE FROM {s}.ready_tag t WHERE t.tag = ANY (best_tags) AND t.big = best_big AND t.key = best_key;
    END IF;
    INSERT INTO {s}.lease (id, key, mark, fence, worker, member, call, since, seen, until)
        VALUES (best_id, best_key, best_mark, fence, p_worker, p_member, p_call, w_now, w_now, w_now + p_lease);
    INSERT INTO {s}.event (at, worker, action, id) VALUES (w_now, fence, 'claimed_task', best_id);
    SELECT t.doc INTO doc FROM {s}.task t WHERE t.id = best_id;
END $$;
