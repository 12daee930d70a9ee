-- End claims, and answer for each: ok, already or lost.
CREATE OR REPLACE FUNCTION {s}.finish(p_ends jsonb, p_again boolean, p_now float8, OUT answers text[], OUT rings boolean) LANGUAGE plpgsql AS $$
DECLARE
    w_now float8 := {s}.time_of(p_now);
    ends {s}.ending[];
    won {s}.ending[];
    got int[];
    done text[];
    one {s}.ending;
    woken int := 0;
    w_touches text[];
    w_limits text[];
    aside text[];
    limits text[];
BEGIN
    IF jsonb_array_length(p_ends) = 1 THEN
        one := jsonb_populate_record(NULL::{s}.ending, p_ends -> 0);
        IF one.verdict IS NOT NULL AND one.children IS NULL AND one.note IS NULL AND one.back IS NULL THEN
            answers := ARRAY[{s}.finish_one(one.id, one.fence, one.mark, one.seen, one.verdict, one.result, one.attempt,
                                        one.action, one.details, p_again, w_now)];
            rings := answers = '{woke}' AND {s}.waits();
            answers := array_replace(answers, 'woke', 'ok');
            RETURN;
        END IF;
    END IF;
    ends := ARRAY(SELECT e FROM jsonb_populate_recordset(NULL::{s}.ending, p_ends) e);
    IF cardinality(ends) > 1 THEN
        PERFORM 1 FROM {s}.lease l WHERE l.id = ANY (ARRAY(SELECT e.id FROM unnest(ends) e)) ORDER BY l.id FOR UPDATE;
    END IF;
    -- The fence: only this claim can end, and only once. A judge's end requires that the lease was not renewed since.
    FOREACH one IN ARRAY ends LOOP
        DELETE FROM {s}.lease l WHERE l.id = one.id AND l.fence = one.fence AND (one.seen IS NULL OR one.seen = l.until)
            RETURNING l.touches, l.limits INTO w_touches, w_limits;
        IF FOUND THEN
            got := got || one.n;
            IF w_touches IS NOT NULL OR w_limits IS NOT NULL THEN
                aside := aside || one.id;
                limits := limits || w_limits;
            END IF;
        END IF;
    END LOOP;
    IF got IS NOT NULL THEN
        won := CASE WHEN cardinality(got) = cardinality(ends) THEN ends
                    ELSE ARRAY(SELECT e FROM unnest(ends) e WHERE e.n = ANY (got) ORDER BY e.n) END;
        IF EXISTS (SELECT 1 FROM unnest(won) e WHERE e.attempt IS NOT NULL) THEN
            INSERT INTO {s}.attempt (id, doc) SELECT e.id, e.attempt FROM unnest(won) e WHERE e.attempt IS NOT NULL ORDER BY e.n;
        END IF;
        IF EXISTS (SELECT 1 FROM unnest(won) e WHERE e.children IS NOT NULL) THEN
            PERFORM {s}.put_items(ARRAY(
                SELECT i FROM unnest(won) e, jsonb_populate_recordset(NULL::{s}.item, e.children) i
                WHERE e.children IS NOT NULL), w_now);
            woken := 1;
        END IF;
        IF EXISTS (SELECT 1 FROM unnest(won) e WHERE e.verdict IS NOT NULL) THEN
            FOR one IN SELECT e.* FROM unnest(won) e WHERE e.verdict IS NOT NULL ORDER BY e.id LOOP
                UPDATE {s}.task t SET state = CASE one.verdict WHEN 'done' THEN 'd' ELSE 'f' END::"char", result = one.result,
                       fence = one.fence, verdict = one.verdict, mark = one.mark
                    WHERE t.id = one.id;
                IF one.back IS NOT NULL THEN
                    UPDATE {s}.task t SET doc = one.back ->> 'doc', key = decode(one.back ->> 'key', 'hex') WHERE t.id = one.id;
                END IF;
            END LOOP;
            INSERT INTO {s}.tally (open, done, failed)
                SELECT -count(*), count(*) FILTER (WHERE e.verdict = 'done'), count(*) FILTER (WHERE e.verdict <> 'done')
                FROM unnest(won) e WHERE e.verdict IS NOT NULL;
            done := nullif(ARRAY(SELECT e.id FROM unnest(won) e WHERE e.verdict = 'done'), '{}');
            DELETE FROM {s}.stop s WHERE s.id = ANY (ARRAY(SELECT e.id FROM unnest(won) e WHERE e.verdict IS NOT NULL));
        END IF;
        IF EXISTS (SELECT 1 FROM unnest(won) e WHERE e.verdict IS NULL) THEN
            PERFORM {s}.go_back(ARRAY(
                SELECT (jsonb_populate_record(NULL::{s}.item, e.back)) FROM unnest(won) e WHERE e.verdict IS NULL), w_now);
            woken := 1;
        END IF;
        INSERT INTO {s}.event (at, worker, action, id, details)
            SELECT w_now, e.fence, e.action, e.id, e.details FROM unnest(won) e ORDER BY e.n;
        IF EXISTS (SELECT 1 FROM unnest(won) e WHERE e.note IS NOT NULL) THEN
            INSERT INTO {s}.note (id, at, worker, kind, words)
                SELECT e.id, w_now, e.fence, e.note_kind, e.note FROM unnest(won) e WHERE e.note IS NOT NULL;
        END IF;
        IF done IS NOT NULL THEN
            woken := woken + {s}.release(done, w_now);
        END IF;
        IF aside IS NOT NULL THEN
            woken := woken + {s}.let_in(aside, limits, w_now);
        END IF;
        answers := ARRAY(SELECT CASE WHEN e.n = ANY (got) THEN 'ok' END FROM unnest(ends) e ORDER BY e.n);
    ELSE
        answers := array_fill(NULL::text, ARRAY[cardinality(ends)]);
    END IF;
    IF got IS NULL OR cardinality(got) < cardinality(ends) THEN
        FOREACH one IN ARRAY ends LOOP
            IF answers[one.n + 1] IS NULL THEN
                answers[one.n + 1] := {s}.too_late(one.id, one.fence, one.mark, one.seen, one.verdict, one.result, one.attempt, p_again, w_now);
            END IF;
        END LOOP;
    END IF;
    rings := woken > 0 AND {s}.waits();
END $$;
