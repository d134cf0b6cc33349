DELETE FROM inbox WHERE id <> 1;
UPDATE inbox SET message_count = 0, stored_bytes = 0, last_key = 0;
UPDATE usage SET stored_bytes = 0, inboxes = 0, messages = 0 WHERE (stored_bytes, inboxes, messages) <> (0, 0, 0);
UPDATE service SET last_key = 0;
SELECT setval('inbox_id_seq', 1);
