SELECT t.id, t.state::text, t.doc, t.result, l.fence, l.seen, l.until, m.until,
       (SELECT pg_catalog.array_agg(a.doc ORDER BY a.n) FROM {s}.attempt a WHERE a.id = t.id),
       (SELECT pg_catalog.array_agg(x.n ORDER BY x.n) FROM {s}.late x WHERE x.id = t.id),
       (SELECT string_agg(n.words, '' ORDER BY n.n) FROM {s}.note n WHERE n.id = t.id), t.archived
FROM {s}.task t LEFT JOIN {s}.lease l ON l.id = t.id LEFT JOIN {s}.member m ON m.id = l.member
WHERE t.id = ANY (ARRAY(SELECT jsonb_array_elements_text(%(ids)s::jsonb))) AND t.state <> 'w'
