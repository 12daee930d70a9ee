-- Make up to 1,000 tasks ready whose time has come. Return their number.
CREATE OR REPLACE FUNCTION {s}.ripen(p_now float8) RETURNS int LANGUAGE plpgsql AS $$
DECLARE ids text[];
BEGIN
    ids := ARRAY(
        SELECT w.id FROM {s}.waiting w WHERE NOT w.held AND NOT w.blocked AND w.lane IS NULL AND w.due <= p_now
        ORDER BY w.due LIMIT 1000 FOR UPDATE SKIP LOCKED);
    RETURN CASE WHEN ids = '{}' THEN 0 ELSE {s}.promote(ids, p_now) END;
END $$;
