-- Register a worker that stays and return its number, or NULL if the name is in use. The processes of p_dead are gone.
CREATE OR REPLACE FUNCTION {s}.join_as(p_worker text, p_host text, p_pid bigint, p_born text, p_lease float8, p_dead bigint[],
    p_again boolean, p_now float8) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE w_now float8 := {s}.time_of(p_now); made bigint;
BEGIN
    PERFORM {s}.note_contact(p_now);
    UPDATE {s}.member m SET graced = w_now + m.lease
        WHERE m.worker = p_worker AND m.until < w_now AND m.graced = 0 AND NOT {s}.may_lapse(m.until, m.lease, 0, p_now);
    DELETE FROM {s}.member m WHERE m.worker = p_worker AND (m.id = ANY (p_dead) OR (
        {s}.may_lapse(m.until, m.lease, m.graced, p_now) AND NOT EXISTS (
            SELECT 1 FROM {s}.lease l
            WHERE l.member = m.id AND NOT {s}.may_lapse(l.until, l.until - l.seen, l.graced, p_now))));
    INSERT INTO {s}.member (worker, host, pid, born, until, lease)
        VALUES (p_worker, p_host, p_pid, p_born, w_now + p_lease, p_lease)
        ON CONFLICT (worker) DO NOTHING RETURNING member.id INTO made;
    IF made IS NULL AND p_again THEN
        SELECT m.id INTO made FROM {s}.member m
            WHERE m.worker = p_worker AND m.host = p_host AND m.pid = p_pid AND m.born = p_born;
    END IF;
    RETURN made;
END $$;
