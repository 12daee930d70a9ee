WITH RECURSIVE path (id, on_id, place) AS (
    SELECT n.id, n.on_id, n.place FROM {s}.need n WHERE n.id = ANY (ARRAY(SELECT jsonb_array_elements_text(%(ids)s::jsonb)))
    UNION SELECT n.id, n.on_id, n.place FROM path p JOIN {s}.need n ON n.id = p.on_id)
SELECT x.id, x.on_id FROM (SELECT * FROM path LIMIT %(limit)s) x ORDER BY x.id, x.place
