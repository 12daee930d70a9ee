-- Renew these leases, and answer for each: ok, cancel or lost.
CREATE OR REPLACE FUNCTION {s}.renew(p_held jsonb, p_lease float8, p_now float8)
RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE w_now float8 := {s}.time_of(p_now); answers text[]; place bigint; w_ids text[]; w_fences text[];
BEGIN
    SELECT array_agg(h ->> 0 ORDER BY n), array_agg(h ->> 1 ORDER BY n) INTO w_ids, w_fences
        FROM jsonb_array_elements(p_held) WITH ORDINALITY x(h, n);
    answers := array_fill('lost'::text, ARRAY[cardinality(w_ids)]);
    PERFORM set_config('synchronous_commit', 'off', true);  -- a renewal that a crash loses is repeated soon
    FOR place IN
        UPDATE {s}.lease l SET until = w_now + p_lease, seen = w_now, graced = 0
        FROM (SELECT x.* FROM unnest(w_ids, w_fences) WITH ORDINALITY x(id, fence, n) ORDER BY x.id OFFSET 0) g
        WHERE l.id = g.id AND l.fence = g.fence RETURNING g.n LOOP
        answers[place] := 'ok';
    END LOOP;
    IF 'lost' = ANY (answers) THEN  -- a claim that is listed twice was renewed once
        FOR place IN SELECT x.n FROM unnest(w_ids, w_fences) WITH ORDINALITY x(id, fence, n)
            WHERE EXISTS (SELECT 1 FROM {s}.lease l WHERE l.id = x.id AND l.fence = x.fence) LOOP
            answers[place] := 'ok';
        END LOOP;
    END IF;
    IF EXISTS (SELECT 1 FROM {s}.stop) THEN
        FOR place IN SELECT x.n FROM unnest(w_ids) WITH ORDINALITY x(id, n)
            WHERE EXISTS (SELECT 1 FROM {s}.stop s WHERE s.id = x.id) LOOP
            IF answers[place] = 'ok' THEN
                answers[place] := 'cancel';
            END IF;
        END LOOP;
    END IF;
    RETURN answers;
END $$;
