-- Reduce results in this state that are older than p_age seconds to how they ended. A call looks at up to 1,000 events.
CREATE OR REPLACE FUNCTION {s}.prune(p_state text, p_age float8, p_dry boolean, p_now float8) RETURNS SETOF text
LANGUAGE plpgsql AS $$
DECLARE
    before float8 := {s}.time_of(p_now) - p_age;
    place {s}.kept;
    one record;
    ids text[] := '{}';
BEGIN
    IF NOT p_dry THEN
        INSERT INTO {s}.kept (state, era, xid, seq) VALUES (p_state::"char", 0, '0', 0) ON CONFLICT DO NOTHING;
        PERFORM 1 FROM {s}.kept k WHERE k.state = p_state::"char" FOR UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            RETURN;  -- another is at it
        END IF;
    END IF;
    SELECT k.* INTO place FROM {s}.kept k WHERE k.state = p_state::"char";
    FOR one IN SELECT e.era, e.xid, e.seq, e.at, e.id FROM {s}.event e
        WHERE (e.era, e.xid, e.seq) > (coalesce(place.era, 0), coalesce(place.xid, '0'), coalesce(place.seq, 0))
        ORDER BY e.era, e.xid, e.seq LIMIT 1000 LOOP
        EXIT WHEN one.at >= before;
        ids := ids || one.id;
        place.era := one.era;
        place.xid := one.xid;
        place.seq := one.seq;
    END LOOP;
    IF p_dry THEN
        RETURN QUERY SELECT t.id FROM {s}.task t WHERE t.id = ANY (ids) AND t.state = p_state::"char"
            AND coalesce((t.result::json ->> 'finished')::float8, 0) < before;
        RETURN;
    END IF;
    IF ids <> '{}' THEN
        UPDATE {s}.kept k SET era = place.era, xid = place.xid, seq = place.seq WHERE k.state = p_state::"char";
        DELETE FROM {s}.attempt a WHERE a.id IN (
            SELECT t.id FROM {s}.task t WHERE t.id = ANY (ids) AND t.state = p_state::"char"
                AND coalesce((t.result::json ->> 'finished')::float8, 0) < before);
    END IF;
    RETURN QUERY UPDATE {s}.task t SET result = (
            SELECT json_object_agg(x.key, x.value)::text FROM json_each(t.result::json) x
            WHERE x.key IN ('id', 'verdict', 'worker', 'attempt', 'finished', 'seconds', 'children'))
        WHERE t.id = ANY (ids) AND t.state = p_state::"char" AND t.result IS NOT NULL
              AND coalesce((t.result::json ->> 'finished')::float8, 0) < before
        RETURNING t.id;
END $$;
