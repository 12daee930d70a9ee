SELECT a.name, length(a.data), a.sha256 FROM {s}.artifact a WHERE a.id = %(id)s ORDER BY a.name
