-- Whether no running task is in the way of these paths and limits.
CREATE OR REPLACE FUNCTION {s}.is_free(p_touches text[], p_limits text[], p_want jsonb, p_now float8) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN (SELECT e.blocker IS NULL FROM {s}.excluded(p_touches, p_limits, coalesce(p_want -> 'limits', '{}'), p_now) e);
END $$;
