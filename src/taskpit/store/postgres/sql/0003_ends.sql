-- How claims end, and what is known of them.

-- What these done tasks held up is ready if nothing else holds it. A statement after the one that ended them, so that
-- it sees who came to need them while we waited for their rows.
CREATE OR REPLACE FUNCTION {s}.release(p_done text[], p_now float8) RETURNS int LANGUAGE plpgsql AS $$
DECLARE ids text[];
BEGIN
    ids := ARRAY(SELECT DISTINCT n.id FROM {s}.need n WHERE n.on_id = ANY (p_done));
    IF ids = '{}' THEN
        RETURN 0;
    END IF;
    PERFORM 1 FROM {s}.waiting w WHERE w.id = ANY (ids) ORDER BY w.id FOR UPDATE;
    DELETE FROM {s}.need n WHERE n.on_id = ANY (p_done);
    UPDATE {s}.waiting w SET blocked = false
        WHERE w.id = ANY (ids) AND w.blocked AND (SELECT true FROM {s}.need n WHERE n.id = w.id LIMIT 1) IS NULL;
    RETURN {s}.promote(ids, p_now);
END $$;

-- An end of a claim that is over: said before, or too late and kept aside.
DROP FUNCTION IF EXISTS {s}.too_late({s}.ending, boolean, float8);
CREATE OR REPLACE FUNCTION {s}.too_late(p_id text, p_fence text, p_mark text, p_verdict text, p_result text, p_attempt text,
    p_again boolean, p_now float8) RETURNS text LANGUAGE plpgsql AS $$
DECLARE known record; w_late text := coalesce(p_result, p_attempt);
BEGIN
    SELECT t.fence, t.verdict, t.mark, coalesce(
               (SELECT l.mark FROM {s}.lease l WHERE l.id = t.id), (SELECT w.mark FROM {s}.waiting w WHERE w.id = t.id),
               (SELECT r.mark FROM {s}.ready r WHERE r.big = false AND r.key = t.key),
               (SELECT r.mark FROM {s}.ready r WHERE r.big = true AND r.key = t.key)) AS hot INTO known
        FROM {s}.task t WHERE t.id = p_id AND t.state <> 'w';
    IF NOT FOUND THEN
        RETURN 'lost';
    END IF;
    IF (known.fence, known.verdict) = (p_fence, p_verdict) OR known.mark = p_mark OR known.hot = p_mark
       OR EXISTS (SELECT 1 FROM {s}.attempt a WHERE a.id = p_id AND a.doc = p_attempt) THEN
        RETURN CASE WHEN p_again THEN 'ok' ELSE 'already' END;  -- by the first asking, whose answer got lost
    END IF;
    IF w_late IS NOT NULL AND NOT (p_again AND EXISTS (
        SELECT 1 FROM {s}.late l WHERE l.id = p_id AND l.fence = p_fence AND l.doc = w_late)) THEN
        INSERT INTO {s}.late (id, at, fence, doc) VALUES (p_id, p_now, p_fence, w_late);
        INSERT INTO {s}.event (at, worker, action, id) VALUES (p_now, p_fence, 'late_result', p_id);
    END IF;
    RETURN 'lost';
END $$;

-- One end that publishes a result and brings nothing else along: what most ends are, in the simplest statements.
-- What became of it; `woke` is `ok` for one that others waited for.
DROP FUNCTION IF EXISTS {s}.finish_one({s}.ending, boolean, float8);
CREATE OR REPLACE FUNCTION {s}.finish_one(p_id text, p_fence text, p_mark text, p_seen float8, p_verdict text, p_result text,
    p_attempt text, p_action text, p_details text, p_again boolean, p_now float8) RETURNS text LANGUAGE plpgsql AS $$
DECLARE w_touches text[]; w_limits text[]; w_stopped boolean; w_needed boolean; woken int := 0;
BEGIN
    DELETE FROM {s}.lease l WHERE l.id = p_id AND l.fence = p_fence AND (p_seen IS NULL OR p_seen = l.until)
        RETURNING l.touches, l.limits INTO w_touches, w_limits;
    IF NOT FOUND THEN
        RETURN {s}.too_late(p_id, p_fence, p_mark, p_verdict, p_result, p_attempt, p_again, p_now);
    END IF;
    IF p_attempt IS NOT NULL THEN
        INSERT INTO {s}.attempt (id, doc) VALUES (p_id, p_attempt);
    END IF;
    UPDATE {s}.task t SET state = CASE p_verdict WHEN 'done' THEN 'd' ELSE 'f' END::"char", result = p_result,
           fence = p_fence, verdict = p_verdict, mark = p_mark
        WHERE t.id = p_id;
    INSERT INTO {s}.event (at, worker, action, id, details) VALUES (p_now, p_fence, p_action, p_id, p_details);
    -- After the statement that ended it: so it is seen who came to need it while we waited for its row.
    SELECT EXISTS (SELECT 1 FROM {s}.stop s WHERE s.id = p_id), EXISTS (SELECT 1 FROM {s}.need n WHERE n.on_id = p_id)
        INTO w_stopped, w_needed;
    IF w_stopped THEN
        DELETE FROM {s}.stop s WHERE s.id = p_id;
    END IF;
    IF w_needed AND p_verdict = 'done' THEN
        woken := {s}.release(ARRAY[p_id], p_now);
    END IF;
    IF w_touches IS NOT NULL OR w_limits IS NOT NULL THEN
        woken := woken + {s}.let_in(ARRAY[p_id], w_limits, p_now);
    END IF;
    RETURN CASE WHEN woken > 0 THEN 'woke' ELSE 'ok' END;
END $$;

CREATE OR REPLACE FUNCTION {s}.finish(p_ends json, p_again boolean, p_now float8, OUT said text[], OUT rings boolean) LANGUAGE plpgsql AS $$
DECLARE
    w_now float8 := {s}.time_of(p_now);
    ends {s}.ending[];
    won {s}.ending[];
    got int[];
    done text[];
    one {s}.ending;
    woken int := 0;
    w_touches text[];
    w_limits text[];
    aside text[];
    limits text[];
BEGIN
    IF json_array_length(p_ends) = 1 THEN
        one := json_populate_record(NULL::{s}.ending, p_ends -> 0);
        IF one.verdict IS NOT NULL AND one.children IS NULL AND one.note IS NULL AND one.back IS NULL THEN
            said := ARRAY[{s}.finish_one(one.id, one.fence, one.mark, one.seen, one.verdict, one.result, one.attempt,
                                        one.action, one.details, p_again, w_now)];
            rings := said = '{woke}' AND {s}.waits();
            said := array_replace(said, 'woke', 'ok');
            RETURN;
        END IF;
    END IF;
    ends := ARRAY(SELECT e FROM json_populate_recordset(NULL::{s}.ending, p_ends) e);
    IF cardinality(ends) > 1 THEN
        PERFORM 1 FROM {s}.lease l WHERE l.id = ANY (ARRAY(SELECT e.id FROM unnest(ends) e)) ORDER BY l.id FOR UPDATE;
    END IF;
    -- The fence: only this very claim can end, and only once. A judge's end holds only if nobody renewed since it looked.
    FOREACH one IN ARRAY ends LOOP
        DELETE FROM {s}.lease l WHERE l.id = one.id AND l.fence = one.fence AND (one.seen IS NULL OR one.seen = l.until)
            RETURNING l.touches, l.limits INTO w_touches, w_limits;
        IF FOUND THEN
            got := got || one.n;
            IF w_touches IS NOT NULL OR w_limits IS NOT NULL THEN
                aside := aside || one.id;
                limits := limits || w_limits;
            END IF;
        END IF;
    END LOOP;
    IF got IS NOT NULL THEN
        won := CASE WHEN cardinality(got) = cardinality(ends) THEN ends
                    ELSE ARRAY(SELECT e FROM unnest(ends) e WHERE e.n = ANY (got) ORDER BY e.n) END;
        IF EXISTS (SELECT 1 FROM unnest(won) e WHERE e.attempt IS NOT NULL) THEN
            INSERT INTO {s}.attempt (id, doc) SELECT e.id, e.attempt FROM unnest(won) e WHERE e.attempt IS NOT NULL ORDER BY e.n;
        END IF;
        IF EXISTS (SELECT 1 FROM unnest(won) e WHERE e.children IS NOT NULL) THEN
            PERFORM {s}.put_items(ARRAY(
                SELECT i FROM unnest(won) e, json_populate_recordset(NULL::{s}.item, e.children) i
                WHERE e.children IS NOT NULL), w_now);
            woken := 1;
        END IF;
        IF EXISTS (SELECT 1 FROM unnest(won) e WHERE e.verdict IS NOT NULL) THEN
            FOR one IN SELECT e.* FROM unnest(won) e WHERE e.verdict IS NOT NULL ORDER BY e.id LOOP
                UPDATE {s}.task t SET state = CASE one.verdict WHEN 'done' THEN 'd' ELSE 'f' END::"char", result = one.result,
                       fence = one.fence, verdict = one.verdict, mark = one.mark
                    WHERE t.id = one.id;
                IF one.back IS NOT NULL THEN
                    UPDATE {s}.task t SET doc = one.back ->> 'doc', key = decode(one.back ->> 'key', 'hex') WHERE t.id = one.id;
                END IF;
            END LOOP;
            done := nullif(ARRAY(SELECT e.id FROM unnest(won) e WHERE e.verdict = 'done'), '{}');
            DELETE FROM {s}.stop s WHERE s.id = ANY (ARRAY(SELECT e.id FROM unnest(won) e WHERE e.verdict IS NOT NULL));
        END IF;
        IF EXISTS (SELECT 1 FROM unnest(won) e WHERE e.verdict IS NULL) THEN
            PERFORM {s}.go_back(ARRAY(
                SELECT (json_populate_record(NULL::{s}.item, e.back)) FROM unnest(won) e WHERE e.verdict IS NULL), w_now);
            woken := 1;
        END IF;
        INSERT INTO {s}.event (at, worker, action, id, details)
            SELECT w_now, e.fence, e.action, e.id, e.details FROM unnest(won) e ORDER BY e.n;
        IF EXISTS (SELECT 1 FROM unnest(won) e WHERE e.note IS NOT NULL) THEN
            INSERT INTO {s}.note (id, at, worker, kind, words)
                SELECT e.id, w_now, e.fence, e.note_kind, e.note FROM unnest(won) e WHERE e.note IS NOT NULL;
        END IF;
        IF done IS NOT NULL THEN
            woken := woken + {s}.release(done, w_now);
        END IF;
        IF aside IS NOT NULL THEN
            woken := woken + {s}.let_in(aside, limits, w_now);
        END IF;
        said := ARRAY(SELECT CASE WHEN e.n = ANY (got) THEN 'ok' END FROM unnest(ends) e ORDER BY e.n);
    ELSE
        said := array_fill(NULL::text, ARRAY[cardinality(ends)]);
    END IF;
    IF got IS NULL OR cardinality(got) < cardinality(ends) THEN
        FOREACH one IN ARRAY ends LOOP
            IF said[one.n + 1] IS NULL THEN
                said[one.n + 1] := {s}.too_late(one.id, one.fence, one.mark, one.verdict, one.result, one.attempt, p_again, w_now);
            END IF;
        END LOOP;
    END IF;
    rings := woken > 0 AND {s}.waits();
END $$;

-- These are nobody's again, with new text where there is one.
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

CREATE OR REPLACE FUNCTION {s}.reopen(p_items json, p_again boolean, p_now float8, OUT said text[], OUT rings boolean) LANGUAGE plpgsql AS $$
DECLARE
    w_now float8 := {s}.time_of(p_now);
    i {s}.item;
    old record;
BEGIN
    said := '{}';
    FOR i IN SELECT x.* FROM json_populate_recordset(NULL::{s}.item, p_items) x LOOP
        SELECT t.* INTO old FROM {s}.task t WHERE t.id = i.id AND t.state <> 'w' FOR UPDATE;
        IF FOUND AND old.state = 'f' THEN
            INSERT INTO {s}.late (id, at, fence, doc) VALUES (i.id, w_now, old.fence, old.result);
            UPDATE {s}.task t SET state = 'o', result = NULL, fence = NULL, verdict = NULL, mark = NULL WHERE t.id = i.id;
            PERFORM {s}.go_back(ARRAY[i], w_now);
            INSERT INTO {s}.event (at, worker, action, id) VALUES (w_now, i.worker, 'reopened_task', i.id);
            said := said || 'ok'::text;
        ELSE
            said := said || CASE WHEN p_again AND old.state = 'o' AND old.doc = i.doc THEN 'ok' ELSE 'lost' END;
        END IF;
    END LOOP;
    rings := 'ok' = ANY (said) AND {s}.waits();
END $$;

-- Several workers' ends, then their claims: one transaction, on the disk when it answers if anything has ended. First a
-- row of what became of the ends, then a row for each claim, with the number of its wish. Who wants what the one before
-- wanted in vain is not looked for.
CREATE OR REPLACE FUNCTION {s}.turn(p_ends json, p_wants jsonb, p_again boolean, p_now float8)
RETURNS TABLE (n int, said text[], rings boolean, id text, doc text, fence text, since float8) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    w_commit text := current_setting('synchronous_commit');
    w_want jsonb;
    w_wanted jsonb;
    w_missed jsonb;
BEGIN
    IF json_array_length(p_ends) > 0 THEN
        RETURN QUERY SELECT -1, f.said, f.rings, NULL::text, NULL::text, NULL::text, NULL::float8
            FROM {s}.finish(p_ends, p_again, p_now) f;
    END IF;
    FOR place IN 0 .. jsonb_array_length(p_wants) - 1 LOOP
        w_wanted := jsonb_build_array(p_wants -> place -> 'tags', p_wants -> place -> 'big', p_wants -> place -> 'ids');
        IF p_again OR w_missed IS DISTINCT FROM w_wanted THEN
            w_want := p_wants -> place;
            IF w_want -> 'ids' = '[]' AND w_want -> 'tags' = '[]' AND w_want -> 'count' = '1'
               AND NOT (w_want ->> 'even_held')::boolean AND NOT (w_want ->> 'verbatim')::boolean THEN
                RETURN QUERY SELECT place, NULL::text[], NULL::boolean, c.* FROM {s}.claim_one(w_want ->> 'worker',
                    CASE WHEN w_want ->> 'big' IS NULL THEN '{f,t}' ELSE ARRAY[(w_want ->> 'big')::boolean] END,
                    (w_want ->> 'lease')::float8, w_want ->> 'call', (w_want ->> 'member')::bigint, w_want -> 'limits',
                    p_again, p_now) c WHERE c.id IS NOT NULL;
            ELSE
                RETURN QUERY SELECT place, NULL::text[], NULL::boolean, c.* FROM {s}.claim(w_want, p_again, p_now) c;
            END IF;
            IF NOT FOUND THEN
                w_missed := w_wanted;
            END IF;
        END IF;
    END LOOP;
    IF json_array_length(p_ends) > 0 THEN
        PERFORM set_config('synchronous_commit', w_commit, true);  -- a claim need not be on the disk, an end must
    END IF;
END $$;

-- The same for one end that brings nothing along and one claim of any task: what a worker's turn mostly is.
CREATE OR REPLACE FUNCTION {s}.turn_one(p_id text, p_fence text, p_mark text, p_seen float8, p_verdict text, p_result text,
    p_attempt text, p_action text, p_details text, p_worker text, p_bigs boolean[], p_lease float8, p_call text,
    p_member bigint, p_limits jsonb, p_again boolean, p_now float8,
    OUT said text, OUT rings boolean, OUT id text, OUT doc text, OUT fence text, OUT since float8) LANGUAGE plpgsql AS $$
DECLARE w_commit text := current_setting('synchronous_commit');
BEGIN
    said := {s}.finish_one(p_id, p_fence, p_mark, p_seen, p_verdict, p_result, p_attempt, p_action, p_details, p_again,
                           {s}.time_of(p_now));
    rings := said = 'woke' AND {s}.waits();
    SELECT c.* INTO id, doc, fence, since
        FROM {s}.claim_one(p_worker, p_bigs, p_lease, p_call, p_member, p_limits, p_again, p_now) c;
    PERFORM set_config('synchronous_commit', w_commit, true);
END $$;

-- These done tasks are in that file: what stays is what others need of them.
CREATE OR REPLACE FUNCTION {s}.archive(p_ids text[], p_file text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE {s}.task t SET archived = p_file,
        doc = (SELECT json_object_agg(x.key, x.value)::text FROM json_each(t.doc::json) x
               WHERE x.key IN ('id', 'title', 'slug', 'priority', 'created', 'number', 'big', 'tags', 'parent', 'by')),
        result = (SELECT json_object_agg(x.key, x.value)::text FROM json_each(t.result::json) x
                  WHERE x.key IN ('id', 'verdict', 'worker', 'attempt', 'finished', 'seconds', 'children'))
        WHERE t.id = ANY (p_ids) AND t.state = 'd' AND t.archived IS NULL;
    DELETE FROM {s}.attempt a USING {s}.task t WHERE a.id = ANY (p_ids) AND t.id = a.id AND t.archived = p_file;
    DELETE FROM {s}.note n USING {s}.task t WHERE n.id = ANY (p_ids) AND t.id = n.id AND t.archived = p_file;
END $$;

-- -- what runs print and leave --------------------------------------------------------------------

-- A piece of a claim's log, at this byte; how long the log is now. NULL if the claim is over.
CREATE OR REPLACE FUNCTION {s}.add_log(p_id text, p_fence text, p_start bigint, p_data bytea, p_now float8) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE have bigint;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);  -- what a crash takes is sent again
    PERFORM 1 FROM {s}.lease l WHERE l.id = p_id AND l.fence = p_fence;
    IF NOT FOUND THEN
        RETURN NULL;
    ELSIF p_start = 0 AND p_data = '' THEN
        DELETE FROM {s}.printed p WHERE p.id = p_id AND p.fence = p_fence;
        RETURN 0;
    END IF;
    SELECT p.start + length(p.data) INTO have FROM {s}.printed p
        WHERE p.id = p_id AND p.fence = p_fence ORDER BY p.start DESC LIMIT 1;
    have := coalesce(have, 0);
    IF p_start > have OR p_start + length(p_data) <= have THEN
        RETURN have;
    END IF;
    INSERT INTO {s}.printed (id, fence, start, at, data)
        VALUES (p_id, p_fence, have, {s}.time_of(p_now), substr(p_data, (have - p_start + 1)::int)) ON CONFLICT DO NOTHING;
    RETURN p_start + length(p_data);
END $$;

-- The log of a claim is one like any other; its number, NULL if there was none.
CREATE OR REPLACE FUNCTION {s}.end_log(p_id text, p_fence text, p_worker text, p_now float8) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE w_all bytea; made bigint;
BEGIN
    SELECT string_agg(p.data, '' ORDER BY p.start) INTO w_all FROM {s}.printed p WHERE p.id = p_id AND p.fence = p_fence;
    IF w_all IS NOT NULL THEN
        INSERT INTO {s}.log (worker, at, data) VALUES (p_worker, {s}.time_of(p_now), w_all) RETURNING n INTO made;
        DELETE FROM {s}.printed p WHERE p.id = p_id AND p.fence = p_fence;
    END IF;
    RETURN made;
END $$;

-- -- locks ---------------------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION {s}.take_lock(p_name text, p_holder text, p_kind text, p_seconds float8, p_now float8)
RETURNS {s}.lock LANGUAGE plpgsql AS $$
DECLARE w_now float8 := {s}.time_of(p_now); held {s}.lock;
        first bigint := ({s}.epoch() - 1) << 40;  -- numbers grow across a fail-over that lost some
BEGIN
    PERFORM {s}.note_contact(p_now);
    INSERT INTO {s}.lock (name, holder, kind, number, acquired, expires) VALUES (p_name, NULL, p_kind, 0, 0, 0)
        ON CONFLICT (name) DO NOTHING;
    SELECT l.* INTO held FROM {s}.lock l WHERE l.name = p_name FOR UPDATE;
    IF held.holder IS DISTINCT FROM p_holder THEN
        IF held.holder IS NOT NULL AND NOT {s}.may_lapse(held.expires, held.seconds, held.graced, p_now) THEN
            UPDATE {s}.lock l SET graced = w_now + held.seconds
                WHERE l.name = p_name AND held.expires < w_now AND held.graced = 0;
            RETURN held;
        END IF;
        held.number := greatest(held.number, first) + 1;
        held.acquired := w_now;
        held.kind := p_kind;
    END IF;
    UPDATE {s}.lock l SET holder = p_holder, kind = held.kind, number = held.number, acquired = held.acquired,
           expires = w_now + p_seconds, seconds = p_seconds, graced = 0 WHERE l.name = p_name RETURNING l.* INTO held;
    RETURN held;
END $$;

CREATE OR REPLACE FUNCTION {s}.keep_lock(p_name text, p_holder text, p_number bigint, p_seconds float8, p_now float8) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE {s}.lock l SET expires = {s}.time_of(p_now) + p_seconds, seconds = p_seconds, graced = 0
        WHERE l.name = p_name AND l.holder = p_holder AND p_number IN (0, l.number);
    RETURN FOUND;
END $$;

CREATE OR REPLACE FUNCTION {s}.free_lock(p_name text, p_holder text, p_number bigint, p_again boolean) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    UPDATE {s}.lock l SET holder = NULL WHERE l.name = p_name AND l.holder = p_holder AND p_number IN (0, l.number);
    RETURN FOUND OR (p_again AND EXISTS (SELECT 1 FROM {s}.lock l WHERE l.name = p_name AND l.holder IS NULL AND l.number = p_number));
END $$;

-- -- who works, who waits ------------------------------------------------------------------------

-- The number of a worker that stays; NULL if the name is in use. p_dead are those whose process is known to be gone.
CREATE OR REPLACE FUNCTION {s}.join_as(p_worker text, p_host text, p_pid bigint, p_born text, p_lease float8, p_dead bigint[],
    p_again boolean, p_now float8) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE w_now float8 := {s}.time_of(p_now); made bigint;
BEGIN
    PERFORM {s}.note_contact(p_now);
    UPDATE {s}.member m SET graced = w_now + m.lease
        WHERE m.worker = p_worker AND m.until < w_now AND m.graced = 0 AND NOT {s}.may_lapse(m.until, m.lease, 0, p_now);
    DELETE FROM {s}.member m WHERE m.worker = p_worker AND (m.id = ANY (p_dead) OR (
        {s}.may_lapse(m.until, m.lease, m.graced, p_now) AND NOT EXISTS (
            SELECT 1 FROM {s}.lease l
            WHERE l.member = m.id AND NOT {s}.may_lapse(l.until, l.until - l.seen, l.graced, p_now))));
    INSERT INTO {s}.member (worker, host, pid, born, until, lease)
        VALUES (p_worker, p_host, p_pid, p_born, w_now + p_lease, p_lease)
        ON CONFLICT (worker) DO NOTHING RETURNING member.id INTO made;
    IF made IS NULL AND p_again THEN
        SELECT m.id INTO made FROM {s}.member m
            WHERE m.worker = p_worker AND m.host = p_host AND m.pid = p_pid AND m.born = p_born;
    END IF;
    RETURN made;
END $$;

-- Claims that may be given back: of workers that are gone, and those that were not renewed although they could have been.
-- A lease that expired in an outage gets the time of one more lease first; not if p_dry, which changes nothing.
CREATE OR REPLACE FUNCTION {s}.lapsed(p_dead bigint[], p_dry boolean, p_now float8)
RETURNS TABLE (id text, doc text, worker text, fence text, until float8, seconds float8, gone boolean, stopped boolean)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE w_now float8;
BEGIN
    IF NOT p_dry THEN
        PERFORM {s}.note_contact(p_now);
        w_now := {s}.time_of(p_now);
        UPDATE {s}.lease l SET graced = w_now + l.until - l.seen
            WHERE l.until < w_now AND l.graced = 0 AND NOT {s}.may_lapse(l.until, l.until - l.seen, 0, p_now);
    END IF;
    RETURN QUERY
        SELECT x.id, t.doc, x.worker, x.fence, x.until, x.seconds, x.gone,
               EXISTS (SELECT 1 FROM {s}.stop p WHERE p.id = x.id)
        FROM (SELECT l.*, l.until - l.seen AS seconds, l.member IS NOT NULL AND m.id IS NULL AS gone
              FROM {s}.lease l LEFT JOIN {s}.member m ON m.id = l.member AND NOT m.id = ANY (p_dead)) x
        JOIN {s}.task t ON t.id = x.id AND t.state = 'o'
        WHERE x.gone OR {s}.may_lapse(x.until, x.seconds, x.graced, p_now);
END $$;

-- Whoever sleeps is woken; in a transaction of its own that need not be on the disk.
CREATE OR REPLACE FUNCTION {s}.ring(p_channel text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    PERFORM pg_notify(p_channel, '');
END $$;

-- What a hand in the tables may leave and no verb does: an id, what is wrong, and the task's text where it stands nowhere.
CREATE OR REPLACE FUNCTION {s}.astray() RETURNS TABLE (id text, kind text, doc text) LANGUAGE plpgsql STABLE
SET jit = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY SELECT t.id, 'stray task', t.doc FROM {s}.task t
        WHERE t.state = 'o' AND NOT EXISTS (SELECT 1 FROM {s}.lease l WHERE l.id = t.id)
              AND NOT EXISTS (SELECT 1 FROM {s}.waiting w WHERE w.id = t.id)
              AND NOT EXISTS (SELECT 1 FROM {s}.ready r WHERE r.key = t.key AND r.id = t.id AND r.big IN (false, true))
    UNION ALL
    SELECT w.id, 'waits for nothing', NULL FROM {s}.waiting w
        WHERE w.blocked AND NOT EXISTS (
            SELECT 1 FROM {s}.need n JOIN {s}.task t ON t.id = n.on_id WHERE n.id = w.id AND t.state <> 'd')
    UNION ALL
    SELECT x.id, 'no such task', NULL FROM (
            SELECT r.id FROM {s}.ready r UNION SELECT w.id FROM {s}.waiting w UNION SELECT l.id FROM {s}.lease l) x
        WHERE NOT EXISTS (SELECT 1 FROM {s}.task t WHERE t.id = x.id AND t.state = 'o')
    UNION ALL
    SELECT r.id, 'not under its tags', NULL FROM {s}.ready r
        WHERE EXISTS (SELECT 1 FROM unnest(r.tags) x(tag)
            WHERE NOT EXISTS (SELECT 1 FROM {s}.ready_tag g WHERE g.tag = x.tag AND g.big = r.big AND g.key = r.key))
    UNION ALL
    SELECT w.id, 'stands aside', NULL FROM {s}.waiting w LEFT JOIN {s}.lane x ON x.lane = w.lane
        WHERE w.lane IS NOT NULL AND CASE
            WHEN x.lane IS NULL THEN w.lane NOT IN (
                SELECT {s}.lane_of(r.big, r.tags, r.touches, r.limits) FROM {s}.ready r
                WHERE r.touches IS NOT NULL OR r.limits IS NOT NULL)
            WHEN x.blocker LIKE '=%' THEN NOT EXISTS (
                SELECT 1 FROM {s}.lease l, unnest(l.limits) y(said) WHERE '=' || split_part(y.said, '=', 1) = x.blocker)
            ELSE x.blocker <> '' AND NOT EXISTS (SELECT 1 FROM {s}.lease l WHERE l.id = x.blocker) END;
END $$;

-- All of that is put right. p_items are the stray tasks, spelt as a put would.
CREATE OR REPLACE FUNCTION {s}.put_right(p_items json, p_now float8) RETURNS TABLE (id text, kind text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE w_now float8 := {s}.time_of(p_now); free text[]; ghosts text[]; strays text[]; ids text[]; kinds text[];
BEGIN
    LOCK TABLE {s}.ready, {s}.ready_tag, {s}.waiting, {s}.lease IN SHARE ROW EXCLUSIVE MODE;  -- nobody moves a task meanwhile
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
        SELECT x FROM json_populate_recordset(NULL::{s}.item, p_items) x WHERE x.id = ANY (strays)), w_now);
    DELETE FROM {s}.ready_tag g WHERE NOT EXISTS (
        SELECT 1 FROM {s}.ready r WHERE r.big = g.big AND r.key = g.key AND g.tag = ANY (r.tags));
    INSERT INTO {s}.ready_tag (tag, big, key)
        SELECT DISTINCT x.tag, r.big, r.key FROM {s}.ready r, unnest(r.tags) x(tag) ON CONFLICT DO NOTHING;
    RETURN QUERY SELECT f.id, f.kind FROM unnest(ids, kinds) f(id, kind);
END $$;

-- Ids after a place in the order of one state: r(eady), c(laimed), f(ailed) or d(one).
CREATE OR REPLACE FUNCTION {s}.places(p_state text, p_after bytea, p_limit int) RETURNS TABLE (id text, key bytea) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    IF p_state = 'r' THEN
        RETURN QUERY SELECT x.id, x.key FROM (
            (SELECT r.id, r.key FROM {s}.ready r WHERE r.big = false AND r.key > p_after ORDER BY r.key LIMIT p_limit)
            UNION ALL
            (SELECT r.id, r.key FROM {s}.ready r WHERE r.big = true AND r.key > p_after ORDER BY r.key LIMIT p_limit)
            UNION ALL
            (SELECT w.id, w.key FROM {s}.waiting w WHERE w.key > p_after ORDER BY w.key LIMIT p_limit)) x
            ORDER BY x.key LIMIT p_limit;
    ELSIF p_state = 'c' THEN
        RETURN QUERY SELECT l.id, l.key FROM {s}.lease l WHERE l.key > p_after ORDER BY l.key LIMIT p_limit;
    ELSIF p_state = 'd' THEN
        RETURN QUERY SELECT t.id, t.key FROM {s}.task t
            WHERE t.state = 'd' AND t.key > p_after ORDER BY t.state, t.key LIMIT p_limit;
    ELSE
        RETURN QUERY SELECT t.id, t.key FROM {s}.task t
            WHERE t.state = 'f' AND t.key > p_after ORDER BY t.state, t.key LIMIT p_limit;
    END IF;
END $$;

-- A plan made while the tables were small is kept by each session when they have grown: a scan of four rows becomes one of
-- a million. So the hot verbs are planned for large tables from the first day, and join nothing: each table is asked by its key.
DO $$
DECLARE verb text; setting text;
BEGIN
    FOR verb IN SELECT p.oid::regprocedure::text FROM pg_proc p WHERE p.pronamespace = '{q}'::regnamespace AND p.proname IN (
        'put', 'put_one', 'put_plain', 'claim', 'claim_one', 'finish', 'renew', 'turn', 'turn_one', 'reopen', 'places') LOOP
        FOREACH setting IN ARRAY ARRAY['enable_seqscan', 'enable_bitmapscan', 'enable_hashjoin', 'enable_mergejoin',
                                        'jit'] LOOP
            EXECUTE format('ALTER FUNCTION %s SET %s = off', verb, setting);
        END LOOP;
        EXECUTE format('ALTER FUNCTION %s SET plan_cache_mode = force_generic_plan', verb);
        EXECUTE format('ALTER FUNCTION %s SET lock_timeout = %L', verb, '5s');  -- then it is undone, and tried again
    END LOOP;
    -- No function or operator of another login is found in place of the server's own, in the worker's session.
    FOR verb IN SELECT p.oid::regprocedure::text FROM pg_proc p WHERE p.pronamespace = '{q}'::regnamespace LOOP
        EXECUTE format('ALTER FUNCTION %s SET search_path = pg_catalog, pg_temp', verb);
    END LOOP;
END $$;
