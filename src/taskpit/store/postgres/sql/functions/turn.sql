-- End several workers' claims, then claim for them, in one transaction. The first row answers for the ends, and each
-- other row is a claim with the number of its wish. A wish equal to one that found nothing is skipped.
CREATE OR REPLACE FUNCTION {s}.turn(p_ends jsonb, p_wants jsonb, p_again boolean, p_now float8)
RETURNS TABLE (n int, answers text[], rings boolean, id text, doc text, fence text, since float8) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    w_commit text := current_setting('synchronous_commit');
    w_want jsonb;
    w_wanted jsonb;
    w_missed jsonb;
BEGIN
    IF jsonb_array_length(p_ends) > 0 THEN
        RETURN QUERY SELECT -1, f.answers, f.rings, NULL::text, NULL::text, NULL::text, NULL::float8
            FROM {s}.finish(p_ends, p_again, p_now) f;
    END IF;
    FOR place IN 0 .. jsonb_array_length(p_wants) - 1 LOOP
        w_wanted := jsonb_build_array(p_wants -> place -> 'tags', p_wants -> place -> 'big', p_wants -> place -> 'ids');
        IF p_again OR w_missed IS DISTINCT FROM w_wanted THEN
            w_want := p_wants -> place;
            IF w_want -> 'ids' = '[]' AND w_want -> 'tags' = '[]' AND w_want -> 'count' = '1'
               AND NOT (w_want ->> 'even_held')::boolean AND NOT (w_want ->> 'verbatim')::boolean THEN
                RETURN QUERY SELECT place, NULL::text[], NULL::boolean, c.* FROM {s}.claim_one(w_want ->> 'worker',
                    CASE WHEN w_want ->> 'big' IS NULL THEN '{f,t}' ELSE ARRAY[(w_want ->> 'big')::boolean] END,
                    (w_want ->> 'lease')::float8, w_want ->> 'call', (w_want ->> 'member')::bigint, w_want -> 'limits',
                    p_again, p_now) c WHERE c.id IS NOT NULL;
            ELSE
                RETURN QUERY SELECT place, NULL::text[], NULL::boolean, c.* FROM {s}.claim(w_want, p_again, p_now) c;
            END IF;
            IF NOT FOUND THEN
                w_missed := w_wanted;
            END IF;
        END IF;
    END LOOP;
    IF jsonb_array_length(p_ends) > 0 THEN
        PERFORM set_config('synchronous_commit', w_commit, true);  -- a claim does not wait for the disk, an end does
    END IF;
END $$;
