-- The name of the lane for tasks of this sort. They wait for the same thing, so only the first of them is tried.
CREATE OR REPLACE FUNCTION {s}.lane_of(p_big boolean, p_tags text[], p_touches text[], p_limits text[]) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN
    RETURN md5(concat_ws('|', p_big, coalesce(p_tags, '{}')::text, coalesce(p_touches, '{}')::text, coalesce(p_limits, '{}')::text));
END $$;
