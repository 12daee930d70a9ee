-- What keeps a task with these paths and limits from running: the id of a task, = and the name of a limit that is used
-- up, or an empty text if only time does; and when to look again at the latest. NULL if nothing does.
-- p_settings has the limits of the queue. If it is NULL, a limit without a number of its own excludes nothing.
CREATE OR REPLACE FUNCTION {s}.excluded(p_touches text[], p_limits text[], p_settings jsonb, p_now float8,
    OUT blocker text, OUT due float8) LANGUAGE plpgsql VOLATILE AS $$
DECLARE w_key text; w_word text; w_number int; w_used int; w_words text[];
BEGIN
    due := 'infinity';
    IF p_touches IS NOT NULL THEN
        SELECT l.id INTO blocker FROM {s}.lease l, unnest(l.touches) theirs, unnest(p_touches) mine
            WHERE l.touches IS NOT NULL AND {s}.overlap({s}.literal(mine), {s}.literal(theirs)) LIMIT 1;
        IF FOUND THEN
            RETURN;
        END IF;
    END IF;
    IF p_limits IS NULL THEN
        RETURN;
    END IF;
    FOR w_key IN SELECT DISTINCT split_part(x.word, '=', 1) FROM unnest(p_limits) x(word) LOOP
        w_words := ARRAY(SELECT substr(x.word, length(w_key) + 2) FROM unnest(p_limits) x(word)
                         WHERE starts_with(x.word, w_key || '='));
        IF p_settings ? w_key THEN
            w_words := w_words || (p_settings ->> w_key);
        ELSIF w_words = '{}' AND p_settings IS NOT NULL THEN
            w_words := '{1}';
        END IF;
        FOREACH w_word IN ARRAY w_words LOOP
            w_number := split_part(w_word, '/', 1)::int;
            IF w_word LIKE '%/min' THEN
                SELECT x.at + 60 INTO due FROM {s}.start x WHERE x.key = w_key AND x.at > p_now - 60 AND x.at <= p_now + 60
                    ORDER BY x.at DESC OFFSET w_number - 1 LIMIT 1;
                IF FOUND THEN
                    blocker := '';
                    RETURN;
                END IF;
                due := 'infinity';
            ELSE
                SELECT count(*) INTO w_used FROM {s}.lease l WHERE l.limits IS NOT NULL
                    AND EXISTS (SELECT 1 FROM unnest(l.limits) x(word) WHERE split_part(x.word, '=', 1) = w_key);
                IF w_used >= w_number THEN
                    blocker := '=' || w_key;
                    RETURN;
                END IF;
            END IF;
        END LOOP;
    END LOOP;
END $$;
