-- Settle the lanes that waited for these ended tasks or their limits. Return how many tasks became ready.
CREATE OR REPLACE FUNCTION {s}.let_in(p_ids text[], p_limits text[], p_now float8) RETURNS int LANGUAGE plpgsql AS $$
DECLARE w_lane text; freed int := 0;
BEGIN
    PERFORM {s}.one_by_one();
    FOR w_lane IN SELECT x.lane FROM {s}.lane x
        WHERE x.blocker = ANY (p_ids || ARRAY(SELECT '=' || split_part(y.word, '=', 1) FROM unnest(p_limits) y(word))) ORDER BY 1 LOOP
        freed := freed + {s}.settle(w_lane, NULL, p_now);
    END LOOP;
    RETURN freed;
END $$;
