-- A repeated call finds its own line among the last ones.
WITH fresh AS (
    SELECT 1 WHERE NOT (%(again)s AND EXISTS (
        SELECT 1 FROM (SELECT * FROM {s}.event x ORDER BY x.era DESC, x.xid DESC, x.seq DESC LIMIT 10000) e
        WHERE (e.at, e.worker, e.action) = (%(at)s, %(worker)s, %(action)s)))),
paused AS (
    INSERT INTO {s}.pause (reason, until) SELECT %(reason)s, %(until)s FROM fresh
    ON CONFLICT (one) DO UPDATE SET reason = excluded.reason, until = excluded.until)
INSERT INTO {s}.event (at, worker, action, details) SELECT %(at)s, %(worker)s, %(action)s, %(details)s FROM fresh
