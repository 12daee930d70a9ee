DELETE FROM {s}.member m WHERE m.id = %(number)s
