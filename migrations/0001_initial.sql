-- The first schema. Frozen: a change is a new file, never an edit.
--
-- Erasure rules the shape. secure_delete overwrites only what is deleted in place; page splits leave copies
-- of what they move. So text of a mail or an address lives only in tables that grow at the end of an
-- INTEGER PRIMARY KEY and are never updated, and no index covers it. Addresses are found by a keyed hash.
--
-- Times are Unix times in milliseconds.

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

CREATE TABLE address (
    inbox_id INTEGER PRIMARY KEY,
    address TEXT NOT NULL
) STRICT;

-- What one client's inboxes hold together.
CREATE TABLE creator (
    hash BLOB PRIMARY KEY,
    stored_bytes INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- One row a transaction; its id is that of the transaction's first message.
CREATE TABLE content (
    id INTEGER PRIMARY KEY,
    received_at_ms INTEGER NOT NULL,
    size_bytes INTEGER NOT NULL,
    sender TEXT NOT NULL,                          -- of the From field, else of the envelope
    sender_name TEXT NOT NULL,
    subject TEXT NOT NULL,
    attachments TEXT NOT NULL,                     -- JSON
    body_bytes INTEGER NOT NULL,
    envelope_from TEXT NOT NULL,
    helo TEXT NOT NULL,
    remote_ip TEXT NOT NULL,
    tls INTEGER NOT NULL CHECK (tls IN (0, 1)),
    warnings TEXT NOT NULL,                        -- JSON
    headers TEXT NOT NULL,                         -- JSON, [[name, value], …]
    body TEXT NOT NULL,                            -- what may be large stands last: a list reads no further
    html TEXT
) STRICT;

-- The octets as they came; apart, so that listing does not read past them.
CREATE TABLE source (
    id INTEGER PRIMARY KEY REFERENCES content (id),
    octets BLOB NOT NULL
) STRICT;

-- One row for each inbox a transaction was delivered to.
CREATE TABLE message (
    id INTEGER PRIMARY KEY,
    inbox_id INTEGER NOT NULL REFERENCES inbox (id),
    content_id INTEGER NOT NULL,                   -- no REFERENCES: it would want a full index for each delete
    recipient TEXT NOT NULL                        -- as it was written
) STRICT;

CREATE INDEX message_by_inbox ON message (inbox_id);
-- Only the second and further recipients of a transaction stand here.
CREATE INDEX message_sharing_content ON message (content_id) WHERE content_id <> id;

-- The operator's inbox (postmaster, abuse): it has no name that the HTTP API could find.
INSERT INTO inbox (id, name_hash, created_at_ms, expires_at_ms, private)
    VALUES (1, zeroblob(16), 0, 9223372036854775807, 1);
INSERT INTO address (inbox_id, address) VALUES (1, 'postmaster');

-- For people with a sqlite3 shell.
CREATE VIEW inboxes AS
    SELECT a.address,
           strftime('%Y-%m-%dT%H:%M:%fZ', i.created_at_ms / 1000.0, 'unixepoch') AS created_at,
           strftime('%Y-%m-%dT%H:%M:%fZ', i.expires_at_ms / 1000.0, 'unixepoch') AS expires_at,
           i.private,
           i.message_count,
           i.stored_bytes
    FROM inbox AS i JOIN address AS a ON a.inbox_id = i.id
    WHERE i.id <> 1;

CREATE VIEW mail AS
    SELECT m.id,
           a.address,
           strftime('%Y-%m-%dT%H:%M:%fZ', c.received_at_ms / 1000.0, 'unixepoch') AS received_at,
           c.sender,
           c.subject,
           c.size_bytes AS size,
           c.body
    FROM message AS m
    JOIN address AS a ON a.inbox_id = m.inbox_id
    JOIN content AS c ON c.id = m.content_id
    ORDER BY m.id;
