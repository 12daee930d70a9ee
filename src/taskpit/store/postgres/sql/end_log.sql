SELECT {s}.end_log(%(id)s, %(fence)s, %(worker)s, %(now)s)
