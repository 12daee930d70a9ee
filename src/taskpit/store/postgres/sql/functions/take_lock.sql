-- Take a named lock, or return the row of its holder.
CREATE OR REPLACE FUNCTION {s}.take_lock(p_name text, p_holder text, p_kind text, p_seconds float8, p_now float8)
RETURNS {s}.lock LANGUAGE plpgsql AS $$
DECLARE w_now float8 := {s}.time_of(p_now); held {s}.lock;
        first bigint := ({s}.epoch() - 1) << 40;  -- numbers grow across a fail-over that lost some of them
BEGIN
    PERFORM {s}.note_contact(p_now);
    INSERT INTO {s}.lock (name, holder, kind, number, acquired, expires) VALUES (p_name, NULL, p_kind, 0, 0, 0)
        ON CONFLICT (name) DO NOTHING;
    SELECT l.* INTO held FROM {s}.lock l WHERE l.name = p_name FOR UPDATE;
    IF held.holder IS DISTINCT FROM p_holder THEN
        IF held.holder IS NOT NULL AND NOT {s}.may_lapse(held.expires, held.seconds, held.graced, p_now) THEN
            UPDATE {s}.lock l SET graced = w_now + held.seconds
                WHERE l.name = p_name AND held.expires < w_now AND held.graced = 0;
            RETURN held;
        END IF;
        held.number := greatest(held.number, first) + 1;
        held.acquired := w_now;
        held.kind := p_kind;
    END IF;
    UPDATE {s}.lock l SET holder = p_holder, kind = held.kind, number = held.number, acquired = held.acquired,
           expires = w_now + p_seconds, seconds = p_seconds, graced = 0 WHERE l.name = p_name RETURNING l.* INTO held;
    RETURN held;
END $$;
