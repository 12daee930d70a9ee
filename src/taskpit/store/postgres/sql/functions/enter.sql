-- Make these open tasks ready, or let them wait if something holds them.
CREATE OR REPLACE FUNCTION {s}.enter(p_items {s}.item[], p_now float8) RETURNS void LANGUAGE plpgsql AS $$
DECLARE needed text[];
BEGIN
    needed := ARRAY(SELECT DISTINCT x.need FROM unnest(p_items) i, unnest(i.needs) x(need));
    IF needed <> '{}' THEN
        -- A need that does not exist yet gets a row, too, so that a put of it waits for this transaction, or this one for it.
        INSERT INTO {s}.task (id, state, key, wish, doc)
            SELECT x.need, 'w'::"char", ''::bytea, ''::bytea, '' FROM unnest(needed) x(need)
            ORDER BY 1 ON CONFLICT (id) DO NOTHING;
        -- The end of a need waits for this transaction, or this one for it; then the next statement sees that end.
        PERFORM 1 FROM {s}.task t WHERE t.id = ANY (needed) ORDER BY t.id FOR SHARE;
        INSERT INTO {s}.need (on_id, id, place)
            SELECT DISTINCT ON (x.need, i.id) x.need, i.id, x.place
            FROM unnest(p_items) i, unnest(i.needs) WITH ORDINALITY x(need, place)
            WHERE (SELECT t.state FROM {s}.task t WHERE t.id = x.need) <> 'd' ORDER BY x.need, i.id, x.place;
    END IF;
    IF EXISTS (SELECT 1 FROM unnest(p_items) i WHERE i.held OR i.due > p_now OR i.needs IS NOT NULL) THEN
        INSERT INTO {s}.waiting (id, big, key, tags, touches, limits, mark, held, blocked, due)
            SELECT w.* FROM (
                SELECT i.id, i.big, decode(i.key, 'hex'), i.tags, i.touches, i.limits, i.mark, i.held,
                       (SELECT true FROM {s}.need n WHERE n.id = i.id LIMIT 1) IS NOT NULL AS blocked, i.due
                FROM unnest(p_items) i) w
            WHERE w.held OR w.blocked OR w.due > p_now;
        p_items := ARRAY(
            SELECT i FROM unnest(p_items) i WHERE (SELECT true FROM {s}.waiting w WHERE w.id = i.id) IS NULL);
    END IF;
    IF EXISTS (SELECT 1 FROM unnest(p_items) i WHERE i.touches IS NOT NULL OR i.limits IS NOT NULL) THEN
        p_items := {s}.stand_aside(p_items);
    END IF;
    INSERT INTO {s}.ready (big, key, id, tags, touches, limits, mark)
        SELECT i.big, decode(i.key, 'hex'), i.id, i.tags, i.touches, i.limits, i.mark FROM unnest(p_items) i;
    PERFORM {s}.lower_floor(x.big, x.key) FROM (
        SELECT DISTINCT ON (i.big) i.big, decode(i.key, 'hex') AS key FROM unnest(p_items) i ORDER BY i.big, 2) x;
    IF EXISTS (SELECT 1 FROM unnest(p_items) i WHERE i.tags IS NOT NULL) THEN
        INSERT INTO {s}.ready_tag (tag, big, key)
            SELECT DISTINCT x.tag, i.big, decode(i.key, 'hex') FROM unnest(p_items) i, unnest(i.tags) x(tag);
    END IF;
END $$;
