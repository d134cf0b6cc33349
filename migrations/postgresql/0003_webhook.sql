-- Who is called when an inbox changes. There is no table of events: what is to be told are the messages of the inbox above the
-- two positions, so an event is stored by the transaction that stores its mail, and ends with that mail.
--
-- needs 1: an older daemon calls nobody. Rows of inboxes are locked before those of their webhooks, both by id.

CREATE TABLE webhook (
    inbox_id bigint PRIMARY KEY,
    version bigint NOT NULL,                       -- drawn at random when it is set; each lease adds one
    told_message bigint NOT NULL,                  -- key of the last message of which it was told that it has come
    told_verdict bigint NOT NULL,                  -- and that it is known who sent it
    failures integer NOT NULL DEFAULT 0,           -- in a row
    next_at_ms bigint NOT NULL DEFAULT 0,          -- no call before; a lease moves it to its end
    called_at_ms bigint,
    result text NOT NULL DEFAULT '',               -- of that call: a status, or why there is none
    webhook text NOT NULL                          -- JSON: URL, events, secret
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

-- Sets the webhook of an inbox that is alive, or takes it away (NULL). It will be told of what comes from now on: the inbox is
-- locked, as by a delivery. The result: NULL, or since when the inbox has expired, -1 if there is none.
CREATE FUNCTION set_webhook(now_ms bigint, wanted_inbox bigint, new_version bigint, new_webhook text) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    old record;
BEGIN
    SELECT expires_at_ms, swept, last_key INTO old FROM inbox WHERE id = wanted_inbox AND id <> 1 FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN -1;
    ELSIF old.swept OR old.expires_at_ms <= now_ms THEN
        RETURN least(old.expires_at_ms, now_ms);
    END IF;
    DELETE FROM webhook WHERE inbox_id = wanted_inbox;
    IF new_webhook IS NOT NULL THEN
        INSERT INTO webhook (inbox_id, version, told_message, told_verdict, webhook)
            VALUES (wanted_inbox, new_version, old.last_key, old.last_key, new_webhook);
    END IF;
    RETURN NULL;
END
$$;

-- Leases webhooks that are due and that no other daemon has. Returns their versions then.
CREATE FUNCTION take_webhooks(now_ms bigint, until_ms bigint, inbox_ids bigint[])
RETURNS TABLE (taken_id bigint, taken_version bigint) LANGUAGE sql AS $$
    WITH due AS (
        SELECT inbox_id FROM webhook WHERE inbox_id = ANY(inbox_ids) AND next_at_ms <= now_ms
            ORDER BY inbox_id FOR UPDATE SKIP LOCKED
    )
    UPDATE webhook SET version = version + 1, next_at_ms = until_ms WHERE inbox_id = ANY(ARRAY(SELECT inbox_id FROM due))
        RETURNING inbox_id, version
$$;

-- Stores what has become of calls, unless a webhook was changed or leased again meanwhile; NULL as next_at takes it away. The
-- result for each: whether it was stored.
CREATE FUNCTION settle_webhooks(
    inbox_ids bigint[], versions bigint[], messages bigint[], verdicts bigint[], new_failures integer[], next_at bigint[],
    called_at bigint[], results text[]
) RETURNS boolean[] LANGUAGE plpgsql AS $$
DECLARE
    stored boolean[] := array_fill(false, ARRAY[cardinality(inbox_ids)]);
    one record;
BEGIN
    FOR one IN SELECT * FROM unnest(inbox_ids, versions, messages, verdicts, new_failures, next_at, called_at, results)
                   WITH ORDINALITY AS n(id, version, message, verdict, failures, next_ms, called_ms, result, place)
               ORDER BY n.id, n.place LOOP
        IF one.next_ms IS NULL THEN
            DELETE FROM webhook WHERE inbox_id = one.id AND version = one.version;
        ELSE
            UPDATE webhook SET told_message = one.message, told_verdict = one.verdict, failures = one.failures,
                               next_at_ms = one.next_ms, called_at_ms = one.called_ms, result = one.result
                WHERE inbox_id = one.id AND version = one.version;
        END IF;
        stored[one.place] := FOUND;
    END LOOP;
    RETURN stored;
END
$$;

-- A webhook goes with its inbox: one more statement in the function of the first step, and no trigger, which deliveries would
-- pay for.
DO $do$
DECLARE
    old text := pg_get_functiondef('sweep'::regproc);
    new text := replace(old, 'UPDATE inbox SET swept = true', 'DELETE FROM webhook WHERE inbox_id = ANY(ARRAY(
        SELECT inbox_id FROM webhook WHERE inbox_id = ANY(emptied) ORDER BY inbox_id FOR UPDATE));
    UPDATE inbox SET swept = true');
BEGIN
    IF new = old THEN
        RAISE 'the function sweep is not that of the first step';
    END IF;
    EXECUTE new;
END
$do$;
