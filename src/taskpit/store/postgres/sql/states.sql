SELECT t.id, CASE t.state WHEN 'd' THEN 'done' WHEN 'f' THEN 'failed'
             ELSE CASE WHEN l.id IS NULL THEN 'ready' ELSE 'claimed' END END
FROM {s}.task t LEFT JOIN {s}.lease l ON l.id = t.id WHERE t.id = ANY (ARRAY(SELECT jsonb_array_elements_text(%(ids)s::jsonb))) AND t.state <> 'w'
