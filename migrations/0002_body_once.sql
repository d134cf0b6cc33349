-- A body that stands in the source as it is, but for its line ends, is not stored a second time: a small mail then takes
-- one overflow page instead of two, and half as much is written before its sender is answered.

DROP VIEW delivery;
DROP VIEW mail;
DROP VIEW source;
DROP TRIGGER message_added;
DROP TRIGGER message_deleted;

CREATE TABLE new_content (
    id INTEGER PRIMARY KEY,
    received_at_ms INTEGER NOT NULL,
    size_bytes INTEGER NOT NULL,
    body_at INTEGER,                               -- octets before the body in source; NULL: it stands in body
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
    warnings TEXT NOT NULL,                        -- JSON
    headers TEXT NOT NULL,                         -- JSON, [[name, value], …]
    body TEXT NOT NULL,                            -- what may be large stands last: a list reads no further
    html TEXT,
    source BLOB NOT NULL,                          -- the octets as they came
    padding BLOB NOT NULL
) STRICT;

INSERT INTO new_content
    SELECT id, received_at_ms, size_bytes, NULL, body_bytes, tls, filler, sender, sender_name, subject, attachments,
           recipients, envelope_from, helo, remote_ip, warnings, headers, body, html, source, padding
    FROM content;
DROP TABLE content;
ALTER TABLE new_content RENAME TO content;

-- As in the first step, with the new column.
CREATE VIEW delivery AS
    SELECT m.id, m.inbox_id, m.content_id, m.recipient_at, m.recipient_bytes, c.received_at_ms, c.size_bytes,
           c.body_at, c.body_bytes, c.tls, c.filler, c.sender, c.sender_name, c.subject, c.attachments, c.recipients,
           c.envelope_from, c.helo, c.remote_ip, c.warnings, c.headers, c.body, c.html, c.source, c.padding
    FROM message AS m JOIN content AS c ON c.id = m.content_id;

CREATE TRIGGER delivered_content INSTEAD OF INSERT ON delivery WHEN NEW.id = NEW.content_id BEGIN
    INSERT INTO content VALUES (
        NEW.id, NEW.received_at_ms, NEW.size_bytes, NEW.body_at, NEW.body_bytes, NEW.tls, NEW.filler, NEW.sender,
        NEW.sender_name, NEW.subject, NEW.attachments, NEW.recipients, NEW.envelope_from, NEW.helo, NEW.remote_ip,
        NEW.warnings, NEW.headers, NEW.body, NEW.html, NEW.source, NEW.padding
    );
    INSERT INTO message VALUES (NEW.id, NEW.inbox_id, NEW.content_id, NEW.recipient_at, NEW.recipient_bytes);
END;

CREATE TRIGGER delivered_again INSTEAD OF INSERT ON delivery WHEN NEW.id <> NEW.content_id BEGIN
    INSERT INTO message VALUES (NEW.id, NEW.inbox_id, NEW.content_id, NEW.recipient_at, NEW.recipient_bytes);
END;

CREATE TRIGGER message_added AFTER INSERT ON message BEGIN
    UPDATE inbox
        SET message_count = message_count + 1,
            stored_bytes = stored_bytes + (SELECT size_bytes FROM content WHERE id = NEW.content_id)
        WHERE id = NEW.inbox_id;
    INSERT INTO creator (hash, stored_bytes)
        SELECT i.creator, c.size_bytes FROM inbox AS i, content AS c
        WHERE i.id = NEW.inbox_id AND i.creator IS NOT NULL AND c.id = NEW.content_id
        ON CONFLICT (hash) DO UPDATE SET stored_bytes = stored_bytes + excluded.stored_bytes;
END;

CREATE TRIGGER message_deleted AFTER DELETE ON message BEGIN
    UPDATE creator
        SET stored_bytes = stored_bytes - (SELECT size_bytes FROM content WHERE id = OLD.content_id)
        WHERE hash = (SELECT creator FROM inbox WHERE id = OLD.inbox_id);
    DELETE FROM creator
        WHERE hash = (SELECT creator FROM inbox WHERE id = OLD.inbox_id) AND stored_bytes <= 0;
    UPDATE inbox
        SET message_count = message_count - 1,
            stored_bytes = stored_bytes - (SELECT size_bytes FROM content WHERE id = OLD.content_id)
        WHERE id = OLD.inbox_id;
END;

-- What a list reads, the body with LF line ends wherever it stands.
CREATE VIEW readable AS
    SELECT id, received_at_ms, size_bytes, body_bytes, sender, sender_name, subject, attachments, recipients,
           html IS NOT NULL AS has_html,
           CASE WHEN body_at IS NULL THEN body
                ELSE replace(CAST(coalesce(substr(source, body_at + 1, body_bytes), '') AS TEXT), char(13, 10), char(10))
           END AS body
    FROM content;

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
