-- Let these tasks wait or be ready again, with new text where there is one.
CREATE OR REPLACE FUNCTION {s}.go_back(p_items {s}.item[], p_now float8) RETURNS void LANGUAGE plpgsql AS $$
DECLARE i {s}.item;
BEGIN
    FOREACH i IN ARRAY p_items LOOP
        IF i.doc IS NOT NULL THEN
            UPDATE {s}.task t SET doc = i.doc, key = decode(i.key, 'hex') WHERE t.id = i.id;
        END IF;
    END LOOP;
    PERFORM {s}.enter(p_items, p_now);
END $$;
