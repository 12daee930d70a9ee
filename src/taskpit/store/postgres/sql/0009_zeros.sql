-- Version 11: no document has a zero byte in it, which JSON can write and the server cannot read: one such result kept every
-- other from being pruned and archived. What only reads like one, behind a backslash of its own, stays.

DO $$ DECLARE w_zero text := '(?<!\\)((?:\\\\)*)\\u0000'; w_mark text := '\1\\ufffd'; BEGIN
    UPDATE {s}.task t SET doc = regexp_replace(t.doc, w_zero, w_mark, 'g'), result = regexp_replace(t.result, w_zero, w_mark, 'g')
        WHERE strpos(t.doc, '\u0000') > 0 OR strpos(t.result, '\u0000') > 0;
    UPDATE {s}.attempt a SET doc = regexp_replace(a.doc, w_zero, w_mark, 'g') WHERE strpos(a.doc, '\u0000') > 0;
    UPDATE {s}.late x SET doc = regexp_replace(x.doc, w_zero, w_mark, 'g') WHERE strpos(x.doc, '\u0000') > 0;
END $$;
