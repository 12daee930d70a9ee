-- Where claims of this size begin to look.
CREATE OR REPLACE FUNCTION {s}.floor_of(p_big boolean) RETURNS bytea LANGUAGE plpgsql STABLE AS
$$ BEGIN RETURN coalesce((SELECT f.key FROM {s}.floor f WHERE f.big = p_big), ''); END $$;
