-- Repair all of that. p_items are the stray tasks, in the form of a put.
CREATE OR REPLACE FUNCTION {s}.put_right(p_items jsonb, p_now float8) RETURNS TABLE (id text, kind text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE w_now float8 := {s}.time_of(p_now); free text[]; ghosts text[]; strays text[]; ids text[]; kinds text[];
BEGIN
    LOCK TABLE {s}.ready, {s}.ready_tag, {s}.waiting, {s}.lease, {s}.tally IN SHARE ROW EXCLUSIVE MODE;
    SELECT array_agg(a.id), array_agg(a.kind) INTO ids, kinds FROM {s}.astray() a;
    ghosts := ARRAY(SELECT f.id FROM unnest(ids, kinds) f(id, kind) WHERE f.kind = 'no such task');
    DELETE FROM {s}.ready r WHERE r.id = ANY (ghosts);
    DELETE FROM {s}.waiting w WHERE w.id = ANY (ghosts);
    DELETE FROM {s}.lease l WHERE l.id = ANY (ghosts);
    DELETE FROM {s}.need n WHERE n.id = ANY (ghosts);
    free := ARRAY(SELECT f.id FROM unnest(ids, kinds) f(id, kind) WHERE f.kind = 'waits for nothing');
    DELETE FROM {s}.need n WHERE n.id = ANY (free);
    UPDATE {s}.waiting w SET blocked = false WHERE w.id = ANY (free);
    PERFORM {s}.promote(free, w_now);
    free := ARRAY(SELECT f.id FROM unnest(ids, kinds) f(id, kind) WHERE f.kind = 'stands aside');
    DELETE FROM {s}.lane x WHERE x.lane IN (SELECT w.lane FROM {s}.waiting w WHERE w.id = ANY (free));
    UPDATE {s}.waiting w SET lane = NULL WHERE w.id = ANY (free);
    PERFORM {s}.promote(free, w_now);
    strays := ARRAY(SELECT f.id FROM unnest(ids, kinds) f(id, kind) WHERE f.kind = 'stray task');
    DELETE FROM {s}.need n WHERE n.id = ANY (strays);
    PERFORM {s}.enter(ARRAY(
        SELECT x FROM jsonb_populate_recordset(NULL::{s}.item, p_items) x WHERE x.id = ANY (strays)), w_now);
    DELETE FROM {s}.ready_tag g WHERE NOT EXISTS (
        SELECT 1 FROM {s}.ready r WHERE r.big = g.big AND r.key = g.key AND g.tag = ANY (r.tags));
    INSERT INTO {s}.ready_tag (tag, big, key)
        SELECT DISTINCT x.tag, r.big, r.key FROM {s}.ready r, unnest(r.tags) x(tag) ON CONFLICT DO NOTHING;
    DELETE FROM {s}.tally;
    INSERT INTO {s}.tally (open, done, failed)
        SELECT count(*) FILTER (WHERE t.state = 'o'), count(*) FILTER (WHERE t.state = 'd'), count(*) FILTER (WHERE t.state = 'f')
        FROM {s}.task t;
    RETURN QUERY SELECT f.id, f.kind FROM unnest(ids, kinds) f(id, kind);
END $$;
