-- Free a lock, if it is still the same.
CREATE OR REPLACE FUNCTION {s}.free_lock(p_name text, p_holder text, p_number bigint, p_again boolean) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    UPDATE {s}.lock l SET holder = NULL WHERE l.name = p_name AND l.holder = p_holder AND p_number IN (0, l.number);
    RETURN FOUND OR (p_again AND EXISTS (SELECT 1 FROM {s}.lock l WHERE l.name = p_name AND l.holder IS NULL AND l.number = p_number));
END $$;
