SELECT t.id, t.key, t.doc, t.result, x.finished,
       (SELECT pg_catalog.array_agg(a.doc ORDER BY a.n) FROM {s}.attempt a WHERE a.id = t.id),
       (SELECT string_agg(n.words, '' ORDER BY n.n) FROM {s}.note n WHERE n.id = t.id)
FROM {s}.task t, LATERAL (SELECT (t.result::json ->> 'finished')::float8 AS finished) x
WHERE t.state = 'd' AND t.archived IS NULL AND t.key > %(after)s
      AND t.result IS NOT NULL AND x.finished < {s}.time_of(%(now)s) - %(age)s
ORDER BY t.key LIMIT %(limit)s
