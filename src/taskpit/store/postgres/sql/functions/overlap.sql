-- Whether two globs, as `literal` returns them, may mean the same file.
CREATE OR REPLACE FUNCTION {s}.overlap(p_one text, p_other text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE short text := rtrim(p_one, '*'); long text := rtrim(p_other, '*'); open boolean := p_one LIKE '%*'; rest text;
BEGIN
    IF length(short) > length(long) THEN
        open := p_other LIKE '%*';
        rest := short; short := long; long := rest;
    END IF;
    IF NOT starts_with(long, short) THEN
        RETURN false;
    END IF;
    rest := substr(long, length(short) + 1);
    RETURN open OR rest = '' OR rest LIKE '/%' OR short LIKE '%/' OR short = '';
END $$;
