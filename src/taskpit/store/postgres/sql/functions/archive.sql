-- Keep of these done tasks only the part that other tasks need; the file has the rest.
CREATE OR REPLACE FUNCTION {s}.archive(p_ids text[], p_file text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE {s}.task t SET archived = p_file,
        doc = (SELECT json_object_agg(x.key, x.value)::text FROM json_each(t.doc::json) x
               WHERE x.key IN ('id', 'title', 'slug', 'priority', 'created', 'number', 'big', 'tags', 'parent', 'by')),
        result = (SELECT json_object_agg(x.key, x.value)::text FROM json_each(t.result::json) x
                  WHERE x.key IN ('id', 'verdict', 'worker', 'attempt', 'finished', 'seconds', 'children'))
        WHERE t.id = ANY (p_ids) AND t.state = 'd' AND t.archived IS NULL;
    DELETE FROM {s}.attempt a USING {s}.task t WHERE a.id = ANY (p_ids) AND t.id = a.id AND t.archived = p_file;
    DELETE FROM {s}.note n USING {s}.task t WHERE n.id = ANY (p_ids) AND t.id = n.id AND t.archived = p_file;
END $$;
