-- The first schema. Frozen: a change is a new file, never an edit. Other daemons may run while a step is applied, so a step
-- adds what older daemons do without; it rewrites no table that holds mail.
--
-- needs 1: the oldest step that a daemon must know in order to work with this schema. Read by migrate.py.
--
-- Each function is one statement and so one transaction: no lock is held while a daemon is waited for. Rows are locked
-- in one order by all of them, so that nothing deadlocks: inboxes by id, creators by hash, contents by slot and id, then
-- usage. What the server knows of tables that live for an hour is worth nothing to its planner: so each access to a table
-- that grows names its rows by an array of keys, or by LATERAL and OFFSET 0, which no plan can turn round, or is planned
-- anew for one partition. What belongs to a row is found by its place in an array, since a join with a list would compare
-- each with each.
-- No constraint can be violated by what a mail says: the server would write it to its log.
--
-- Times are Unix times in milliseconds. A slot is ten minutes of such times, counted from 1970: mail lies in the partition
-- of the slot in which its inbox expires. Slot 0 is for mail that stays longer: the operator's, and that of inboxes which
-- expire in more than a day.

CREATE TABLE service (
    id integer PRIMARY KEY CHECK (id = 1),
    hash_key bytea NOT NULL,                       -- keys the hashes of addresses and creators
    last_key bigint NOT NULL,                      -- the highest that a swept inbox has had: clocks step back
    blocks_version bigint NOT NULL DEFAULT 0       -- how often the blocks have been changed
);

INSERT INTO service VALUES (1, uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()), 0);

-- One row an address, and its tombstone: the row outlives the address by a day and keeps the name from being given
-- to somebody else.
CREATE TABLE inbox (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name_hash bytea NOT NULL UNIQUE,
    address text NOT NULL,
    created_at_ms bigint NOT NULL,
    expires_at_ms bigint NOT NULL,
    slot integer NOT NULL,
    private boolean NOT NULL,
    token_hash bytea,                              -- SHA-256
    creator bytea,                                 -- keyed hash of the client; NULL: no share is kept
    message_count integer NOT NULL DEFAULT 0,
    stored_bytes bigint NOT NULL DEFAULT 0,
    last_key bigint NOT NULL DEFAULT 0,            -- of its newest message, also when that was deleted
    swept boolean NOT NULL DEFAULT false
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX inbox_by_expiry ON inbox (expires_at_ms, id) WHERE NOT swept;
CREATE INDEX inbox_by_end_of_name ON inbox (expires_at_ms) WHERE swept;

-- What one client's inboxes hold together. A mail for several of them is charged once for each.
CREATE TABLE creator (
    hash bytea PRIMARY KEY,
    inboxes integer NOT NULL,                      -- not swept yet; the row goes with the last of them
    stored_bytes bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

-- What is stored in all: the sum of these rows. Each daemon changes one of them, so that they do not wait for each other.
CREATE TABLE usage (
    shard integer PRIMARY KEY,
    stored_bytes bigint NOT NULL DEFAULT 0,
    inboxes bigint NOT NULL DEFAULT 0,
    messages bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50, autovacuum_vacuum_cost_delay = 0);

INSERT INTO usage (shard) SELECT generate_series(0, 63);

CREATE SEQUENCE content_id INCREMENT BY 256 CACHE 64;  -- a batch takes 256 at once

-- One row for each mail and slot of its inboxes: no partition refers to another one.
CREATE TABLE content (
    slot integer NOT NULL,
    id bigint NOT NULL,
    copies integer,                                -- messages of this slot that have this content
    stored_bytes bigint,                           -- what each of its inboxes is charged
    received_at_ms bigint,
    size_bytes integer,
    body_at integer,                               -- octets before the body in source; NULL: it is in body
    body_bytes integer,                            -- there or here
    tls boolean,
    sender text,                                   -- of the From field, else of the envelope
    sender_name text,
    subject text,
    attachments text,                              -- JSON
    envelope_from text,
    helo text,
    remote_ip text,
    session text,                                  -- JSON, see tmpmaild/storage/rows.py
    warnings text,                                 -- JSON
    headers text,                                  -- JSON, [[name, value], …]
    body text,
    html text,
    source bytea,                                  -- the octets as they came
    PRIMARY KEY (id, slot)                         -- in a partition all slots are the same
) PARTITION BY LIST (slot);

-- Not compressed: that costs more than it saves, and parts of a value can be read alone.
ALTER TABLE content
    ALTER COLUMN attachments SET STORAGE EXTERNAL,
    ALTER COLUMN headers SET STORAGE EXTERNAL,
    ALTER COLUMN body SET STORAGE EXTERNAL,
    ALTER COLUMN html SET STORAGE EXTERNAL,
    ALTER COLUMN source SET STORAGE EXTERNAL;

-- One row for each inbox a mail was delivered to. No REFERENCES: with them a partition could not be dropped.
CREATE TABLE message (
    slot integer NOT NULL,
    inbox_id bigint NOT NULL,
    key bigint NOT NULL,                           -- with the id of the inbox it is the id of the message
    content_id bigint NOT NULL,
    recipient text,                                -- as it was written
    PRIMARY KEY (inbox_id, key, slot)
) PARTITION BY LIST (slot);

CREATE TABLE content_0 PARTITION OF content FOR VALUES IN (0) WITH (toast_tuple_target = 8160);
CREATE TABLE message_0 PARTITION OF message FOR VALUES IN (0);

-- The domains of the configuration, and those that were in it while their addresses may live.
CREATE TABLE domain (
    name text PRIMARY KEY,
    kept_until_ms bigint                           -- NULL: it takes new addresses
);

-- What the operator has blocked.
CREATE TABLE block (
    kind text NOT NULL,                            -- client, name or sender
    value text NOT NULL,
    created_at_ms bigint NOT NULL,
    expires_at_ms bigint,                          -- NULL: never
    PRIMARY KEY (kind, value)
);

CREATE INDEX block_by_expiry ON block (expires_at_ms) WHERE expires_at_ms IS NOT NULL;

-- What all daemons must know for a minute, and may be lost with the server. The rate limits: when each bucket is full again, in
-- microseconds since 1970. A client whose bucket is full has no row.
CREATE UNLOGGED TABLE bucket (
    policy text NOT NULL,
    client bytea NOT NULL,                         -- keyed hash
    full_at_us bigint NOT NULL,
    PRIMARY KEY (policy, client)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX bucket_by_end ON bucket (full_at_us);

-- What a secret permits, such as to look at one message.
CREATE UNLOGGED TABLE permission (
    secret_hash bytea PRIMARY KEY,                 -- SHA-256
    content bytea NOT NULL,
    expires_at_ms bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX permission_by_expiry ON permission (expires_at_ms);

-- The operator's inbox (postmaster, abuse): it has no name that the HTTP API could find.
INSERT INTO inbox (name_hash, address, created_at_ms, expires_at_ms, slot, private)
    VALUES ('\x00', 'postmaster', 0, 9223372036854775807, 0, true);

-- Changes the counters of what all daemons store together, and returns them: octets, inboxes, messages.
CREATE FUNCTION count_usage(my_shard integer, more_bytes bigint, more_inboxes bigint, more_messages bigint)
RETURNS bigint[] LANGUAGE plpgsql AS $$
BEGIN
    IF more_bytes <> 0 OR more_inboxes <> 0 OR more_messages <> 0 THEN
        UPDATE usage SET stored_bytes = stored_bytes + more_bytes, inboxes = inboxes + more_inboxes,
                         messages = messages + more_messages
            WHERE shard = my_shard;
    END IF;
    RETURN (SELECT ARRAY[sum(stored_bytes), sum(inboxes), sum(messages)]::bigint[] FROM usage);
END
$$;

-- Takes a token for each client that has one. The result for each: how many microseconds its bucket is away from full with
-- this token taken, also if there was none to take. Clients are locked in one order, so that nothing deadlocks.
-- A bucket that is further from full than an empty one is of a time when the clock was ahead: it counts as full. The minute
-- is for what has waited for its row.
CREATE FUNCTION take_tokens(policies text[], clients bytea[], refills_us bigint[], bursts integer[], cleans boolean)
RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
    now_us bigint := extract(epoch FROM clock_timestamp()) * 1000000;
    missing bigint[] := array_fill(0::bigint, ARRAY[cardinality(clients)]);
    one record;
    full_us bigint;
BEGIN
    FOR one IN SELECT n.* FROM unnest(policies, clients, refills_us, bursts)
                   WITH ORDINALITY AS n(policy, client, refill_us, burst, place) ORDER BY n.policy, n.client, n.place LOOP
        INSERT INTO bucket AS b VALUES (one.policy, one.client, now_us + one.refill_us)
            ON CONFLICT (policy, client) DO UPDATE
                SET full_at_us = CASE WHEN b.full_at_us > now_us + one.burst * one.refill_us + 60000000 THEN now_us
                                      ELSE greatest(b.full_at_us, now_us) END + one.refill_us
                WHERE b.full_at_us - now_us <= (one.burst - 1) * one.refill_us
                    OR b.full_at_us > now_us + one.burst * one.refill_us + 60000000
            RETURNING full_at_us INTO full_us;
        IF NOT FOUND THEN
            -- By what time it is now, since it may have taken long to lock the row; and a refusal remains one.
            SELECT greatest(full_at_us + one.refill_us - (extract(epoch FROM clock_timestamp()) * 1000000 - now_us),
                            now_us + one.burst * one.refill_us + 2)
                INTO full_us FROM bucket WHERE policy = one.policy AND client = one.client;
        END IF;
        missing[one.place] := full_us - now_us;
    END LOOP;
    IF cleans THEN  -- those that are full again, and none that another daemon has locked
        DELETE FROM bucket WHERE (policy, client) IN (SELECT policy, client FROM bucket WHERE full_at_us < now_us
                                                      ORDER BY full_at_us LIMIT 1024 FOR UPDATE SKIP LOCKED);
    END IF;
    RETURN missing;
END
$$;

-- Keeps what a secret permits, and deletes some of what has expired.
CREATE FUNCTION keep_permission(new_hash bytea, new_content bytea, expires bigint, now_ms bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM permission WHERE secret_hash IN (SELECT secret_hash FROM permission WHERE expires_at_ms <= now_ms
                                                 ORDER BY expires_at_ms LIMIT 16 FOR UPDATE SKIP LOCKED);
    INSERT INTO permission VALUES (new_hash, new_content, expires);
END
$$;

-- Adds the partitions of some slots. CREATE and then ATTACH, which does not wait for readers as CREATE … PARTITION OF does.
CREATE FUNCTION add_slots(wanted integer[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    new integer;
    kind text;
BEGIN
    PERFORM pg_advisory_xact_lock(7238716, 2);
    FOREACH new IN ARRAY wanted LOOP
        FOREACH kind IN ARRAY ARRAY['content', 'message'] LOOP
            IF to_regclass(format('%s_%s', kind, new)) IS NULL THEN
                -- Vacuum makes room for new mail where much is deleted before its time; statistics would be worth nothing.
                EXECUTE format('CREATE TABLE %s_%s (LIKE %s INCLUDING STORAGE) WITH (
                        autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_insert_threshold = -1,
                        autovacuum_analyze_threshold = 2147483647%s)', kind, new, kind, CASE kind WHEN 'content'
                    THEN ', toast_tuple_target = 8160, toast.autovacuum_vacuum_threshold = 10000,
                          toast.autovacuum_vacuum_insert_threshold = -1' ELSE '' END);
                EXECUTE format('ALTER TABLE %s ATTACH PARTITION %s_%s FOR VALUES IN (%s)', kind, kind, new, new);
            END IF;
        END LOOP;
    END LOOP;
END
$$;

-- Ends the vacuum of slots before this one: what is in them expires now, and they will be dropped as a whole.
CREATE FUNCTION end_vacuum(before integer) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    one record;
BEGIN
    IF NOT pg_try_advisory_xact_lock(7238716, 2) THEN
        RETURN;
    END IF;
    FOR one IN SELECT c.relname AS name, CASE WHEN c.reltoastrelid <> 0 THEN ', toast.autovacuum_enabled = false' END AS toast
        FROM pg_inherits AS p JOIN pg_class AS c ON c.oid = p.inhrelid
        WHERE p.inhparent IN ('content'::regclass, 'message'::regclass)
            AND substring(c.relname FROM '^(?:content|message)_([1-9][0-9]{0,8})$')::integer < before
            AND NOT coalesce('autovacuum_enabled=false' = ANY(c.reloptions), false)
        ORDER BY 1 LOOP
        EXECUTE format('ALTER TABLE %s SET (autovacuum_enabled = false%s)', one.name, one.toast);
    END LOOP;
END
$$;

-- Drops the oldest slot before this one whose mail has been swept. Returns it; NULL when there is none, or another daemon
-- is at it. The partitions are locked before their parents: what waits for a reader of them makes no delivery wait. The
-- parents are locked in the order in which a delivery uses them.
CREATE FUNCTION drop_slot(my_shard integer, before integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    old integer;
    is_in_use boolean;
    lost_bytes bigint;
    lost_messages bigint;
BEGIN
    IF NOT pg_try_advisory_xact_lock(7238716, 2) THEN
        RETURN NULL;
    END IF;
    FOR old IN SELECT DISTINCT substring(c.relname FROM '^(?:content|message)_([1-9][0-9]{0,8})$')::integer
        FROM pg_inherits AS p JOIN pg_class AS c ON c.oid = p.inhrelid
        WHERE p.inhparent IN ('content'::regclass, 'message'::regclass) ORDER BY 1 LOOP
        EXIT WHEN old IS NULL OR old >= before;
        PERFORM add_slots(ARRAY[old]);  -- if somebody has dropped one of the two
        FOR attempt IN 1..2 LOOP
            -- Mail of an inbox that somebody has deleted by hand is in nobody's way.
            EXECUTE format('SELECT EXISTS (SELECT 1 FROM message_%s AS m CROSS JOIN LATERAL (
                    SELECT 1 FROM inbox WHERE id = m.inbox_id AND slot = %s AND NOT swept OFFSET 0) AS i)', old, old)
                INTO is_in_use;
            EXIT WHEN is_in_use;
            IF attempt = 1 THEN
                EXECUTE format('LOCK TABLE message_%s, content_%s', old, old);
            END IF;
        END LOOP;
        CONTINUE WHEN is_in_use;
        EXECUTE format('SELECT count(*) FROM message_%s', old) INTO lost_messages;
        EXECUTE format('SELECT coalesce(sum(stored_bytes), 0) FROM content_%s', old) INTO lost_bytes;
        PERFORM count_usage(my_shard, -lost_bytes, 0, -lost_messages);
        EXECUTE format('DROP TABLE content_%s, message_%s', old, old);
        RETURN old;
    END LOOP;
    RETURN NULL;
END
$$;

-- Stores new addresses. The result for each: its id, -1 if the name is taken, -2 if its creator's share is used up, -3 if
-- all of them together do not fit. No name is in the list twice.
CREATE FUNCTION create_inboxes(
    my_shard integer, now_ms bigint, name_held_ms bigint, cap_bytes bigint, inbox_bytes bigint, full_creator_bytes bigint,
    new_names bytea[], new_addresses text[], new_created bigint[], new_expires bigint[], new_slots integer[],
    new_private boolean[], new_tokens bytea[], new_creators bytea[],
    OUT results bigint[], OUT totals bigint[]
) LANGUAGE plpgsql AS $$
DECLARE
    made bigint;
BEGIN
    totals := count_usage(my_shard, 0, 0, 0);
    IF totals[1] + inbox_bytes * cardinality(new_names) > cap_bytes THEN
        SELECT array_agg(CASE WHEN i.is_held THEN -1 ELSE -3 END ORDER BY n.place) INTO results
            FROM unnest(new_names) WITH ORDINALITY AS n(hash, place)
            LEFT JOIN LATERAL (SELECT expires_at_ms > now_ms - name_held_ms AS is_held FROM inbox
                               WHERE name_hash = n.hash OFFSET 0) AS i ON true;
        RETURN;
    END IF;
    -- The name is free again, but the inbox has not been swept yet.
    PERFORM 1 FROM inbox WHERE name_hash = ANY(new_names) AND expires_at_ms <= now_ms - name_held_ms ORDER BY id FOR UPDATE;
    UPDATE inbox SET name_hash = uuid_send(gen_random_uuid())
        WHERE name_hash = ANY(new_names) AND expires_at_ms <= now_ms - name_held_ms;
    WITH wanted AS (
        SELECT n.*, c.stored_bytes > full_creator_bytes AS refused
        FROM unnest(new_names, new_addresses, new_created, new_expires, new_slots, new_private, new_tokens, new_creators)
            WITH ORDINALITY AS n(hash, address, created, expires, slot, private, token, creator, place)
        LEFT JOIN LATERAL (SELECT stored_bytes FROM creator WHERE hash = n.creator OFFSET 0) AS c ON true
    ),
    stored AS (
        INSERT INTO inbox (name_hash, address, created_at_ms, expires_at_ms, slot, private, token_hash, creator)
            SELECT hash, address, created, expires, slot, private, token, creator FROM wanted
            WHERE refused IS NOT TRUE ORDER BY hash
            ON CONFLICT (name_hash) DO NOTHING RETURNING id, name_hash
    )
    SELECT array_agg(CASE WHEN s.id IS NOT NULL THEN s.id
                          WHEN w.refused AND i.id IS NULL THEN -2 ELSE -1 END ORDER BY w.place)
        INTO results FROM wanted AS w
        LEFT JOIN stored AS s ON s.name_hash = w.hash
        LEFT JOIN LATERAL (SELECT id FROM inbox WHERE name_hash = w.hash OFFSET 0) AS i ON true;
    INSERT INTO creator AS c (hash, inboxes)
        SELECT creator, count(*) FROM unnest(results, new_creators) AS n(result, creator)
        WHERE result > 0 AND creator IS NOT NULL GROUP BY creator ORDER BY creator
        ON CONFLICT (hash) DO UPDATE SET inboxes = c.inboxes + excluded.inboxes;
    SELECT count(*) INTO made FROM unnest(results) AS r WHERE r > 0;
    totals := count_usage(my_shard, inbox_bytes * made, made, 0);
END
$$;

-- What an inbox and its creator may hold. Functions take it as "allowed": messages and octets of an inbox, octets of a
-- creator, messages and octets of the operator's inbox, octets of the smallest mail.
CREATE FUNCTION most_messages(inbox_id bigint, allowed bigint[]) RETURNS bigint LANGUAGE sql IMMUTABLE
    AS $$ SELECT CASE WHEN inbox_id = 1 THEN allowed[4] ELSE allowed[1] END $$;

CREATE FUNCTION most_bytes(inbox_id bigint, allowed bigint[]) RETURNS bigint LANGUAGE sql IMMUTABLE
    AS $$ SELECT CASE WHEN inbox_id = 1 THEN allowed[5] ELSE allowed[2] END $$;

-- Returns of inboxes whether each is full, and whether its creator's share is used up.
CREATE FUNCTION states(inbox_ids bigint[], allowed bigint[])
RETURNS TABLE (id bigint, is_full boolean, share_full boolean) LANGUAGE sql STABLE AS $$
    SELECT i.id,
           i.message_count >= most_messages(i.id, allowed)
               OR i.stored_bytes + allowed[6] > most_bytes(i.id, allowed)
               OR coalesce(c.stored_bytes, 0) + allowed[6] > allowed[3] AND i.creator IS NOT NULL,
           coalesce(c.stored_bytes, 0) + allowed[6] > allowed[3] AND i.creator IS NOT NULL
    FROM inbox AS i LEFT JOIN LATERAL (SELECT stored_bytes FROM creator WHERE hash = i.creator OFFSET 0) AS c ON true
    WHERE i.id = ANY(inbox_ids)
$$;

-- Locks inboxes and their creators in the order that all functions keep.
CREATE FUNCTION lock_inboxes(inbox_ids bigint[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM inbox WHERE id = ANY(inbox_ids) ORDER BY id FOR NO KEY UPDATE;
    PERFORM 1 FROM creator WHERE hash = ANY(ARRAY(SELECT i.creator FROM inbox AS i WHERE i.id = ANY(inbox_ids)))
        ORDER BY hash FOR NO KEY UPDATE;
END
$$;

-- Returns what is made of the columns of content that say what a mail is, in their order. %1$s: the name, %2$s: the type.
CREATE FUNCTION content_columns(pattern text) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT string_agg(format(pattern, attname, format_type(atttypid, atttypmod)), ', ' ORDER BY attnum) FROM pg_attribute
    WHERE attrelid = 'content'::regclass AND attnum > 0 AND NOT attisdropped
        AND attname NOT IN ('slot', 'id', 'copies', 'received_at_ms')
$$;

-- Stores mails, all of them or none, if all of their inboxes are alive. inbox_ids: the inboxes, in order; i_…: how many
-- messages and octets each gets. r_…: one row for each recipient: which mail and which of the inboxes it is, and how many of
-- the messages of that inbox there are up to it. c_…: the columns of content, one for each mail, at most 256. The result: the
-- inboxes that are not alive, or why the mails were refused (2: an inbox would be full, 3: the storage would be), or for each
-- inbox the key below that of its first message, and its state.
--
-- A server does this most of all. So it starts few statements, and finds what belongs to a row by its place in an array.
--
-- A step that adds a column to content ends with: SELECT define_deliver(), define_move_mail();
-- The function of before stays, since it has fewer parameters: an older daemon calls that, and the new column is NULL.
CREATE FUNCTION define_deliver() RETURNS void LANGUAGE plpgsql AS $define$
DECLARE
    template text := $template$
CREATE FUNCTION deliver(
    my_shard integer, now_ms bigint, cap_bytes bigint, allowed bigint[],
    inbox_ids bigint[], i_messages integer[], i_bytes bigint[],
    r_mail integer[], r_place integer[], r_rank integer[], r_recipient text[],
    /*parameters*/,
    OUT missing bigint[], OUT refusal integer, OUT keys_before bigint[],
    OUT is_full boolean[], OUT share_full boolean[], OUT totals bigint[]
) LANGUAGE plpgsql AS $$
DECLARE
    alive bigint[];
    slots integer[];
    creators bytea[];
    overfull boolean;
    hashes bytea[];
    shares bigint[];
    first_content bigint;
    d_mail integer[];
    d_slot integer[];
    d_copies integer[];
    added_bytes bigint;
BEGIN
    SELECT array_agg(i.id), array_agg(i.slot), array_agg(i.creator),
           array_agg(greatest(i.last_key, s.last_key, (now_ms << 18) - 1)),
           array_agg(n.message_count >= most_messages(i.id, allowed) OR n.stored_bytes + allowed[6] > most_bytes(i.id, allowed)),
           bool_or(n.message_count > most_messages(i.id, allowed) OR n.stored_bytes > most_bytes(i.id, allowed))
        INTO alive, slots, creators, keys_before, is_full, overfull
        FROM (SELECT * FROM inbox WHERE id = ANY(inbox_ids) ORDER BY id FOR NO KEY UPDATE) AS i
        CROSS JOIN LATERAL (SELECT width_bucket(i.id, inbox_ids) AS place) AS p
        CROSS JOIN LATERAL (SELECT i.message_count + i_messages[p.place] AS message_count,
                                   i.stored_bytes + i_bytes[p.place] AS stored_bytes) AS n
        CROSS JOIN (SELECT last_key FROM service WHERE id = 1) AS s
        WHERE (i.swept OR i.expires_at_ms <= now_ms) IS FALSE;  -- so written, no plan can walk over all that are alive
    totals := count_usage(my_shard, 0, 0, 0);
    IF alive IS DISTINCT FROM inbox_ids THEN
        missing := ARRAY(SELECT id FROM unnest(inbox_ids) AS id WHERE id <> ALL(coalesce(alive, '{}')));
        RETURN;
    END IF;
    SELECT array_agg(k.hash), array_agg(c.stored_bytes + k.more),
           overfull OR coalesce(bool_or(c.stored_bytes + k.more > allowed[3]), false)
        INTO hashes, shares, overfull
        FROM (SELECT hash, sum(more)::bigint AS more FROM unnest(creators, i_bytes) AS k(hash, more)
              WHERE hash IS NOT NULL GROUP BY hash ORDER BY hash) AS k
        CROSS JOIN LATERAL (SELECT stored_bytes FROM creator WHERE hash = k.hash FOR NO KEY UPDATE) AS c;
    SELECT array_agg(d.mail), array_agg(d.slot), array_agg(d.copies), sum(c_stored_bytes[d.mail])
        INTO d_mail, d_slot, d_copies, added_bytes
        FROM (SELECT r.mail, slots[r.place] AS slot, count(*) AS copies FROM unnest(r_mail, r_place) AS r(mail, place)
              GROUP BY 1, 2) AS d;
    refusal := CASE WHEN overfull THEN 2 WHEN totals[1] + added_bytes > cap_bytes THEN 3 END;
    IF refusal IS NOT NULL THEN
        RETURN;
    END IF;
    first_content := nextval('content_id');
    INSERT INTO content (slot, id, copies, received_at_ms, /*columns*/)
        SELECT d.slot, first_content + d.mail, d.copies, now_ms, /*values*/
        FROM unnest(d_mail, d_slot, d_copies) AS d(mail, slot, copies);
    INSERT INTO message
        SELECT slots[r.place], inbox_ids[r.place], keys_before[r.place] + r.rank, first_content + r.mail, r.recipient
        FROM unnest(r_mail, r_place, r_rank, r_recipient) AS r(mail, place, rank, recipient);
    UPDATE inbox SET message_count = message_count + i_messages[width_bucket(id, inbox_ids)],
                     stored_bytes = stored_bytes + i_bytes[width_bucket(id, inbox_ids)],
                     last_key = keys_before[width_bucket(id, inbox_ids)] + i_messages[width_bucket(id, inbox_ids)]
        WHERE id = ANY(inbox_ids);
    UPDATE creator SET stored_bytes = shares[array_position(hashes, hash)] WHERE hash = ANY(hashes);
    UPDATE usage SET stored_bytes = stored_bytes + added_bytes, messages = messages + cardinality(r_mail) WHERE shard = my_shard;
    totals := ARRAY[totals[1] + added_bytes, totals[2], totals[3] + cardinality(r_mail)];
    share_full := ARRAY(SELECT coalesce(shares[array_position(hashes, creator)] + allowed[6] > allowed[3], false)
                        FROM unnest(creators) AS creator);
END
$$;
$template$;
BEGIN
    template := replace(template, '/*parameters*/', content_columns('c_%1$s %2$s[]'));
    template := replace(template, '/*columns*/', content_columns('%1$s'));
    EXECUTE replace(template, '/*values*/', content_columns('c_%1$s[d.mail]'));
END
$define$;

SELECT define_deliver();

-- Takes contents of one slot from as many messages as "times" says, and deletes those that have no other. Returns how many
-- octets those were. The contents are locked by their ids, which are in order.
CREATE FUNCTION release_contents(used_slot integer, used_ids bigint[], used_times integer[]) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    freed_bytes bigint;
BEGIN
    EXECUTE format('SELECT 1 FROM content_%s WHERE slot = %s AND id = ANY($1) ORDER BY id FOR NO KEY UPDATE',
                   used_slot, used_slot) USING used_ids;
    EXECUTE format('WITH gone AS (
            DELETE FROM content_%s WHERE slot = %s AND id = ANY($1) AND copies <= $2[width_bucket(id, $1)]
                RETURNING stored_bytes
        )
        SELECT coalesce(sum(stored_bytes), 0) FROM gone', used_slot, used_slot)
        INTO freed_bytes USING used_ids, used_times;
    EXECUTE format('UPDATE content_%s SET copies = copies - $2[width_bucket(id, $1)] WHERE slot = %s AND id = ANY($1)',
                   used_slot, used_slot) USING used_ids, used_times;
    RETURN freed_bytes;
END
$$;

-- Deletes messages of inboxes that are locked, and each content with the last message that has it. Returns how many
-- messages and octets those were.
CREATE FUNCTION remove_messages(
    gone_slots integer[], gone_inboxes bigint[], gone_keys bigint[], OUT messages bigint, OUT freed_bytes bigint
) LANGUAGE plpgsql AS $$
DECLARE
    used_slot integer;
    used_inboxes bigint[];
    used_ids bigint[];
    used_times integer[];
    used_costs bigint[];
    boxes bigint[];
    box_messages integer[];
    box_costs bigint[];
    hashes bytea[];
    shares bigint[];
BEGIN
    messages := 0;
    freed_bytes := 0;
    FOR used_slot IN SELECT DISTINCT s FROM unnest(gone_slots) AS s WHERE s IS NOT NULL ORDER BY s LOOP
        EXECUTE format('WITH gone AS (
                DELETE FROM message_%s AS m USING unnest($1, $2, $3) AS g(slot, inbox_id, key)
                    WHERE g.slot = %s AND m.slot = %s AND m.inbox_id = g.inbox_id AND m.key = g.key
                    RETURNING m.inbox_id, m.content_id
            )
            SELECT array_agg(g.inbox_id), array_agg(g.content_id), array_agg(coalesce(c.stored_bytes, 0)) FROM gone AS g
            LEFT JOIN LATERAL (SELECT stored_bytes FROM content_%s WHERE slot = %s AND id = g.content_id OFFSET 0) AS c ON true',
            used_slot, used_slot, used_slot, used_slot, used_slot)
            INTO used_inboxes, used_ids, used_costs USING gone_slots, gone_inboxes, gone_keys;
        CONTINUE WHEN used_ids IS NULL;
        messages := messages + cardinality(used_ids);
        SELECT array_agg(k.id), array_agg(k.messages), array_agg(k.cost) INTO boxes, box_messages, box_costs
            FROM (SELECT id, count(*)::integer AS messages, sum(cost)::bigint AS cost
                  FROM unnest(used_inboxes, used_costs) AS u(id, cost) GROUP BY id ORDER BY id) AS k;
        SELECT array_agg(k.hash), array_agg(k.cost) INTO hashes, shares
            FROM (SELECT creator AS hash, sum(box_costs[width_bucket(id, boxes)])::bigint AS cost
                  FROM inbox WHERE id = ANY(boxes) AND creator IS NOT NULL GROUP BY creator) AS k;
        UPDATE inbox SET message_count = message_count - box_messages[width_bucket(id, boxes)],
                         stored_bytes = stored_bytes - box_costs[width_bucket(id, boxes)]
            WHERE id = ANY(boxes);
        UPDATE creator SET stored_bytes = stored_bytes - shares[array_position(hashes, hash)] WHERE hash = ANY(hashes);
        SELECT array_agg(u.id), array_agg(u.times) INTO used_ids, used_times
            FROM (SELECT id, count(*)::integer AS times FROM unnest(used_ids) AS id GROUP BY id ORDER BY id) AS u;
        freed_bytes := freed_bytes + release_contents(used_slot, used_ids, used_times);
    END LOOP;
END
$$;

-- Deletes single messages of inboxes; none is in the list twice. The result for each: the state of its inbox after
-- it, NULL if that holds no such message.
CREATE FUNCTION delete_messages(
    my_shard integer, allowed bigint[], gone_inboxes bigint[], gone_keys bigint[],
    OUT deleted boolean[], OUT is_full boolean[], OUT share_full boolean[], OUT totals bigint[]
) LANGUAGE plpgsql AS $$
DECLARE
    gone_slots integer[];
    removed record;
BEGIN
    PERFORM lock_inboxes(gone_inboxes);
    SELECT array_agg(i.slot ORDER BY g.place),
           array_agg(m.key IS NOT NULL ORDER BY g.place)
        INTO gone_slots, deleted
        FROM unnest(gone_inboxes, gone_keys) WITH ORDINALITY AS g(inbox_id, key, place)
        LEFT JOIN LATERAL (SELECT slot FROM inbox WHERE id = g.inbox_id OFFSET 0) AS i ON true
        LEFT JOIN LATERAL (SELECT key FROM message WHERE slot = i.slot AND inbox_id = g.inbox_id AND key = g.key
                           OFFSET 0) AS m ON true;
    SELECT * INTO removed FROM remove_messages(gone_slots, gone_inboxes, gone_keys);
    SELECT array_agg(s.is_full ORDER BY g.place), array_agg(s.share_full ORDER BY g.place)
        INTO is_full, share_full
        FROM unnest(gone_inboxes) WITH ORDINALITY AS g(inbox_id, place)
        LEFT JOIN states(gone_inboxes, allowed) AS s ON s.id = g.inbox_id;
    totals := count_usage(my_shard, -removed.freed_bytes, 0, -removed.messages);
END
$$;

-- Moves the mail of an inbox that is locked to another slot. Returns how many more octets are stored then: what several
-- inboxes share is stored once in each of their slots.
CREATE FUNCTION define_move_mail() RETURNS void LANGUAGE plpgsql AS $define$
DECLARE
    template text := $template$
CREATE OR REPLACE FUNCTION move_mail(moved_inbox bigint, old_slot integer, new_slot integer) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    used_ids bigint[];
    used_times integer[];
    known_ids bigint[];
    added_bytes bigint;
BEGIN
    SELECT array_agg(u.content_id), array_agg(u.times) INTO used_ids, used_times
        FROM (SELECT content_id, count(*)::integer AS times FROM message
              WHERE slot = old_slot AND inbox_id = moved_inbox GROUP BY content_id ORDER BY content_id) AS u;
    UPDATE inbox SET slot = new_slot WHERE id = moved_inbox;
    IF used_ids IS NULL THEN
        RETURN 0;
    END IF;
    PERFORM 1 FROM content WHERE slot = least(old_slot, new_slot) AND id = ANY(used_ids) ORDER BY id FOR NO KEY UPDATE;
    PERFORM 1 FROM content WHERE slot = greatest(old_slot, new_slot) AND id = ANY(used_ids) ORDER BY id FOR NO KEY UPDATE;
    known_ids := ARRAY(SELECT id FROM content WHERE slot = new_slot AND id = ANY(used_ids));
    WITH copied AS (
        INSERT INTO content AS n (slot, id, copies, received_at_ms, /*columns*/)
            SELECT new_slot, c.id, u.times, c.received_at_ms, /*values*/
            FROM unnest(used_ids, used_times) AS u(id, times)
            CROSS JOIN LATERAL (SELECT * FROM content WHERE slot = old_slot AND id = u.id OFFSET 0) AS c
            ON CONFLICT (slot, id) DO UPDATE SET copies = n.copies + excluded.copies
            RETURNING n.id, n.stored_bytes
    )
    SELECT coalesce(sum(stored_bytes), 0) INTO added_bytes FROM copied WHERE id <> ALL(known_ids);
    UPDATE message SET slot = new_slot WHERE slot = old_slot AND inbox_id = moved_inbox;
    RETURN added_bytes - release_contents(old_slot, used_ids, used_times);
END
$$;
$template$;
BEGIN
    template := replace(template, '/*columns*/', content_columns('%1$s'));
    EXECUTE replace(template, '/*values*/', content_columns('c.%1$s'));
END
$define$;

SELECT define_move_mail();

-- Sets the expiry of an inbox that is alive. wanted_slot: where its mail is to lie if it lives longer than before, NULL: it
-- does not. The result: NULL, or since when it has expired, -1 if there is none; then its state.
CREATE FUNCTION set_expiry(
    my_shard integer, now_ms bigint, allowed bigint[], wanted_inbox bigint, wanted_expires bigint, wanted_slot integer,
    OUT refusal bigint, OUT is_full boolean, OUT share_full boolean, OUT totals bigint[]
) LANGUAGE plpgsql AS $$
DECLARE
    old record;
    more_bytes bigint := 0;
BEGIN
    PERFORM lock_inboxes(ARRAY[wanted_inbox]);
    SELECT expires_at_ms, swept, slot INTO old FROM inbox WHERE id = wanted_inbox AND id <> 1;
    IF NOT FOUND THEN
        refusal := -1;
    ELSIF old.swept OR old.expires_at_ms <= now_ms THEN
        refusal := least(old.expires_at_ms, now_ms);
    ELSE
        UPDATE inbox SET expires_at_ms = wanted_expires WHERE id = wanted_inbox;
        -- Mail that now expires earlier stays where it is: the sweep deletes it in time.
        IF old.slot <> 0 AND (wanted_slot = 0 OR wanted_slot > old.slot) THEN
            more_bytes := move_mail(wanted_inbox, old.slot, wanted_slot);
        END IF;
        SELECT s.is_full, s.share_full INTO is_full, share_full FROM states(ARRAY[wanted_inbox], allowed) AS s;
    END IF;
    totals := count_usage(my_shard, more_bytes, 0, 0);
END
$$;

-- Deletes some of what has expired: mail first, then the address, a day later its tombstone. Returns how much that was, and
-- whether there may be more. One daemon at a time: for the others there is nothing to do.
CREATE FUNCTION sweep(
    my_shard integer, now_ms bigint, name_held_ms bigint, inbox_bytes bigint, operator_before bigint,
    most_rows integer, most_octets bigint, OUT done bigint, OUT more boolean, OUT totals bigint[]
) LANGUAGE plpgsql AS $$
DECLARE
    expired bigint[];
    emptied bigint[];
    creators bytea[];
    ended integer[];
    gone_slots integer[];
    gone_inboxes bigint[];
    gone_keys bigint[];
    removed record;
    forgotten bigint;
    unblocked bigint;
BEGIN
    done := 0;
    more := false;
    IF NOT pg_try_advisory_xact_lock(7238716, 3) THEN
        totals := count_usage(my_shard, 0, 0, 0);
        RETURN;
    END IF;
    expired := ARRAY(SELECT id FROM inbox WHERE NOT swept AND expires_at_ms <= now_ms ORDER BY expires_at_ms, id LIMIT most_rows);
    PERFORM lock_inboxes(1 || expired);
    -- Read again: the expiry of one may have been moved before it was locked.
    expired := ARRAY(SELECT id FROM inbox WHERE id = ANY(expired) AND (NOT swept AND expires_at_ms <= now_ms) IS TRUE);
    SELECT array_agg(o.slot), array_agg(o.inbox_id), array_agg(o.key) INTO gone_slots, gone_inboxes, gone_keys FROM (
        SELECT f.slot, f.inbox_id, f.key,
               coalesce(sum(c.size_bytes) OVER (ROWS UNBOUNDED PRECEDING) - c.size_bytes, 0) AS octets
        FROM (
            (SELECT m.* FROM inbox AS i
             CROSS JOIN LATERAL (SELECT slot, inbox_id, key, content_id FROM message
                                 WHERE slot = i.slot AND inbox_id = i.id OFFSET 0) AS m
             WHERE i.id = ANY(expired) LIMIT most_rows)
            UNION ALL
            (SELECT slot, inbox_id, key, content_id FROM message
             WHERE slot = 0 AND inbox_id = 1 AND key < operator_before ORDER BY key LIMIT most_rows)
        ) AS f
        LEFT JOIN LATERAL (SELECT size_bytes FROM content WHERE slot = f.slot AND id = f.content_id OFFSET 0) AS c ON true
    ) AS o WHERE o.octets < most_octets;
    SELECT * INTO removed FROM remove_messages(gone_slots, gone_inboxes, gone_keys);
    emptied := ARRAY(SELECT i.id FROM inbox AS i
                     LEFT JOIN LATERAL (SELECT key FROM message WHERE slot = i.slot AND inbox_id = i.id LIMIT 1) AS m ON true
                     WHERE i.id = ANY(expired) AND m.key IS NULL);
    SELECT array_agg(c.hash), array_agg(c.ended) INTO creators, ended
        FROM (SELECT creator AS hash, count(*)::integer AS ended FROM inbox WHERE id = ANY(emptied) AND creator IS NOT NULL
              GROUP BY creator) AS c;
    UPDATE creator SET inboxes = inboxes - ended[array_position(creators, hash)] WHERE hash = ANY(creators);
    DELETE FROM creator WHERE inboxes <= 0 AND hash = ANY(creators);
    UPDATE service SET last_key = s.last_key FROM (SELECT max(last_key) AS last_key FROM inbox WHERE id = ANY(emptied)) AS s
        WHERE service.id = 1 AND service.last_key < s.last_key;
    UPDATE inbox SET swept = true, address = '', creator = NULL WHERE id = ANY(emptied);
    DELETE FROM inbox WHERE id = ANY(ARRAY(SELECT id FROM inbox WHERE swept AND expires_at_ms <= now_ms - name_held_ms
                                           ORDER BY expires_at_ms LIMIT most_rows));
    GET DIAGNOSTICS forgotten = ROW_COUNT;
    DELETE FROM block WHERE ctid = ANY(ARRAY(SELECT ctid FROM block WHERE expires_at_ms <= now_ms
                                             ORDER BY expires_at_ms LIMIT most_rows));
    GET DIAGNOSTICS unblocked = ROW_COUNT;
    done := removed.messages + cardinality(emptied) + forgotten + unblocked;
    more := done > 0 AND (removed.messages > 0 OR cardinality(expired) = most_rows
                          OR forgotten = most_rows OR unblocked = most_rows);
    totals := count_usage(my_shard, -removed.freed_bytes - inbox_bytes * forgotten, -cardinality(emptied)::bigint,
                          -removed.messages);
END
$$;

-- For people with a psql shell.
CREATE VIEW inboxes AS
    SELECT address, to_timestamp(created_at_ms / 1000.0) AS created_at, to_timestamp(expires_at_ms / 1000.0) AS expires_at,
           private, message_count, stored_bytes
    FROM inbox WHERE id <> 1 AND NOT swept ORDER BY id;

CREATE VIEW mail AS
    SELECT m.inbox_id, m.key, i.address, to_timestamp(c.received_at_ms / 1000.0) AS received_at, c.sender, c.subject,
           c.size_bytes AS size,
           CASE WHEN c.body_at IS NULL THEN c.body
                ELSE replace(convert_from(substr(c.source, c.body_at + 1, c.body_bytes), 'UTF8'), E'\r\n', E'\n') END AS body
    FROM message AS m
    JOIN inbox AS i ON i.id = m.inbox_id
    JOIN content AS c ON c.slot = m.slot AND c.id = m.content_id
    ORDER BY m.inbox_id, m.key;
