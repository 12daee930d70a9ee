-- When the server was last reached; -infinity after a restart or a fail-over, which may have lost renewals.
CREATE OR REPLACE FUNCTION {s}.last_contact() RETURNS float8 LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN coalesce((SELECT c.at FROM {s}.contact c
                     WHERE c.epoch = {s}.epoch() AND c.at > extract(epoch FROM pg_postmaster_start_time())), '-infinity');
END $$;
