SELECT substr(string_agg(p.data, '' ORDER BY p.start), %(start)s::int, %(size)s::int), sum(length(p.data))::bigint
FROM {s}.printed p WHERE p.id = %(id)s AND p.fence = %(fence)s
