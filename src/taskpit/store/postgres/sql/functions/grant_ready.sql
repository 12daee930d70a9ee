-- Lease these ready tasks to the worker. Return their ids.
CREATE OR REPLACE FUNCTION {s}.grant_ready(p_keys bytea[], p_want jsonb, p_now float8) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    taken text[];
    one bytea;
    row_of {s}.ready;
    gone {s}.ready[] := '{}';
    w_worker text := p_want ->> 'worker';
    w_stem text := CASE WHEN (p_want ->> 'verbatim')::boolean THEN NULL ELSE w_worker || '~' END;
    w_tail text := 'e' || {s}.epoch() || (p_want ->> 'call');
    w_call text := p_want ->> 'call';
    w_member bigint := (p_want ->> 'member')::bigint;
    w_until float8 := p_now + (p_want ->> 'lease')::float8;
    w_logged boolean := NOT (p_want ->> 'even_held')::boolean;
    w_lane text;
BEGIN
    FOREACH one IN ARRAY p_keys LOOP
        DELETE FROM {s}.ready r WHERE r.big = false AND r.key = one RETURNING r.* INTO row_of;
        IF NOT FOUND THEN
            DELETE FROM {s}.ready r WHERE r.big = true AND r.key = one RETURNING r.* INTO row_of;
        END IF;
        IF row_of.tags IS NOT NULL THEN
            DELETE FROM {s}.ready_tag t WHERE t.tag = ANY (row_of.tags) AND t.big = row_of.big AND t.key = one;
        END IF;
        gone := gone || row_of;
    END LOOP;
    WITH leased AS (
        INSERT INTO {s}.lease (id, key, touches, limits, mark, fence, worker, member, call, since, seen, until)
            SELECT g.id, g.key, g.touches, g.limits, g.mark,
                   CASE WHEN w_stem IS NULL THEN w_worker ELSE w_stem || nextval('{q}.fence_number') || w_tail END,
                   w_worker, w_member, w_call, p_now, p_now, w_until
            FROM unnest(gone) g ORDER BY g.key RETURNING id, fence, key),
    logged AS (
        INSERT INTO {s}.event (at, worker, action, id)
            SELECT p_now, l.fence, 'claimed_task', l.id FROM leased l
            WHERE w_logged ORDER BY l.key)
    SELECT array_agg(l.id) FROM leased l INTO taken;
    IF EXISTS (SELECT 1 FROM unnest(gone) g WHERE g.touches IS NOT NULL OR g.limits IS NOT NULL) THEN
        IF w_logged THEN
            INSERT INTO {s}.start (key, at) SELECT DISTINCT split_part(x.word, '=', 1), p_now FROM unnest(gone) g, unnest(g.limits) x(word)
                WHERE x.word LIKE '%/min' OR p_want -> 'limits' ->> split_part(x.word, '=', 1) LIKE '%/min';
            DELETE FROM {s}.start x WHERE x.at < p_now - 60 AND x.key = ANY (ARRAY(
                SELECT split_part(y.word, '=', 1) FROM unnest(gone) g, unnest(g.limits) y(word)));
        END IF;
        -- Behind it others of its sort may stand aside: the next may run, too, or waits for this one.
        FOR w_lane IN SELECT DISTINCT {s}.lane_of(g.big, g.tags, g.touches, g.limits) FROM unnest(gone) g
            WHERE g.touches IS NOT NULL OR g.limits IS NOT NULL ORDER BY 1 LOOP
            IF EXISTS (SELECT 1 FROM {s}.waiting w WHERE w.lane = w_lane) THEN
                PERFORM {s}.settle(w_lane, p_want -> 'limits', p_now);
            END IF;
        END LOOP;
    END IF;
    RETURN taken;
END $$;
