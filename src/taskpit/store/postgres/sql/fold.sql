SELECT {s}.fold()
