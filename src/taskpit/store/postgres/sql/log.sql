SELECT substr(l.data, %(start)s::int, %(size)s::int), length(l.data) FROM {s}.log l WHERE l.n = %(number)s
