-- Move this ready task into its lane. The caller has locked it and holds `one_by_one`.
CREATE OR REPLACE FUNCTION {s}.park(p_row {s}.ready, p_blocker text, p_due float8, p_now float8) RETURNS void LANGUAGE plpgsql AS $$
DECLARE w_lane text := {s}.lane_of(p_row.big, p_row.tags, p_row.touches, p_row.limits);
BEGIN
    DELETE FROM {s}.ready r WHERE r.big = p_row.big AND r.key = p_row.key;
    DELETE FROM {s}.ready_tag t WHERE t.tag = ANY (p_row.tags) AND t.big = p_row.big AND t.key = p_row.key;
    INSERT INTO {s}.lane (lane, blocker, due) VALUES (w_lane, p_blocker, p_due)
        ON CONFLICT (lane) DO UPDATE SET blocker = excluded.blocker, due = excluded.due;
    INSERT INTO {s}.waiting (id, big, key, tags, touches, limits, mark, held, blocked, due, lane)
        VALUES (p_row.id, p_row.big, p_row.key, p_row.tags, p_row.touches, p_row.limits, p_row.mark, false, false, p_now, w_lane);
END $$;
