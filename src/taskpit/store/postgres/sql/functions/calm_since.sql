-- The end of the last outage that counts for a lease of so many seconds. The lease lasts at least that long after it.
CREATE OR REPLACE FUNCTION {s}.calm_since(p_seconds float8, p_now float8) RETURNS float8 LANGUAGE plpgsql VOLATILE AS $$
DECLARE w_now float8 := {s}.time_of(p_now);
BEGIN
    RETURN CASE WHEN p_now IS NOT NULL THEN 0
           WHEN w_now - {s}.last_contact() > greatest(p_seconds / 10, 0.1) THEN w_now
           ELSE coalesce((SELECT max(o.ended) FROM {s}.outage o WHERE o.seconds > p_seconds / 10), 0) END;
END $$;
