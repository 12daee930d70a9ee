-- Put tasks that nothing holds, each with an id of its own: the fast way for most batches.
CREATE OR REPLACE FUNCTION {s}.put_plain(p_items jsonb, p_now float8, OUT answers text[], OUT rings boolean) LANGUAGE plpgsql AS $$
DECLARE
    w_now float8 := {s}.time_of(p_now);
    ids text[];
    bigs boolean[];
    keys bytea[];
    wishes bytea[];
    docs text[];
    workers text[];
    details text[];
    fresh text[];
BEGIN
    SELECT array_agg(x.item ->> 0), array_agg((x.item ->> 1)::boolean), array_agg(decode(x.item ->> 2, 'hex')),
           array_agg(decode(x.item ->> 3, 'hex')), array_agg(x.item ->> 4), array_agg(x.item ->> 5), array_agg(x.item ->> 6)
        INTO ids, bigs, keys, wishes, docs, workers, details
        FROM (SELECT e.item FROM jsonb_array_elements(p_items) WITH ORDINALITY e(item, n) ORDER BY e.n) x;
    WITH made AS (
        INSERT INTO {s}.task (id, state, key, wish, doc)
            SELECT x.id, 'o'::"char", x.key, x.wish, x.doc
            FROM unnest(ids, keys, wishes, docs) x(id, key, wish, doc) ORDER BY x.id
            ON CONFLICT (id) DO UPDATE SET state = 'o', key = excluded.key, wish = excluded.wish, doc = excluded.doc
                WHERE task.state = 'w'
            RETURNING id)
    SELECT array_agg(made.id) FROM made INTO fresh;
    IF cardinality(fresh) = cardinality(ids) THEN
        answers := array_fill('created'::text, ARRAY[cardinality(ids)]);
    ELSE
        answers := ARRAY(
            SELECT CASE WHEN x.id = ANY (fresh) THEN 'created'
                        WHEN (SELECT t.wish FROM {s}.task t WHERE t.id = x.id) = x.wish THEN 'exists'
                        ELSE 'conflict' END
            FROM unnest(ids, wishes) WITH ORDINALITY x(id, wish, n) ORDER BY x.n);
    END IF;
    IF fresh IS NOT NULL THEN
        INSERT INTO {s}.tally (open, done, failed) VALUES (cardinality(fresh), 0, 0);
        INSERT INTO {s}.ready (big, key, id)
            SELECT x.big, x.key, x.id FROM unnest(bigs, keys, ids, answers) x(big, key, id, answer) WHERE x.answer = 'created';
        PERFORM {s}.lower_floor(x.big, x.key) FROM (
            SELECT DISTINCT ON (i.big) i.big, i.key FROM unnest(bigs, keys) i(big, key) ORDER BY i.big, i.key) x;
        INSERT INTO {s}.event (at, worker, action, id, details)
            SELECT w_now, x.worker, 'added_task', x.id, x.details
            FROM unnest(workers, ids, details, answers) x(worker, id, details, answer) WHERE x.answer = 'created';
    END IF;
    rings := fresh IS NOT NULL AND {s}.waits();
END $$;
