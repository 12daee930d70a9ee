-- Make the first task of this lane ready, or note what is still in its way. The caller holds `one_by_one`.
-- Return how many became ready.
CREATE OR REPLACE FUNCTION {s}.settle(p_lane text, p_settings jsonb, p_now float8) RETURNS int LANGUAGE plpgsql AS $$
DECLARE head {s}.waiting; w_blocker text; w_due float8;
BEGIN
    PERFORM 1 FROM {s}.lane x WHERE x.lane = p_lane FOR UPDATE;  -- the next statement sees tasks that were being put into it
    SELECT w.* INTO head FROM {s}.waiting w WHERE w.lane = p_lane ORDER BY w.key LIMIT 1;
    IF FOUND THEN
        SELECT e.blocker, e.due INTO w_blocker, w_due FROM {s}.excluded(head.touches, head.limits, p_settings, p_now) e;
        IF w_blocker IS NOT NULL THEN
            INSERT INTO {s}.lane (lane, blocker, due) VALUES (p_lane, w_blocker, w_due)
                ON CONFLICT (lane) DO UPDATE SET blocker = excluded.blocker, due = excluded.due;
            RETURN 0;
        END IF;
    END IF;
    DELETE FROM {s}.lane x WHERE x.lane = p_lane;
    IF head.id IS NULL THEN
        RETURN 0;
    END IF;
    UPDATE {s}.waiting w SET lane = NULL WHERE w.id = head.id;
    RETURN {s}.promote(ARRAY[head.id], p_now);
END $$;
