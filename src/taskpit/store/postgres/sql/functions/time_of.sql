-- The time of a test's clock, if there is one; otherwise the server's.
CREATE OR REPLACE FUNCTION {s}.time_of(p_now float8) RETURNS float8 LANGUAGE plpgsql VOLATILE AS
$$ BEGIN RETURN coalesce(p_now, extract(epoch FROM clock_timestamp())::float8); END $$;
