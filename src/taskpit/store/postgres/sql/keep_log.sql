INSERT INTO {s}.log (worker, at, data) VALUES (%(worker)s, %(at)s, %(data)s) RETURNING n
