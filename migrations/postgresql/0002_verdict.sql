-- What was found out about who sent a message. The message has it, not the content: it is known after the mail is stored.
--
-- needs 1: an older daemon stores and reads mail without it.

ALTER TABLE message ADD COLUMN authentication text;  -- JSON; NULL: not checked yet

-- Stores what was found out about messages of inboxes that are alive, and not yet known. The result for each: whether it
-- was stored.
CREATE FUNCTION set_verdicts(now_ms bigint, inbox_ids bigint[], keys bigint[], verdicts text[]) RETURNS boolean[]
LANGUAGE plpgsql AS $$
DECLARE
    stored boolean[] := array_fill(false, ARRAY[cardinality(keys)]);
    one record;
    changed integer;
BEGIN
    FOR one IN SELECT n.*, i.slot FROM unnest(inbox_ids, keys, verdicts) WITH ORDINALITY AS n(inbox_id, key, verdict, place)
               CROSS JOIN LATERAL (SELECT slot FROM inbox WHERE id = n.inbox_id AND NOT swept AND expires_at_ms > now_ms
                                   OFFSET 0) AS i ORDER BY n.inbox_id, n.key LOOP
        EXECUTE format('UPDATE message_%s SET authentication = $1
                        WHERE slot = %s AND inbox_id = $2 AND key = $3 AND authentication IS NULL', one.slot, one.slot)
            USING one.verdict, one.inbox_id, one.key;
        GET DIAGNOSTICS changed = ROW_COUNT;
        stored[one.place] := changed = 1;
    END LOOP;
    RETURN stored;
END
$$;
