-- Put these tasks, and answer for each: created, exists or conflict.
CREATE OR REPLACE FUNCTION {s}.put_items(p_items {s}.item[], p_now float8) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE fresh text[];
BEGIN
    WITH given AS (SELECT DISTINCT ON (i.id) i.* FROM unnest(p_items) i ORDER BY i.id, i.n),
    made AS (
        INSERT INTO {s}.task (id, state, key, wish, doc)
            SELECT g.id, 'o'::"char", decode(g.key, 'hex'), decode(g.wish, 'hex'), g.doc FROM given g ORDER BY g.id
            ON CONFLICT (id) DO UPDATE SET state = 'o', key = excluded.key, wish = excluded.wish, doc = excluded.doc
                WHERE task.state = 'w'
            RETURNING id)
    SELECT array_agg(made.id) FROM made INTO fresh;
    IF fresh IS NOT NULL THEN
        INSERT INTO {s}.tally (open, done, failed) VALUES (cardinality(fresh), 0, 0);
        IF cardinality(fresh) = cardinality(p_items) THEN
            PERFORM {s}.enter(p_items, p_now);
        ELSE
            PERFORM {s}.enter(ARRAY(
                SELECT x.i FROM (
                    SELECT DISTINCT ON (i.id) i FROM unnest(p_items) i WHERE i.id = ANY (fresh) ORDER BY i.id, i.n) x), p_now);
        END IF;
        INSERT INTO {s}.event (at, worker, action, id, details)
            SELECT p_now, x.worker, 'added_task', x.id, x.details FROM (
                SELECT DISTINCT ON (i.id) i.* FROM unnest(p_items) i WHERE i.id = ANY (fresh) ORDER BY i.id, i.n) x
            ORDER BY x.n;
        IF cardinality(fresh) = cardinality(p_items) THEN
            RETURN array_fill('created'::text, ARRAY[cardinality(p_items)]);
        END IF;
    END IF;
    RETURN ARRAY(
        SELECT CASE WHEN i.id = ANY (fresh) AND NOT EXISTS (SELECT 1 FROM unnest(p_items) j WHERE j.id = i.id AND j.n < i.n)
                        THEN 'created'
                    WHEN (SELECT t.wish FROM {s}.task t WHERE t.id = i.id) = decode(i.wish, 'hex') THEN 'exists'
                    ELSE 'conflict' END
        FROM unnest(p_items) i ORDER BY i.n);
END $$;
