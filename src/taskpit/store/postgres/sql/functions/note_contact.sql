-- Note that the server was reached. A gap since the last note is an outage for every lease that it exceeds a tenth of.
-- A test's clock says nothing about the server.
CREATE OR REPLACE FUNCTION {s}.note_contact(p_now float8) RETURNS void LANGUAGE plpgsql AS $$
DECLARE w_now float8 := {s}.time_of(p_now); w_at float8; w_gap float8;
BEGIN
    IF p_now IS NOT NULL THEN
        RETURN;
    END IF;
    w_at := {s}.last_contact();
    IF w_at <= w_now AND w_now - w_at < 0.02 THEN
        RETURN;  -- another process has just noted it
    END IF;
    INSERT INTO {s}.contact (at, epoch) VALUES ('-infinity', 0) ON CONFLICT DO NOTHING;
    PERFORM 1 FROM {s}.contact c FOR UPDATE;  -- the statements after this one see what the others noted
    w_now := {s}.time_of(p_now);
    w_gap := w_now - {s}.last_contact();
    IF w_gap > 0.1 THEN  -- the tenth of a lease of one second
        DELETE FROM {s}.outage o WHERE o.seconds <= w_gap OR o.ended + 10 * o.seconds < w_now;
        INSERT INTO {s}.outage (ended, seconds) VALUES (w_now, w_gap);
    END IF;
    UPDATE {s}.contact c SET at = w_now, epoch = {s}.epoch();
END $$;
