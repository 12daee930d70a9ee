-- Wake sleeping processes. This transaction does not wait for the disk.
CREATE OR REPLACE FUNCTION {s}.ring(p_channel text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    PERFORM pg_notify(p_channel, '');
END $$;
