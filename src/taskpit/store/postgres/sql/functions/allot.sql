-- Return so many unused numbers.
CREATE OR REPLACE FUNCTION {s}.allot(p_count int) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE candidate bigint; word text; step bigint;
BEGIN
    FOR turn IN 1..p_count LOOP
        step := 1;
        LOOP
            candidate := nextval('{q}.task_number');
            word := CASE WHEN candidate < 10000 THEN lpad(candidate::text, 4, '0') ELSE candidate::text END;
            EXIT WHEN NOT EXISTS (SELECT 1 FROM {s}.task t WHERE t.id = word);
            -- These ids were chosen by a caller: skip ever more of them, not one by one through a million.
            IF step > 16 THEN
                PERFORM setval('{q}.task_number', candidate + step);
            END IF;
            step := step * 2;
        END LOOP;
        RETURN NEXT word;
    END LOOP;
END $$;
