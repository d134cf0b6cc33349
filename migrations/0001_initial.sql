-- The first schema. Frozen: a change is a new file, never an edit. Later files add tables and columns; none rewrites a
-- table that holds mail, which would need the memory, the disk and the time that the mail takes.
--
-- Erasure rules the shape. secure_delete overwrites only what is deleted in place; pages that are split or merged
-- keep copies of what they moved. So the text of a mail or an address stands only in overflow pages, which are never
-- split or merged: a filler takes what room such a row has in its b-tree page, a padding makes the rest come out even
-- (tmpmaild/storage/sqlite/layout.py). No index covers a text; addresses are found by a keyed hash.
--
-- Times are Unix times in milliseconds. size_bytes are the octets of a mail, stored_bytes what it takes in this file:
-- inboxes and creators are charged the latter.

CREATE TABLE daemon (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    hash_key BLOB NOT NULL,                        -- keys the hashes of addresses and creators
    last_message_id INTEGER NOT NULL,              -- the highest ever committed: clocks step back, mail is deleted
    clean_stop INTEGER NOT NULL CHECK (clean_stop IN (0, 1))
) STRICT;

INSERT INTO daemon (id, hash_key, last_message_id, clean_stop) VALUES (1, randomblob(32), 0, 1);

-- One row an address, and its tombstone: the row outlives the address by a day and keeps the name from being given
-- to somebody else. It holds numbers and hashes only, so that counters can be updated in place.
CREATE TABLE inbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name_hash BLOB NOT NULL UNIQUE,
    created_at_ms INTEGER NOT NULL,
    expires_at_ms INTEGER NOT NULL,
    private INTEGER NOT NULL CHECK (private IN (0, 1)),
    token_hash BLOB,                               -- SHA-256
    creator BLOB,                                  -- keyed hash of the client; NULL: no share is kept
    message_count INTEGER NOT NULL DEFAULT 0,
    stored_bytes INTEGER NOT NULL DEFAULT 0,
    swept INTEGER NOT NULL DEFAULT 0 CHECK (swept IN (0, 1))
) STRICT;

CREATE INDEX inbox_by_expiry ON inbox (swept, expires_at_ms);

-- The address of an inbox stands in row id / 12, in the (id % 12)th of 12 slots of 320 octets, filled up with spaces:
-- a page of its own for each address would be a waste. A row goes with the last of its addresses.
CREATE TABLE address (
    id INTEGER PRIMARY KEY,
    filler BLOB NOT NULL,
    slots BLOB NOT NULL
) STRICT;

-- What one client's inboxes hold together. A mail for several of them is charged once for each.
CREATE TABLE creator (
    hash BLOB PRIMARY KEY,
    stored_bytes INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- One row a transaction; its id is that of the transaction's first message. A body that is in the source unchanged,
-- but for its line ends, is not stored a second time: a small mail then takes one overflow page instead of two.
CREATE TABLE content (
    id INTEGER PRIMARY KEY,
    received_at_ms INTEGER NOT NULL,
    size_bytes INTEGER NOT NULL,
    stored_bytes INTEGER NOT NULL,                 -- as tmpmaild/storage/sqlite/layout.py counts them
    body_at INTEGER,                               -- octets before the body in source; NULL: it is in body
    body_bytes INTEGER NOT NULL,                   -- there or here
    tls INTEGER NOT NULL CHECK (tls IN (0, 1)),
    filler BLOB NOT NULL,                          -- nothing above it is text, nothing below it is a number
    sender TEXT NOT NULL,                          -- of the From field, else of the envelope
    sender_name TEXT NOT NULL,
    subject TEXT NOT NULL,
    attachments TEXT NOT NULL,                     -- JSON
    recipients BLOB NOT NULL,                      -- as they were written; a message knows where its own stands
    envelope_from TEXT NOT NULL,
    helo TEXT NOT NULL,
    remote_ip TEXT NOT NULL,
    session TEXT NOT NULL,                         -- JSON, see tmpmaild/storage/rows.py
    warnings TEXT NOT NULL,                        -- JSON
    headers TEXT NOT NULL,                         -- JSON, [[name, value], …]
    body TEXT NOT NULL,                            -- what may be large stands last: a list reads no further
    html TEXT,
    source BLOB NOT NULL,                          -- the octets as they came
    padding BLOB NOT NULL
) STRICT;

-- One row for each inbox a transaction was delivered to.
CREATE TABLE message (
    id INTEGER PRIMARY KEY,
    inbox_id INTEGER NOT NULL REFERENCES inbox (id),
    content_id INTEGER NOT NULL,                   -- no REFERENCES: it would want a full index for each delete
    recipient_at INTEGER NOT NULL,                 -- octets in content.recipients, the first is 0
    recipient_bytes INTEGER NOT NULL
) STRICT;

CREATE INDEX message_by_inbox ON message (inbox_id);
-- Only the second and further recipients of a transaction stand here.
CREATE INDEX message_sharing_content ON message (content_id) WHERE content_id <> id;

-- One statement stores a whole batch of mail, and so is a transaction of its own: it inserts here, a row a message.
-- The first message of a transaction brings the content; the others leave its columns NULL.
CREATE VIEW delivery AS
    SELECT m.id, m.inbox_id, m.content_id, m.recipient_at, m.recipient_bytes, c.received_at_ms, c.size_bytes,
           c.stored_bytes, c.body_at, c.body_bytes, c.tls, c.filler, c.sender, c.sender_name, c.subject, c.attachments,
           c.recipients, c.envelope_from, c.helo, c.remote_ip, c.session, c.warnings, c.headers, c.body, c.html,
           c.source, c.padding
    FROM message AS m JOIN content AS c ON c.id = m.content_id;

CREATE TRIGGER delivered_content INSTEAD OF INSERT ON delivery WHEN NEW.id = NEW.content_id BEGIN
    INSERT INTO content VALUES (
        NEW.id, NEW.received_at_ms, NEW.size_bytes, NEW.stored_bytes, NEW.body_at, NEW.body_bytes, NEW.tls, NEW.filler,
        NEW.sender, NEW.sender_name, NEW.subject, NEW.attachments, NEW.recipients, NEW.envelope_from, NEW.helo,
        NEW.remote_ip, NEW.session, NEW.warnings, NEW.headers, NEW.body, NEW.html, NEW.source, NEW.padding
    );
    INSERT INTO message VALUES (NEW.id, NEW.inbox_id, NEW.content_id, NEW.recipient_at, NEW.recipient_bytes);
END;

CREATE TRIGGER delivered_again INSTEAD OF INSERT ON delivery WHEN NEW.id <> NEW.content_id BEGIN
    INSERT INTO message VALUES (NEW.id, NEW.inbox_id, NEW.content_id, NEW.recipient_at, NEW.recipient_bytes);
END;

-- What an inbox and a creator hold: what a message added is what it takes away again.
CREATE TRIGGER message_added AFTER INSERT ON message BEGIN
    UPDATE inbox
        SET message_count = message_count + 1,
            stored_bytes = stored_bytes + (SELECT stored_bytes FROM content WHERE id = NEW.content_id)
        WHERE id = NEW.inbox_id;
    INSERT INTO creator (hash, stored_bytes)
        SELECT i.creator, c.stored_bytes FROM inbox AS i, content AS c
        WHERE i.id = NEW.inbox_id AND i.creator IS NOT NULL AND c.id = NEW.content_id
        ON CONFLICT (hash) DO UPDATE SET stored_bytes = stored_bytes + excluded.stored_bytes;
END;

CREATE TRIGGER message_deleted AFTER DELETE ON message BEGIN
    UPDATE creator
        SET stored_bytes = stored_bytes - (SELECT stored_bytes FROM content WHERE id = OLD.content_id)
        WHERE hash = (SELECT creator FROM inbox WHERE id = OLD.inbox_id);
    DELETE FROM creator
        WHERE hash = (SELECT creator FROM inbox WHERE id = OLD.inbox_id) AND stored_bytes <= 0;
    UPDATE inbox
        SET message_count = message_count - 1,
            stored_bytes = stored_bytes - (SELECT stored_bytes FROM content WHERE id = OLD.content_id)
        WHERE id = OLD.inbox_id;
END;

-- The domains of the configuration, and those that were in it while their addresses may live.
CREATE TABLE domain (
    name TEXT PRIMARY KEY,
    kept_until_ms INTEGER                          -- NULL: it takes new addresses
) STRICT, WITHOUT ROWID;

-- What the operator has blocked.
CREATE TABLE block (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,                            -- client, name or sender
    value TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL,
    expires_at_ms INTEGER,                         -- NULL: never
    UNIQUE (kind, value)
) STRICT;

CREATE INDEX block_by_expiry ON block (expires_at_ms) WHERE expires_at_ms IS NOT NULL;

-- The operator's inbox (postmaster, abuse): it has no name that the HTTP API could find.
INSERT INTO inbox (id, name_hash, created_at_ms, expires_at_ms, private)
    VALUES (1, zeroblob(16), 0, 9223372036854775807, 1);
INSERT INTO address (id, filler, slots)
    VALUES (0, zeroblob(489), CAST(printf('%-320s%-320s%-3200s', '', 'postmaster', '') AS BLOB));

-- What a list reads, the body with LF line ends wherever it stands.
CREATE VIEW readable AS
    SELECT id, received_at_ms, size_bytes, body_bytes, sender, sender_name, subject, attachments, recipients,
           html IS NOT NULL AS has_html,
           CASE WHEN body_at IS NULL THEN body
                ELSE replace(CAST(coalesce(substr(source, body_at + 1, body_bytes), '') AS TEXT), char(13, 10), char(10))
           END AS body
    FROM content;

-- For people with a sqlite3 shell.
CREATE VIEW inboxes AS
    SELECT CAST(rtrim(substr(a.slots, i.id % 12 * 320 + 1, 320)) AS TEXT) AS address,
           strftime('%Y-%m-%dT%H:%M:%fZ', i.created_at_ms / 1000.0, 'unixepoch') AS created_at,
           strftime('%Y-%m-%dT%H:%M:%fZ', i.expires_at_ms / 1000.0, 'unixepoch') AS expires_at,
           i.private,
           i.message_count,
           i.stored_bytes
    FROM inbox AS i JOIN address AS a ON a.id = i.id / 12
    WHERE i.id <> 1 AND i.swept = 0
    ORDER BY i.id;

CREATE VIEW mail AS
    SELECT m.id,
           CAST(rtrim(substr(a.slots, m.inbox_id % 12 * 320 + 1, 320)) AS TEXT) AS address,
           strftime('%Y-%m-%dT%H:%M:%fZ', c.received_at_ms / 1000.0, 'unixepoch') AS received_at,
           c.sender,
           c.subject,
           c.size_bytes AS size,
           c.body
    FROM message AS m
    JOIN address AS a ON a.id = m.inbox_id / 12
    JOIN readable AS c ON c.id = m.content_id
    ORDER BY m.id;

CREATE VIEW source AS
    SELECT id, source AS octets FROM content;
