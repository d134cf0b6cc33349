-- Creates :inboxes inboxes with :mails_each messages in each, following the first schema; their ids start at 100.
INSERT INTO inbox (id, name_hash, created_at_ms, expires_at_ms, private, creator)
    WITH RECURSIVE n (n) AS (SELECT 100 UNION ALL SELECT n + 1 FROM n LIMIT :inboxes)
    SELECT n, randomblob(16), n, n + 1000, 0, CAST(n % 100 AS BLOB) FROM n;

INSERT OR IGNORE INTO address
    SELECT id / 12, x'', zeroblob(3840) FROM inbox;

INSERT INTO delivery (
    id, inbox_id, content_id, recipient_at, recipient_bytes, received_at_ms, size_bytes, stored_bytes, body_bytes, tls,
    filler, sender, sender_name, subject, attachments, recipients, envelope_from, helo, remote_ip, session, warnings,
    headers, body, source, padding
)
    WITH RECURSIVE n (n) AS (SELECT 100 UNION ALL SELECT n + 1 FROM n LIMIT :inboxes * :mails_each)
    SELECT n, 100 + n % :inboxes, n, 0, 0, n, 4, 5637, 4, 0,
           x'', 'a@x.test', 'name', 'subject', '[]', x'', 'a@x.test', 'helo', '192.0.2.1', '[]', '[]',
           '[]', 'text', CAST('raw!' AS BLOB), x''
    FROM n;
