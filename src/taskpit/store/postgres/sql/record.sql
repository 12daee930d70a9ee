INSERT INTO {s}.event (at, worker, action, doc)
SELECT %(at)s, '', '', x.doc FROM jsonb_array_elements_text(%(docs)s::jsonb) WITH ORDINALITY x(doc, n) ORDER BY x.n
