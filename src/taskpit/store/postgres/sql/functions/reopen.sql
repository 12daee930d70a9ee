-- Make failed tasks ready again.
CREATE OR REPLACE FUNCTION {s}.reopen(p_items jsonb, p_again boolean, p_now float8, OUT answers text[], OUT rings boolean) LANGUAGE plpgsql AS $$
DECLARE
    w_now float8 := {s}.time_of(p_now);
    i {s}.item;
    old record;
BEGIN
    answers := '{}';
    FOR i IN SELECT x.* FROM jsonb_populate_recordset(NULL::{s}.item, p_items) x LOOP
        SELECT t.* INTO old FROM {s}.task t WHERE t.id = i.id AND t.state <> 'w' FOR UPDATE;
        IF FOUND AND old.state = 'f' THEN
            INSERT INTO {s}.late (id, at, fence, doc) VALUES (i.id, w_now, old.fence, old.result);
            UPDATE {s}.task t SET state = 'o', result = NULL, fence = NULL, verdict = NULL, mark = NULL WHERE t.id = i.id;
            INSERT INTO {s}.tally (open, done, failed) VALUES (1, 0, -1);
            PERFORM {s}.go_back(ARRAY[i], w_now);
            INSERT INTO {s}.event (at, worker, action, id) VALUES (w_now, i.worker, 'reopened_task', i.id);
            answers := answers || 'ok'::text;
        ELSE
            answers := answers || CASE WHEN p_again AND old.state = 'o' AND old.doc = i.doc THEN 'ok' ELSE 'lost' END;
        END IF;
    END LOOP;
    rings := 'ok' = ANY (answers) AND {s}.waits();
END $$;
