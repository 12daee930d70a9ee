SELECT {s}.ring(%(channel)s)
