-- A repeated call finds its own note.
WITH fresh AS (
    SELECT 1 WHERE NOT (%(again)s AND EXISTS (
        SELECT 1 FROM {s}.note n WHERE (n.id, n.at, n.worker, n.words) = (%(id)s, %(at)s, %(worker)s, %(line)s)))),
noted AS (
    INSERT INTO {s}.note (id, at, worker, words)
        SELECT t.id, %(at)s, %(worker)s, %(line)s FROM {s}.task t, fresh WHERE t.id = %(id)s AND t.state <> 'w')
INSERT INTO {s}.event (at, worker, action, id, details) SELECT %(at)s, %(worker)s, 'noted', %(id)s, %(text)s FROM fresh
