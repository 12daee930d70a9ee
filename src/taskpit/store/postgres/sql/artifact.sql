SELECT a.data, a.sha256 FROM {s}.artifact a WHERE a.id = %(id)s AND a.name = %(name)s
