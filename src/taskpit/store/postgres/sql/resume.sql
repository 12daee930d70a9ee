-- A repeated call finds its own line among the last ones.
WITH resumed AS (DELETE FROM {s}.pause p RETURNING 1),
logged AS (INSERT INTO {s}.event (at, worker, action) SELECT %(at)s, %(worker)s, %(action)s FROM resumed RETURNING 1)
SELECT 1 FROM logged UNION ALL SELECT 1 WHERE (%(again)s AND EXISTS (
    SELECT 1 FROM (SELECT * FROM {s}.event x ORDER BY x.era DESC, x.xid DESC, x.seq DESC LIMIT 10000) e
    WHERE (e.at, e.worker, e.action) = (%(at)s, %(worker)s, %(action)s)))
