-- Return the claims that may be given back: those of workers that are gone, and those that were not renewed although
-- they could have been. A lease that expired in an outage first gets the time of one more lease, unless p_dry.
CREATE OR REPLACE FUNCTION {s}.lapsed(p_dead bigint[], p_dry boolean, p_now float8)
RETURNS TABLE (id text, doc text, worker text, fence text, until float8, seconds float8, gone boolean, stopped boolean)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE w_now float8;
BEGIN
    IF NOT p_dry THEN
        PERFORM {s}.note_contact(p_now);
        w_now := {s}.time_of(p_now);
        UPDATE {s}.lease l SET graced = w_now + l.until - l.seen
            WHERE l.until < w_now AND l.graced = 0 AND NOT {s}.may_lapse(l.until, l.until - l.seen, 0, p_now);
    END IF;
    RETURN QUERY
        SELECT x.id, t.doc, x.worker, x.fence, x.until, x.seconds, x.gone,
               EXISTS (SELECT 1 FROM {s}.stop p WHERE p.id = x.id)
        FROM (SELECT l.*, l.until - l.seen AS seconds, l.member IS NOT NULL AND m.id IS NULL AS gone
              FROM {s}.lease l LEFT JOIN {s}.member m ON m.id = l.member AND NOT m.id = ANY (p_dead)) x
        JOIN {s}.task t ON t.id = x.id AND t.state = 'o'
        WHERE x.gone OR {s}.may_lapse(x.until, x.seconds, x.graced, p_now);
END $$;
