-- Put one task that nothing holds.
CREATE OR REPLACE FUNCTION {s}.put_one(p_id text, p_big boolean, p_key bytea, p_wish bytea, p_doc text, p_worker text, p_details text,
    p_now float8, OUT answers text[], OUT rings boolean) LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO {s}.task (id, state, key, wish, doc) VALUES (p_id, 'o', p_key, p_wish, p_doc)
        ON CONFLICT (id) DO UPDATE SET state = 'o', key = excluded.key, wish = excluded.wish, doc = excluded.doc
            WHERE task.state = 'w';
    IF NOT FOUND THEN
        answers := ARRAY[CASE WHEN (SELECT t.wish FROM {s}.task t WHERE t.id = p_id) = p_wish THEN 'exists' ELSE 'conflict' END];
        rings := false;
        RETURN;
    END IF;
    INSERT INTO {s}.ready (big, key, id) VALUES (p_big, p_key, p_id);
    PERFORM {s}.lower_floor(p_big, p_key);
    INSERT INTO {s}.tally (open, done, failed) VALUES (1, 0, 0);
    INSERT INTO {s}.event (at, worker, action, id, details) VALUES ({s}.time_of(p_now), p_worker, 'added_task', p_id, p_details);
    answers := '{created}';
    rings := {s}.waits();
END $$;
