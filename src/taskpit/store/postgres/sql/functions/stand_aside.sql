-- Move new tasks into their lane if others of the same sort wait there, and return the rest. A lane that another
-- transaction is deciding about is skipped: its task becomes ready and is tried in its turn.
CREATE OR REPLACE FUNCTION {s}.stand_aside(p_items {s}.item[]) RETURNS {s}.item[] LANGUAGE plpgsql AS $$
DECLARE i {s}.item; w_lane text; left_over {s}.item[] := '{}';
BEGIN
    FOREACH i IN ARRAY p_items LOOP
        w_lane := NULL;
        IF i.touches IS NOT NULL OR i.limits IS NOT NULL THEN
            SELECT x.lane INTO w_lane FROM {s}.lane x
                WHERE x.lane = {s}.lane_of(i.big, i.tags, i.touches, i.limits) FOR SHARE SKIP LOCKED;
        END IF;
        IF w_lane IS NULL THEN
            left_over := left_over || i;
        ELSE
            INSERT INTO {s}.waiting (id, big, key, tags, touches, limits, mark, held, blocked, due, lane)
                VALUES (i.id, i.big, decode(i.key, 'hex'), i.tags, i.touches, i.limits, i.mark, false, false, i.due, w_lane);
        END IF;
    END LOOP;
    RETURN left_over;
END $$;
