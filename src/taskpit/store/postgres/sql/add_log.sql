SELECT {s}.add_log(%(id)s, %(fence)s, %(start)s::bigint, %(data)s, %(now)s)
