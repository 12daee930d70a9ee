SELECT n, worker FROM {s}.log WHERE at < {s}.time_of(%(now)s) - %(age)s ORDER BY n LIMIT 1000
