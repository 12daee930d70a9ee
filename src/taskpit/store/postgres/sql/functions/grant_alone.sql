-- Grant tasks one after another while no other transaction grants tasks with paths or limits. A task that is in the
-- way of another is parked.
CREATE OR REPLACE FUNCTION {s}.grant_alone(p_want jsonb, p_tags text[], p_bigs boolean[], p_now float8) RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE taken text[] := '{}'; w_keys bytea[]; w_alone boolean; one {s}.ready; w_blocker text; w_due float8; w_after bytea := '';
BEGIN
    PERFORM {s}.one_by_one();
    WHILE cardinality(taken) < (p_want ->> 'count')::int LOOP
        SELECT k.keys, k.alone INTO w_keys, w_alone FROM {s}.pick(1, p_tags, p_bigs, w_after) k;
        EXIT WHEN w_keys IS NULL;
        w_blocker := NULL;
        IF w_alone THEN
            SELECT r.* INTO one FROM {s}.ready r WHERE r.big = false AND r.key = w_keys[1];
            IF NOT FOUND THEN
                SELECT r.* INTO one FROM {s}.ready r WHERE r.big = true AND r.key = w_keys[1];
            END IF;
            SELECT e.blocker, e.due INTO w_blocker, w_due FROM {s}.excluded(one.touches, one.limits, p_want -> 'limits', p_now) e;
        END IF;
        IF w_blocker IS NULL THEN
            taken := taken || {s}.grant_ready(w_keys, p_want, p_now);
            w_after := '';  -- it may have let in another before it
        ELSE
            PERFORM {s}.park(one, w_blocker, w_due, p_now);
            w_after := w_keys[1];  -- do not walk over the rows that were just parked
        END IF;
    END LOOP;
    RETURN taken;
END $$;
