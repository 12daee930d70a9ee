INSERT INTO {s}.artifact (id, name, sha256, data)
SELECT l.id, %(name)s, %(sha256)s, %(data)s FROM {s}.lease l WHERE l.id = %(id)s AND l.fence = %(fence)s
ON CONFLICT (id, name) DO UPDATE SET sha256 = excluded.sha256, data = excluded.data RETURNING 1
