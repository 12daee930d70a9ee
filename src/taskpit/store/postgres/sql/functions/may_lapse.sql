-- Whether a lease of so many seconds that ended at p_until may be taken from its holder.
CREATE OR REPLACE FUNCTION {s}.may_lapse(p_until float8, p_seconds float8, p_graced float8, p_now float8) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE w_now float8 := {s}.time_of(p_now);
BEGIN
    RETURN p_until < w_now AND ((p_graced > 0 AND p_graced < w_now) OR {s}.calm_since(p_seconds, p_now) + p_seconds <= w_now);
END $$;
