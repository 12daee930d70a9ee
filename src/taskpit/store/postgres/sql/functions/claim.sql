-- Claim tasks of any kind.
CREATE OR REPLACE FUNCTION {s}.claim(p_want jsonb, p_again boolean, p_now float8)
RETURNS TABLE (id text, doc text, fence text, since float8) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    w_now float8 := {s}.time_of(p_now);
    w_count int := (p_want ->> 'count')::int;
    w_ids text[] := '{}';
    w_tags text[];
    w_bigs boolean[] := CASE WHEN p_want ->> 'big' IS NULL THEN '{f,t}' ELSE ARRAY[(p_want ->> 'big')::boolean] END;
    w_even boolean := (p_want ->> 'even_held')::boolean;
    w_taken text[] := '{}';
    w_keys bytea[];
    w_alone boolean;
    w_paused boolean;
    w_ripe boolean;
    w_due boolean;
    one text;
BEGIN
    -- A claim does not wait for the disk: if a crash loses it, the task is ready again and the fence is worthless.
    -- Its end waits, and writes the claim first.
    PERFORM set_config('synchronous_commit', 'off', true);
    IF p_want -> 'ids' <> '[]' THEN
        w_ids := ARRAY(SELECT jsonb_array_elements_text(p_want -> 'ids'));
    END IF;
    IF p_want -> 'tags' <> '[]' THEN
        w_tags := ARRAY(SELECT jsonb_array_elements_text(p_want -> 'tags'));
    END IF;
    IF p_again THEN  -- the claims of the first call, if it had any
        w_taken := ARRAY(SELECT l.id FROM {s}.lease l WHERE l.call = p_want ->> 'call');
    END IF;
    IF w_taken = '{}' AND NOT w_even THEN
        SELECT EXISTS (SELECT 1 FROM {s}.pause p WHERE p.until = 0 OR p.until > w_now),
               EXISTS (SELECT 1 FROM {s}.waiting w WHERE NOT w.held AND NOT w.blocked AND w.lane IS NULL AND w.due <= w_now),
               EXISTS (SELECT 1 FROM {s}.lane x WHERE x.due <= w_now) INTO w_paused, w_ripe, w_due;
        IF w_paused THEN
            RETURN;
        END IF;
        WHILE w_ripe LOOP
            w_ripe := {s}.ripen(w_now) >= 1000;
        END LOOP;
        IF w_due THEN
            PERFORM {s}.one_by_one();
            FOR one IN SELECT x.lane FROM {s}.lane x WHERE x.due <= w_now ORDER BY 1 LOOP
                PERFORM {s}.settle(one, p_want -> 'limits', w_now);
            END LOOP;
        END IF;
    END IF;
    IF w_taken <> '{}' THEN
        NULL;
    ELSIF w_ids <> '{}' THEN
        FOREACH one IN ARRAY w_ids LOOP
            EXIT WHEN cardinality(w_taken) >= w_count;
            w_taken := w_taken || {s}.grant_one(one, p_want, w_tags, w_bigs, w_now);
        END LOOP;
    ELSE
        SELECT k.keys, k.alone INTO w_keys, w_alone FROM {s}.pick(w_count, w_tags, w_bigs, '') k;
        IF w_alone THEN
            w_taken := {s}.grant_alone(p_want, w_tags, w_bigs, w_now);
        ELSIF w_keys IS NOT NULL THEN
            w_taken := {s}.grant_ready(w_keys, p_want, w_now);
        END IF;
    END IF;
    IF w_taken = '{}' THEN
        RETURN;
    END IF;
    RETURN QUERY SELECT l.id, (SELECT t.doc FROM {s}.task t WHERE t.id = l.id), l.fence, l.since FROM {s}.lease l
        WHERE l.id = ANY (w_taken) ORDER BY array_position(w_ids, l.id), l.key;
END $$;
