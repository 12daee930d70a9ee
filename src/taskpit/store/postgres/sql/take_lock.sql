SELECT name, holder, kind, number, acquired, expires
FROM {s}.take_lock(%(name)s, %(worker)s, %(kind)s, %(seconds)s, %(now)s)
