-- Return the part of a glob before its first wildcard, followed by * if it has one.
CREATE OR REPLACE FUNCTION {s}.literal(p_glob text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT substring(x.glob FROM '^[^*?[]*') || CASE WHEN x.glob ~ '[*?[]' THEN '*' ELSE '' END
    FROM (SELECT CASE WHEN p_glob LIKE './%' THEN substr(p_glob, 3) ELSE p_glob END AS glob) x
$$;
