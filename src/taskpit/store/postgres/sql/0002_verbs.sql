-- The verbs. Each call is one transaction and one round trip; nothing here depends on a session.
-- p_now is the time a test's clock shows; NULL, always but there, is the server's own clock.
-- Every version runs this file and the next one whole: what a function is now stands here and nowhere else.

CREATE OR REPLACE FUNCTION {s}.time_of(p_now float8) RETURNS float8 LANGUAGE plpgsql VOLATILE AS
$$ BEGIN RETURN coalesce(p_now, extract(epoch FROM clock_timestamp())::float8); END $$;

-- Which history this server goes on with: another after every fail-over, so that no fence is given out twice.
CREATE OR REPLACE FUNCTION {s}.epoch() RETURNS bigint LANGUAGE plpgsql VOLATILE AS
$$ BEGIN RETURN ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::bigint; END $$;

-- -- outages -------------------------------------------------------------------------------------

-- When the server was last reached; never, if it has restarted or another has taken over since, which may have lost renewals.
CREATE OR REPLACE FUNCTION {s}.last_contact() RETURNS float8 LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN coalesce((SELECT c.at FROM {s}.contact c
                     WHERE c.epoch = {s}.epoch() AND c.at > extract(epoch FROM pg_postmaster_start_time())), '-infinity');
END $$;

-- Note that the server was reached. A gap since the last note is an outage for every lease that it exceeds a tenth of.
-- A test's clock says nothing about the server.
CREATE OR REPLACE FUNCTION {s}.note_contact(p_now float8) RETURNS void LANGUAGE plpgsql AS $$
DECLARE w_now float8 := {s}.time_of(p_now); w_at float8; w_gap float8;
BEGIN
    IF p_now IS NOT NULL THEN
        RETURN;
    END IF;
    w_at := {s}.last_contact();
    IF w_at <= w_now AND w_now - w_at < 0.02 THEN
        RETURN;  -- another process has just noted it
    END IF;
    INSERT INTO {s}.contact (at, epoch) VALUES ('-infinity', 0) ON CONFLICT DO NOTHING;
    PERFORM 1 FROM {s}.contact c FOR UPDATE;  -- the statements after this one see what the others noted
    w_now := {s}.time_of(p_now);
    w_gap := w_now - {s}.last_contact();
    IF w_gap > 0.1 THEN  -- the tenth of a lease of one second
        DELETE FROM {s}.outage o WHERE o.seconds <= w_gap OR o.ended + 10 * o.seconds < w_now;
        INSERT INTO {s}.outage (ended, seconds) VALUES (w_now, w_gap);
    END IF;
    UPDATE {s}.contact c SET at = w_now, epoch = {s}.epoch();
END $$;

-- The end of the last outage that counts for a lease of so many seconds: it lasts at least that long after it.
CREATE OR REPLACE FUNCTION {s}.calm_since(p_seconds float8, p_now float8) RETURNS float8 LANGUAGE plpgsql VOLATILE AS $$
DECLARE w_now float8 := {s}.time_of(p_now);
BEGIN
    RETURN CASE WHEN p_now IS NOT NULL THEN 0
           WHEN w_now - {s}.last_contact() > greatest(p_seconds / 10, 0.1) THEN w_now
           ELSE coalesce((SELECT max(o.ended) FROM {s}.outage o WHERE o.seconds > p_seconds / 10), 0) END;
END $$;

-- Whether a lease of so many seconds that ended at p_until may be taken from its holder.
CREATE OR REPLACE FUNCTION {s}.may_lapse(p_until float8, p_seconds float8, p_graced float8, p_now float8) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE w_now float8 := {s}.time_of(p_now);
BEGIN
    RETURN p_until < w_now AND ((p_graced > 0 AND p_graced < w_now) OR {s}.calm_since(p_seconds, p_now) + p_seconds <= w_now);
END $$;

-- -- where claims begin to look -----------------------------------------------------------------

-- Whoever makes a task ready holds this, shared, until it is committed; whoever raises the floor holds it alone. So no
-- task becomes ready behind a floor that was raised meanwhile.
CREATE OR REPLACE FUNCTION {s}.lower_floor(p_big boolean, p_key bytea) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(1953720681, '{q}.ready'::regclass::oid::int);
    UPDATE {s}.floor f SET key = p_key WHERE f.big = p_big AND f.key > p_key;
END $$;

-- Where many rows are dead and cannot be cleaned away, claims begin at what is ready now; else at the start, as ever.
-- In a transaction of its own, so that nobody waits for it and it for nobody. Whether it could look.
CREATE OR REPLACE FUNCTION {s}.raise_floor(p_many bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE w_dead bigint := pg_stat_get_dead_tuples('{q}.ready'::regclass); w_was bigint; w_big boolean; w_key bytea;
BEGIN
    SELECT max(f.dead) INTO w_was FROM {s}.floor f;
    IF (w_was IS NULL AND w_dead < p_many) OR (w_dead >= p_many AND w_dead BETWEEN w_was AND w_was + p_many / 2) THEN
        RETURN true;
    ELSIF NOT pg_try_advisory_xact_lock(1953720681, '{q}.ready'::regclass::oid::int) THEN
        RETURN false;
    ELSIF w_dead < p_many THEN
        DELETE FROM {s}.floor;
        RETURN true;
    END IF;
    FOREACH w_big IN ARRAY ARRAY[false, true] LOOP
        SELECT r.key INTO w_key FROM {s}.ready r
            WHERE r.big = w_big AND r.key >= {s}.floor_of(w_big) ORDER BY r.key LIMIT 1;
        IF NOT FOUND THEN
            w_key := '\xffffffffffffffffffffffffffffffff';
        END IF;
        INSERT INTO {s}.floor (big, key, dead) VALUES (w_big, w_key, w_dead)
            ON CONFLICT (big) DO UPDATE SET key = excluded.key, dead = excluded.dead;
    END LOOP;
    RETURN true;
END $$;

CREATE OR REPLACE FUNCTION {s}.floor_of(p_big boolean) RETURNS bytea LANGUAGE plpgsql STABLE AS
$$ BEGIN RETURN coalesce((SELECT f.key FROM {s}.floor f WHERE f.big = p_big), ''); END $$;

-- -- in ------------------------------------------------------------------------------------------

-- These open tasks are nobody's: ready, or waiting if something holds them.
CREATE OR REPLACE FUNCTION {s}.enter(p_items {s}.item[], p_now float8) RETURNS void LANGUAGE plpgsql AS $$
DECLARE needed text[];
BEGIN
    needed := ARRAY(SELECT DISTINCT x.need FROM unnest(p_items) i, unnest(i.needs) x(need));
    IF needed <> '{}' THEN
        -- A need nobody has put yet gets a row all the same: whoever puts it waits for us, or we for them.
        INSERT INTO {s}.task (id, state, key, wish, doc)
            SELECT x.need, 'w'::"char", ''::bytea, ''::bytea, '' FROM unnest(needed) x(need)
            ORDER BY 1 ON CONFLICT (id) DO NOTHING;
        -- Whoever ends one of the needs waits for us, or we for them. The statement after this one sees what they did.
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

-- Those of these waiting tasks that nothing holds any more are ready.
CREATE OR REPLACE FUNCTION {s}.promote(p_ids text[], p_now float8) RETURNS int LANGUAGE plpgsql AS $$
DECLARE moved int; small bytea; large bytea;
BEGIN
    WITH free AS (
        DELETE FROM {s}.waiting w WHERE w.id = ANY (p_ids) AND NOT w.held AND NOT w.blocked AND w.due <= p_now
            AND w.lane IS NULL RETURNING w.*),
    ready AS (
        INSERT INTO {s}.ready (big, key, id, tags, touches, limits, mark)
            SELECT f.big, f.key, f.id, f.tags, f.touches, f.limits, f.mark FROM free f RETURNING big, key),
    tagged AS (
        INSERT INTO {s}.ready_tag (tag, big, key)
            SELECT DISTINCT x.tag, f.big, f.key FROM free f, unnest(f.tags) x(tag))
    SELECT count(*), (array_agg(r.key ORDER BY r.key) FILTER (WHERE NOT r.big))[1],
           (array_agg(r.key ORDER BY r.key) FILTER (WHERE r.big))[1] FROM ready r INTO moved, small, large;
    IF small IS NOT NULL THEN
        PERFORM {s}.lower_floor(false, small);
    END IF;
    IF large IS NOT NULL THEN
        PERFORM {s}.lower_floor(true, large);
    END IF;
    RETURN moved;
END $$;

-- The number of tasks whose time has come.
CREATE OR REPLACE FUNCTION {s}.ripen(p_now float8) RETURNS int LANGUAGE plpgsql AS $$
DECLARE ids text[];
BEGIN
    ids := ARRAY(
        SELECT w.id FROM {s}.waiting w WHERE NOT w.held AND NOT w.blocked AND w.lane IS NULL AND w.due <= p_now
        ORDER BY w.due LIMIT 1000 FOR UPDATE SKIP LOCKED);
    RETURN CASE WHEN ids = '{}' THEN 0 ELSE {s}.promote(ids, p_now) END;
END $$;

CREATE OR REPLACE FUNCTION {s}.put_items(p_items {s}.item[], p_now float8) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE fresh text[];
BEGIN
    WITH given AS (SELECT DISTINCT ON (i.id) i.* FROM unnest(p_items) i ORDER BY i.id, i.n),
    made AS (
        INSERT INTO {s}.task (id, state, key, wish, doc)
            SELECT g.id, 'o'::"char", decode(g.key, 'hex'), decode(g.wish, 'hex'), g.doc FROM given g ORDER BY g.id
            ON CONFLICT (id) DO UPDATE SET state = 'o', key = excluded.key, wish = excluded.wish, doc = excluded.doc
                WHERE task.state = 'w'
            RETURNING id)
    SELECT array_agg(made.id) FROM made INTO fresh;
    IF fresh IS NOT NULL THEN
        IF cardinality(fresh) = cardinality(p_items) THEN
            PERFORM {s}.enter(p_items, p_now);
        ELSE
            PERFORM {s}.enter(ARRAY(
                SELECT x.i FROM (
                    SELECT DISTINCT ON (i.id) i FROM unnest(p_items) i WHERE i.id = ANY (fresh) ORDER BY i.id, i.n) x), p_now);
        END IF;
        INSERT INTO {s}.event (at, worker, action, id, details)
            SELECT p_now, x.worker, 'added_task', x.id, x.details FROM (
                SELECT DISTINCT ON (i.id) i.* FROM unnest(p_items) i WHERE i.id = ANY (fresh) ORDER BY i.id, i.n) x
            ORDER BY x.n;
        IF cardinality(fresh) = cardinality(p_items) THEN
            RETURN array_fill('created'::text, ARRAY[cardinality(p_items)]);
        END IF;
    END IF;
    RETURN ARRAY(
        SELECT CASE WHEN i.id = ANY (fresh) AND NOT EXISTS (SELECT 1 FROM unnest(p_items) j WHERE j.id = i.id AND j.n < i.n)
                        THEN 'created'
                    WHEN (SELECT t.wish FROM {s}.task t WHERE t.id = i.id) = decode(i.wish, 'hex') THEN 'exists'
                    ELSE 'conflict' END
        FROM unnest(p_items) i ORDER BY i.n);
END $$;

-- Whether somebody sleeps who should be woken once this is committed.
CREATE OR REPLACE FUNCTION {s}.waits() RETURNS boolean LANGUAGE plpgsql VOLATILE AS
$$ BEGIN RETURN EXISTS (SELECT 1 FROM {s}.waiter w WHERE w.until > clock_timestamp()); END $$;

-- One task that nothing holds: what most puts are, in the simplest statements.
DROP FUNCTION IF EXISTS {s}.put_one({s}.item, float8);
CREATE OR REPLACE FUNCTION {s}.put_one(p_id text, p_big boolean, p_key bytea, p_wish bytea, p_doc text, p_worker text, p_details text,
    p_now float8, OUT said text[], OUT rings boolean) LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO {s}.task (id, state, key, wish, doc) VALUES (p_id, 'o', p_key, p_wish, p_doc)
        ON CONFLICT (id) DO UPDATE SET state = 'o', key = excluded.key, wish = excluded.wish, doc = excluded.doc
            WHERE task.state = 'w';
    IF NOT FOUND THEN
        said := ARRAY[CASE WHEN (SELECT t.wish FROM {s}.task t WHERE t.id = p_id) = p_wish THEN 'exists' ELSE 'conflict' END];
        rings := false;
        RETURN;
    END IF;
    INSERT INTO {s}.ready (big, key, id) VALUES (p_big, p_key, p_id);
    PERFORM {s}.lower_floor(p_big, p_key);
    INSERT INTO {s}.event (at, worker, action, id, details) VALUES ({s}.time_of(p_now), p_worker, 'added_task', p_id, p_details);
    said := '{created}';
    rings := {s}.waits();
END $$;

CREATE OR REPLACE FUNCTION {s}.put(p_items json, p_now float8, OUT said text[], OUT rings boolean) LANGUAGE plpgsql AS $$
BEGIN
    said := {s}.put_items(
        ARRAY(SELECT x FROM json_populate_recordset(NULL::{s}.item, p_items) x), {s}.time_of(p_now));
    rings := 'created' = ANY (said) AND {s}.waits();
END $$;

-- Tasks that nothing holds, each with an id of its own: what most batches are, in columns instead of JSON.
CREATE OR REPLACE FUNCTION {s}.put_plain(p_ids text[], p_bigs boolean[], p_keys bytea[], p_wishes bytea[], p_docs text[],
    p_workers text[], p_details text[], p_now float8, OUT said text[], OUT rings boolean) LANGUAGE plpgsql AS $$
DECLARE w_now float8 := {s}.time_of(p_now); fresh text[];
BEGIN
    WITH made AS (
        INSERT INTO {s}.task (id, state, key, wish, doc)
            SELECT x.id, 'o'::"char", x.key, x.wish, x.doc
            FROM unnest(p_ids, p_keys, p_wishes, p_docs) x(id, key, wish, doc) ORDER BY x.id
            ON CONFLICT (id) DO UPDATE SET state = 'o', key = excluded.key, wish = excluded.wish, doc = excluded.doc
                WHERE task.state = 'w'
            RETURNING id)
    SELECT array_agg(made.id) FROM made INTO fresh;
    IF cardinality(fresh) = cardinality(p_ids) THEN
        said := array_fill('created'::text, ARRAY[cardinality(p_ids)]);
    ELSE
        said := ARRAY(
            SELECT CASE WHEN x.id = ANY (fresh) THEN 'created'
                        WHEN (SELECT t.wish FROM {s}.task t WHERE t.id = x.id) = x.wish THEN 'exists'
                        ELSE 'conflict' END
            FROM unnest(p_ids, p_wishes) WITH ORDINALITY x(id, wish, n) ORDER BY x.n);
    END IF;
    IF fresh IS NOT NULL THEN
        INSERT INTO {s}.ready (big, key, id)
            SELECT x.big, x.key, x.id FROM unnest(p_bigs, p_keys, p_ids, said) x(big, key, id, said) WHERE x.said = 'created';
        PERFORM {s}.lower_floor(x.big, x.key) FROM (
            SELECT DISTINCT ON (i.big) i.big, i.key FROM unnest(p_bigs, p_keys) i(big, key) ORDER BY i.big, i.key) x;
        INSERT INTO {s}.event (at, worker, action, id, details)
            SELECT w_now, x.worker, 'added_task', x.id, x.details
            FROM unnest(p_workers, p_ids, p_details, said) x(worker, id, details, said) WHERE x.said = 'created';
    END IF;
    rings := fresh IS NOT NULL AND {s}.waits();
END $$;

CREATE OR REPLACE FUNCTION {s}.allot(p_count int) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE candidate bigint; word text; step bigint;
BEGIN
    FOR turn IN 1..p_count LOOP
        step := 1;
        LOOP
            candidate := nextval('{q}.task_number');
            word := CASE WHEN candidate < 10000 THEN lpad(candidate::text, 4, '0') ELSE candidate::text END;
            EXIT WHEN NOT EXISTS (SELECT 1 FROM {s}.task t WHERE t.id = word);
            -- Somebody chose these ids himself: look further and further ahead, not at each of a million.
            IF step > 16 THEN
                PERFORM setval('{q}.task_number', candidate + step);
            END IF;
            step := step * 2;
        END LOOP;
        RETURN NEXT word;
    END LOOP;
END $$;

-- -- out -----------------------------------------------------------------------------------------

-- What stands before the first wildcard of a glob, with a * behind it if there is one.
CREATE OR REPLACE FUNCTION {s}.literal(p_glob text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT substring(x.glob FROM '^[^*?[]*') || CASE WHEN x.glob ~ '[*?[]' THEN '*' ELSE '' END
    FROM (SELECT CASE WHEN p_glob LIKE './%' THEN substr(p_glob, 3) ELSE p_glob END AS glob) x
$$;

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

-- What keeps a task with these paths and limits from running now: a task, = and a key that is used up, or only the time
-- (empty); and when to look again at the latest. NULL if nothing does. p_settings is what the queue allows of each key;
-- NULL where nobody knows: then a key alone is in nobody's way.
CREATE OR REPLACE FUNCTION {s}.excluded(p_touches text[], p_limits text[], p_settings jsonb, p_now float8,
    OUT blocker text, OUT due float8) LANGUAGE plpgsql VOLATILE AS $$
DECLARE w_key text; w_said text; w_number int; w_used int; w_words text[];
BEGIN
    due := 'infinity';
    IF p_touches IS NOT NULL THEN
        SELECT l.id INTO blocker FROM {s}.lease l, unnest(l.touches) theirs, unnest(p_touches) mine
            WHERE l.touches IS NOT NULL AND {s}.overlap({s}.literal(mine), {s}.literal(theirs)) LIMIT 1;
        IF FOUND THEN
            RETURN;
        END IF;
    END IF;
    IF p_limits IS NULL THEN
        RETURN;
    END IF;
    FOR w_key IN SELECT DISTINCT split_part(x.said, '=', 1) FROM unnest(p_limits) x(said) LOOP
        w_words := ARRAY(SELECT substr(x.said, length(w_key) + 2) FROM unnest(p_limits) x(said)
                         WHERE starts_with(x.said, w_key || '='));
        IF p_settings ? w_key THEN
            w_words := w_words || (p_settings ->> w_key);
        ELSIF w_words = '{}' AND p_settings IS NOT NULL THEN
            w_words := '{1}';
        END IF;
        FOREACH w_said IN ARRAY w_words LOOP
            w_number := split_part(w_said, '/', 1)::int;
            IF w_said LIKE '%/min' THEN
                SELECT x.at + 60 INTO due FROM {s}.start x WHERE x.key = w_key AND x.at > p_now - 60 AND x.at <= p_now + 60
                    ORDER BY x.at DESC OFFSET w_number - 1 LIMIT 1;
                IF FOUND THEN
                    blocker := '';
                    RETURN;
                END IF;
                due := 'infinity';
            ELSE
                SELECT count(*) INTO w_used FROM {s}.lease l WHERE l.limits IS NOT NULL
                    AND EXISTS (SELECT 1 FROM unnest(l.limits) x(said) WHERE split_part(x.said, '=', 1) = w_key);
                IF w_used >= w_number THEN
                    blocker := '=' || w_key;
                    RETURN;
                END IF;
            END IF;
        END LOOP;
    END LOOP;
END $$;

-- Claims and ends of tasks that declare paths or limits come one after another.
CREATE OR REPLACE FUNCTION {s}.one_by_one() RETURNS void LANGUAGE sql VOLATILE AS
$$ SELECT pg_advisory_xact_lock(1953720680, '{q}.lease'::regclass::oid::int) $$;

-- Tasks of one sort wait for the same, so only the first of them is ever tried for.
CREATE OR REPLACE FUNCTION {s}.lane_of(p_big boolean, p_tags text[], p_touches text[], p_limits text[]) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN
    RETURN md5(concat_ws('|', p_big, coalesce(p_tags, '{}')::text, coalesce(p_touches, '{}')::text, coalesce(p_limits, '{}')::text));
END $$;

-- Those of these new tasks that are not of a sort which waits already; the others stand aside with it. A lane that
-- another is just deciding about is left to it: what is ready is tried for in its turn.
CREATE OR REPLACE FUNCTION {s}.stand_aside(p_items {s}.item[]) RETURNS {s}.item[] LANGUAGE plpgsql AS $$
DECLARE i {s}.item; w_lane text; left_over {s}.item[] := '{}';
BEGIN
    FOREACH i IN ARRAY p_items LOOP
        w_lane := NULL;
        IF i.touches IS NOT NULL OR i.limits IS NOT NULL THEN
            SELECT x.lane INTO w_lane FROM {s}.lane x
                WHERE x.lane = {s}.lane_of(i.big, i.tags, i.touches, i.limits) FOR SHARE SKIP LOCKED;
        END IF;
        IF w_lane IS NULL THEN
            left_over := left_over || i;
        ELSE
            INSERT INTO {s}.waiting (id, big, key, tags, touches, limits, mark, held, blocked, due, lane)
                VALUES (i.id, i.big, decode(i.key, 'hex'), i.tags, i.touches, i.limits, i.mark, false, false, i.due, w_lane);
        END IF;
    END LOOP;
    RETURN left_over;
END $$;

-- The first of those that stand aside in this lane is ready, unless something is in its way: then the lane says what.
-- In the turn of all who claim and end such tasks. Whether one became ready.
CREATE OR REPLACE FUNCTION {s}.settle(p_lane text, p_settings jsonb, p_now float8) RETURNS int LANGUAGE plpgsql AS $$
DECLARE head {s}.waiting; w_blocker text; w_due float8;
BEGIN
    PERFORM 1 FROM {s}.lane x WHERE x.lane = p_lane FOR UPDATE;  -- whoever is just putting into it is seen by what follows
    SELECT w.* INTO head FROM {s}.waiting w WHERE w.lane = p_lane ORDER BY w.key LIMIT 1;
    IF FOUND THEN
        SELECT e.blocker, e.due INTO w_blocker, w_due FROM {s}.excluded(head.touches, head.limits, p_settings, p_now) e;
        IF w_blocker IS NOT NULL THEN
            INSERT INTO {s}.lane (lane, blocker, due) VALUES (p_lane, w_blocker, w_due)
                ON CONFLICT (lane) DO UPDATE SET blocker = excluded.blocker, due = excluded.due;
            RETURN 0;
        END IF;
    END IF;
    DELETE FROM {s}.lane x WHERE x.lane = p_lane;
    IF head.id IS NULL THEN
        RETURN 0;
    END IF;
    UPDATE {s}.waiting w SET lane = NULL WHERE w.id = head.id;
    RETURN {s}.promote(ARRAY[head.id], p_now);
END $$;

-- This ready task stands aside: it is locked by us, and it is our turn.
CREATE OR REPLACE FUNCTION {s}.park(p_row {s}.ready, p_blocker text, p_due float8, p_now float8) RETURNS void LANGUAGE plpgsql AS $$
DECLARE w_lane text := {s}.lane_of(p_row.big, p_row.tags, p_row.touches, p_row.limits);
BEGIN
    DELETE FROM {s}.ready r WHERE r.big = p_row.big AND r.key = p_row.key;
    DELETE FROM {s}.ready_tag t WHERE t.tag = ANY (p_row.tags) AND t.big = p_row.big AND t.key = p_row.key;
    INSERT INTO {s}.lane (lane, blocker, due) VALUES (w_lane, p_blocker, p_due)
        ON CONFLICT (lane) DO UPDATE SET blocker = excluded.blocker, due = excluded.due;
    INSERT INTO {s}.waiting (id, big, key, tags, touches, limits, mark, held, blocked, due, lane)
        VALUES (p_row.id, p_row.big, p_row.key, p_row.tags, p_row.touches, p_row.limits, p_row.mark, false, false, p_now, w_lane);
END $$;

-- Tasks with these paths and limits have ended: what stood aside for them is looked at. How many are ready now.
CREATE OR REPLACE FUNCTION {s}.let_in(p_ids text[], p_limits text[], p_now float8) RETURNS int LANGUAGE plpgsql AS $$
DECLARE w_lane text; freed int := 0;
BEGIN
    PERFORM {s}.one_by_one();
    FOR w_lane IN SELECT x.lane FROM {s}.lane x
        WHERE x.blocker = ANY (p_ids || ARRAY(SELECT '=' || split_part(y.said, '=', 1) FROM unnest(p_limits) y(said))) ORDER BY 1 LOOP
        freed := freed + {s}.settle(w_lane, NULL, p_now);
    END LOOP;
    RETURN freed;
END $$;

-- The best that are ready, locked: one head for each tag and size, so that none is searched for among the others.
-- Only those after p_after, if that is said.
DROP FUNCTION IF EXISTS {s}.pick(int, text[], boolean[]);
CREATE OR REPLACE FUNCTION {s}.pick(p_count int, p_tags text[], p_bigs boolean[], p_after bytea, OUT keys bytea[], OUT alone boolean)
LANGUAGE plpgsql AS $$
BEGIN
    IF p_tags IS NULL THEN
        SELECT array_agg(h.key ORDER BY h.key), bool_or(h.alone) INTO keys, alone FROM (
            SELECT head.* FROM unnest(p_bigs) lane(big), LATERAL (
                SELECT r.key, r.touches IS NOT NULL OR r.limits IS NOT NULL AS alone FROM {s}.ready r
                WHERE r.big = lane.big AND r.key > p_after AND r.key >= {s}.floor_of(lane.big)
                ORDER BY r.key LIMIT p_count FOR UPDATE SKIP LOCKED) head
            ORDER BY head.key LIMIT p_count) h;
    ELSE
        SELECT array_agg(h.key ORDER BY h.key), bool_or(h.alone) INTO keys, alone FROM (
            SELECT DISTINCT ON (head.key) head.* FROM unnest(p_tags) wanted(tag), unnest(p_bigs) lane(big), LATERAL (
                SELECT one.key, one.alone FROM {s}.ready_tag g, LATERAL (
                    SELECT r.key, r.touches IS NOT NULL OR r.limits IS NOT NULL AS alone FROM {s}.ready r
                    WHERE r.big = g.big AND r.key = g.key FOR UPDATE SKIP LOCKED) one
                WHERE g.tag = wanted.tag AND g.big = lane.big AND g.key > p_after AND g.key >= {s}.floor_of(lane.big)
                ORDER BY g.key LIMIT p_count) head
            ORDER BY head.key LIMIT p_count) h;
    END IF;
END $$;

-- As many as are wanted, one after another, in the turn of all who claim tasks that declare paths or limits. What is
-- in another's way stands aside, so that nobody after us tries for it.
CREATE OR REPLACE FUNCTION {s}.grant_alone(p_want jsonb, p_tags text[], p_bigs boolean[], p_now float8) RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE taken text[] := '{}'; w_keys bytea[]; w_alone boolean; one {s}.ready; w_blocker text; w_due float8; w_after bytea := '';
BEGIN
    PERFORM {s}.one_by_one();
    WHILE cardinality(taken) < (p_want ->> 'count')::int LOOP
        SELECT k.keys, k.alone INTO w_keys, w_alone FROM {s}.pick(1, p_tags, p_bigs, w_after) k;
        EXIT WHEN w_keys IS NULL;
        w_blocker := NULL;
        IF w_alone THEN
            SELECT r.* INTO one FROM {s}.ready r WHERE r.big = false AND r.key = w_keys[1];
            IF NOT FOUND THEN
                SELECT r.* INTO one FROM {s}.ready r WHERE r.big = true AND r.key = w_keys[1];
            END IF;
            SELECT e.blocker, e.due INTO w_blocker, w_due FROM {s}.excluded(one.touches, one.limits, p_want -> 'limits', p_now) e;
        END IF;
        IF w_blocker IS NULL THEN
            taken := taken || {s}.grant_ready(w_keys, p_want, p_now);
            w_after := '';  -- it may have let in another before it
        ELSE
            PERFORM {s}.park(one, w_blocker, w_due, p_now);
            w_after := w_keys[1];  -- not to walk over what stands aside since a moment ago
        END IF;
    END LOOP;
    RETURN taken;
END $$;

-- These ready tasks are this worker's.
CREATE OR REPLACE FUNCTION {s}.grant_ready(p_keys bytea[], p_want jsonb, p_now float8) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    taken text[];
    one bytea;
    row_of {s}.ready;
    gone {s}.ready[] := '{}';
    w_worker text := p_want ->> 'worker';
    w_stem text := CASE WHEN (p_want ->> 'verbatim')::boolean THEN NULL ELSE w_worker || '~' END;
    w_tail text := 'e' || {s}.epoch() || (p_want ->> 'call');
    w_call text := p_want ->> 'call';
    w_member bigint := (p_want ->> 'member')::bigint;
    w_until float8 := p_now + (p_want ->> 'lease')::float8;
    w_told boolean := NOT (p_want ->> 'even_held')::boolean;
    w_lane text;
BEGIN
    FOREACH one IN ARRAY p_keys LOOP
        DELETE FROM {s}.ready r WHERE r.big = false AND r.key = one RETURNING r.* INTO row_of;
        IF NOT FOUND THEN
            DELETE FROM {s}.ready r WHERE r.big = true AND r.key = one RETURNING r.* INTO row_of;
        END IF;
        IF row_of.tags IS NOT NULL THEN
            DELETE FROM {s}.ready_tag t WHERE t.tag = ANY (row_of.tags) AND t.big = row_of.big AND t.key = one;
        END IF;
        gone := gone || row_of;
    END LOOP;
    WITH leased AS (
        INSERT INTO {s}.lease (id, key, touches, limits, mark, fence, worker, member, call, since, seen, until)
            SELECT g.id, g.key, g.touches, g.limits, g.mark,
                   CASE WHEN w_stem IS NULL THEN w_worker ELSE w_stem || nextval('{q}.fence_number') || w_tail END,
                   w_worker, w_member, w_call, p_now, p_now, w_until
            FROM unnest(gone) g ORDER BY g.key RETURNING id, fence, key),
    told AS (
        INSERT INTO {s}.event (at, worker, action, id)
            SELECT p_now, l.fence, 'claimed_task', l.id FROM leased l
            WHERE w_told ORDER BY l.key)
    SELECT array_agg(l.id) FROM leased l INTO taken;
    IF EXISTS (SELECT 1 FROM unnest(gone) g WHERE g.touches IS NOT NULL OR g.limits IS NOT NULL) THEN
        IF w_told THEN
            INSERT INTO {s}.start (key, at) SELECT DISTINCT split_part(x.said, '=', 1), p_now FROM unnest(gone) g, unnest(g.limits) x(said)
                WHERE x.said LIKE '%/min' OR p_want -> 'limits' ->> split_part(x.said, '=', 1) LIKE '%/min';
            DELETE FROM {s}.start x WHERE x.at < p_now - 60 AND x.key = ANY (ARRAY(
                SELECT split_part(y.said, '=', 1) FROM unnest(gone) g, unnest(g.limits) y(said)));
        END IF;
        -- Behind it others of its sort may stand aside: the next may run, too, or waits for this one.
        FOR w_lane IN SELECT DISTINCT {s}.lane_of(g.big, g.tags, g.touches, g.limits) FROM unnest(gone) g
            WHERE g.touches IS NOT NULL OR g.limits IS NOT NULL ORDER BY 1 LOOP
            IF EXISTS (SELECT 1 FROM {s}.waiting w WHERE w.lane = w_lane) THEN
                PERFORM {s}.settle(w_lane, p_want -> 'limits', p_now);
            END IF;
        END LOOP;
    END IF;
    RETURN taken;
END $$;

-- One task by its id, ready or, if it may be even held, waiting.
CREATE OR REPLACE FUNCTION {s}.grant_one(p_id text, p_want jsonb, p_tags text[], p_bigs boolean[], p_now float8) RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE one {s}.ready; even boolean := (p_want ->> 'even_held')::boolean; moved {s}.waiting;
BEGIN
    SELECT w.* INTO moved FROM {s}.waiting w WHERE w.id = p_id;
    IF moved.lane IS NULL AND moved.id IS NULL THEN
        SELECT r.* INTO one FROM {s}.ready r WHERE r.big = false AND r.key = (SELECT t.key FROM {s}.task t WHERE t.id = p_id);
        IF NOT FOUND THEN
            SELECT r.* INTO one FROM {s}.ready r WHERE r.big = true AND r.key = (SELECT t.key FROM {s}.task t WHERE t.id = p_id);
        END IF;
    END IF;
    IF moved.lane IS NOT NULL OR one.touches IS NOT NULL OR one.limits IS NOT NULL THEN
        PERFORM {s}.one_by_one();  -- before any row is locked, so that nobody waits for us and we for them
    END IF;
    IF even THEN  -- bring it to where the others are taken from; only this transaction ever sees it there
        SELECT w.* INTO moved FROM {s}.waiting w WHERE w.id = p_id FOR UPDATE;
        IF FOUND THEN
            DELETE FROM {s}.waiting w WHERE w.id = p_id;
            DELETE FROM {s}.need n WHERE n.id = p_id;
            INSERT INTO {s}.ready (big, key, id, tags, touches, limits, mark)
                VALUES (moved.big, moved.key, moved.id, NULL, moved.touches, moved.limits, moved.mark);
        END IF;
    ELSIF moved.lane IS NOT NULL AND {s}.is_free(moved.touches, moved.limits, p_want, p_now) THEN
        UPDATE {s}.waiting w SET lane = NULL WHERE w.id = p_id AND w.lane IS NOT NULL;
        PERFORM {s}.promote(ARRAY[p_id], p_now);
    END IF;
    SELECT r.* INTO one FROM {s}.ready r
        WHERE r.big = false AND r.key = (SELECT t.key FROM {s}.task t WHERE t.id = p_id) FOR UPDATE OF r;
    IF NOT FOUND THEN
        SELECT r.* INTO one FROM {s}.ready r
            WHERE r.big = true AND r.key = (SELECT t.key FROM {s}.task t WHERE t.id = p_id) FOR UPDATE OF r;
    END IF;
    IF NOT FOUND OR NOT (one.big = ANY (p_bigs)) OR NOT coalesce(p_tags IS NULL OR one.tags && p_tags, false) THEN
        RETURN NULL;
    END IF;
    IF (one.touches IS NOT NULL OR one.limits IS NOT NULL) AND NOT even THEN
        PERFORM {s}.one_by_one();
        IF NOT {s}.is_free(one.touches, one.limits, p_want, p_now) THEN
            RETURN NULL;
        END IF;
    END IF;
    RETURN {s}.grant_ready(ARRAY[one.key], p_want, p_now);
END $$;

CREATE OR REPLACE FUNCTION {s}.is_free(p_touches text[], p_limits text[], p_want jsonb, p_now float8) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN (SELECT e.blocker IS NULL FROM {s}.excluded(p_touches, p_limits, coalesce(p_want -> 'limits', '{}'), p_now) e);
END $$;

CREATE OR REPLACE FUNCTION {s}.claim(p_want jsonb, p_again boolean, p_now float8)
RETURNS TABLE (id text, doc text, fence text, since float8) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    w_now float8 := {s}.time_of(p_now);
    w_count int := (p_want ->> 'count')::int;
    w_ids text[] := '{}';
    w_tags text[];
    w_bigs boolean[] := CASE WHEN p_want ->> 'big' IS NULL THEN '{f,t}' ELSE ARRAY[(p_want ->> 'big')::boolean] END;
    w_even boolean := (p_want ->> 'even_held')::boolean;
    w_taken text[] := '{}';
    w_keys bytea[];
    w_alone boolean;
    w_paused boolean;
    w_ripe boolean;
    w_due boolean;
    one text;
BEGIN
    -- A claim need not be on the disk: if a crash takes it, the task is ready again and its fence worth nothing.
    -- Whatever ends it is, and brings the claim there first.
    PERFORM set_config('synchronous_commit', 'off', true);
    IF p_want -> 'ids' <> '[]' THEN
        w_ids := ARRAY(SELECT jsonb_array_elements_text(p_want -> 'ids'));
    END IF;
    IF p_want -> 'tags' <> '[]' THEN
        w_tags := ARRAY(SELECT jsonb_array_elements_text(p_want -> 'tags'));
    END IF;
    IF p_again THEN  -- what the first asking took, if it did
        w_taken := ARRAY(SELECT l.id FROM {s}.lease l WHERE l.call = p_want ->> 'call');
    END IF;
    IF w_taken = '{}' AND NOT w_even THEN
        SELECT EXISTS (SELECT 1 FROM {s}.pause p WHERE p.until = 0 OR p.until > w_now),
               EXISTS (SELECT 1 FROM {s}.waiting w WHERE NOT w.held AND NOT w.blocked AND w.lane IS NULL AND w.due <= w_now),
               EXISTS (SELECT 1 FROM {s}.lane x WHERE x.due <= w_now) INTO w_paused, w_ripe, w_due;
        IF w_paused THEN
            RETURN;
        END IF;
        WHILE w_ripe LOOP
            w_ripe := {s}.ripen(w_now) >= 1000;
        END LOOP;
        IF w_due THEN
            PERFORM {s}.one_by_one();
            FOR one IN SELECT x.lane FROM {s}.lane x WHERE x.due <= w_now ORDER BY 1 LOOP
                PERFORM {s}.settle(one, p_want -> 'limits', w_now);
            END LOOP;
        END IF;
    END IF;
    IF w_taken <> '{}' THEN
        NULL;
    ELSIF w_ids <> '{}' THEN
        FOREACH one IN ARRAY w_ids LOOP
            EXIT WHEN cardinality(w_taken) >= w_count;
            w_taken := w_taken || {s}.grant_one(one, p_want, w_tags, w_bigs, w_now);
        END LOOP;
    ELSE
        SELECT k.keys, k.alone INTO w_keys, w_alone FROM {s}.pick(w_count, w_tags, w_bigs, '') k;
        IF w_alone THEN
            w_taken := {s}.grant_alone(p_want, w_tags, w_bigs, w_now);
        ELSIF w_keys IS NOT NULL THEN
            w_taken := {s}.grant_ready(w_keys, p_want, w_now);
        END IF;
    END IF;
    IF w_taken = '{}' THEN
        RETURN;
    END IF;
    RETURN QUERY SELECT l.id, (SELECT t.doc FROM {s}.task t WHERE t.id = l.id), l.fence, l.since FROM {s}.lease l
        WHERE l.id = ANY (w_taken) ORDER BY array_position(w_ids, l.id), l.key;
END $$;

-- One task of any tag, the best: what most claims ask for, in the simplest statements. Whatever makes it less simple
-- (a repetition, tasks whose time has come, one that declares paths or limits) is left to the claim above.
DROP FUNCTION IF EXISTS {s}.grant_head(jsonb, boolean[], float8);
CREATE OR REPLACE FUNCTION {s}.claim_one(p_worker text, p_bigs boolean[], p_lease float8, p_call text, p_member bigint, p_limits jsonb,
    p_again boolean, p_now float8, OUT id text, OUT doc text, OUT fence text, OUT since float8) LANGUAGE plpgsql AS $$
DECLARE
    w_now float8 := {s}.time_of(p_now);
    w_paused boolean;
    w_later boolean := p_again;
    best_id text;
    best_key bytea;
    best_big boolean;
    best_tags text[];
    best_mark text;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    IF NOT p_again THEN
        SELECT EXISTS (SELECT 1 FROM {s}.pause p WHERE p.until = 0 OR p.until > w_now),
               EXISTS (SELECT 1 FROM {s}.waiting w WHERE NOT w.held AND NOT w.blocked AND w.lane IS NULL AND w.due <= w_now)
               OR EXISTS (SELECT 1 FROM {s}.lane x WHERE x.due <= w_now) INTO w_paused, w_later;
        IF w_paused THEN
            RETURN;
        END IF;
    END IF;
    IF NOT w_later THEN
        SELECT h.id, h.key, h.big, h.tags, h.mark, h.alone INTO best_id, best_key, best_big, best_tags, best_mark, w_later
            FROM unnest(p_bigs) lane(big), LATERAL (
                SELECT r.id, r.key, r.big, r.tags, r.mark, r.touches IS NOT NULL OR r.limits IS NOT NULL AS alone FROM {s}.ready r
                WHERE r.big = lane.big AND r.key >= coalesce((SELECT f.key FROM {s}.floor f WHERE f.big = lane.big), '')
                ORDER BY r.key LIMIT 1 FOR UPDATE SKIP LOCKED) h ORDER BY h.key LIMIT 1;
        IF best_key IS NULL THEN
            RETURN;
        END IF;
    END IF;
    IF w_later THEN
        SELECT c.id, c.doc, c.fence, c.since INTO id, doc, fence, since FROM {s}.claim(jsonb_build_object(
            'worker', p_worker, 'lease', p_lease, 'count', 1, 'ids', '[]'::jsonb, 'tags', '[]'::jsonb,
            'big', CASE cardinality(p_bigs) WHEN 1 THEN p_bigs[1] END, 'even_held', false, 'verbatim', false,
            'member', p_member, 'limits', p_limits, 'call', p_call), p_again, p_now) c;
        RETURN;
    END IF;
    fence := p_worker || '~' || nextval('{q}.fence_number') || 'e' || {s}.epoch() || p_call;
    id := best_id;
    since := w_now;
    DELETE FROM {s}.ready r WHERE r.big = best_big AND r.key = best_key;
    IF best_tags IS NOT NULL THEN
        DELETE FROM {s}.ready_tag t WHERE t.tag = ANY (best_tags) AND t.big = best_big AND t.key = best_key;
    END IF;
    INSERT INTO {s}.lease (id, key, mark, fence, worker, member, call, since, seen, until)
        VALUES (best_id, best_key, best_mark, fence, p_worker, p_member, p_call, w_now, w_now, w_now + p_lease);
    INSERT INTO {s}.event (at, worker, action, id) VALUES (w_now, fence, 'claimed_task', best_id);
    SELECT t.doc INTO doc FROM {s}.task t WHERE t.id = best_id;
END $$;

CREATE OR REPLACE FUNCTION {s}.renew(p_ids text[], p_fences text[], p_lease float8, p_now float8)
RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE w_now float8 := {s}.time_of(p_now); said text[] := array_fill('lost'::text, ARRAY[cardinality(p_ids)]); place bigint;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);  -- a renewal that a crash takes is made again soon
    FOR place IN
        UPDATE {s}.lease l SET until = w_now + p_lease, seen = w_now, graced = 0
        FROM (SELECT x.* FROM unnest(p_ids, p_fences) WITH ORDINALITY x(id, fence, n) ORDER BY x.id OFFSET 0) g
        WHERE l.id = g.id AND l.fence = g.fence RETURNING g.n LOOP
        said[place] := 'ok';
    END LOOP;
    IF 'lost' = ANY (said) THEN  -- a claim that is named twice was renewed once
        FOR place IN SELECT x.n FROM unnest(p_ids, p_fences) WITH ORDINALITY x(id, fence, n)
            WHERE EXISTS (SELECT 1 FROM {s}.lease l WHERE l.id = x.id AND l.fence = x.fence) LOOP
            said[place] := 'ok';
        END LOOP;
    END IF;
    IF EXISTS (SELECT 1 FROM {s}.stop) THEN
        FOR place IN SELECT x.n FROM unnest(p_ids) WITH ORDINALITY x(id, n)
            WHERE EXISTS (SELECT 1 FROM {s}.stop s WHERE s.id = x.id) LOOP
            IF said[place] = 'ok' THEN
                said[place] := 'cancel';
            END IF;
        END LOOP;
    END IF;
    RETURN said;
END $$;
