-- With one row a second for $3 seconds from $1 on, all in the slot $2.
INSERT INTO inbox (name_hash, address, created_at_ms, expires_at_ms, slot, private, creator, message_count, last_key, swept)
    SELECT decode(md5(n::text), 'hex'), n || '@x.test', $1::bigint, $1::bigint + n * 1000, $2::integer, false, decode(md5((n % 50)::text), 'hex'), 1, n,
           n % 10 = 0
    FROM generate_series(1, $3::integer) AS n;

-- The rows that belong to those inboxes.
INSERT INTO creator SELECT creator, count(*), 0 FROM inbox WHERE creator IS NOT NULL GROUP BY creator;
INSERT INTO message SELECT slot, id, last_key, id, 'x' FROM inbox WHERE id > 1;
INSERT INTO content (slot, id, copies, stored_bytes, received_at_ms, size_bytes, body_bytes, tls, sender, sender_name, subject,
                     attachments, envelope_from, helo, remote_ip, session, warnings, headers, body, source)
    SELECT slot, id, 1, 5000, 1, 1, 1, false, 's', 'n', 'x', '[]', 'e', 'h', 'i', '["","","","","",0,[]]', '[]', '[]', 'x', 'x' FROM inbox WHERE id > 1;
INSERT INTO webhook SELECT id, 1, 0, 0, 0, 0, NULL, '', '{"url":"","events":[],"has":[],"secret":""}'
    FROM inbox WHERE NOT swept AND id > 1;
INSERT INTO block SELECT 'name', n::text, 1, n + 1800000000000 FROM generate_series(1, 2000) AS n;
SELECT setval('content_id', 1000000);
