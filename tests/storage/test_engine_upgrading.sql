-- What the tags of a mail are; a comment; with semicolons.
CREATE TABLE tag (
    message_id INTEGER NOT NULL,   -- no REFERENCES
    tag INTEGER NOT NULL
) STRICT;
CREATE INDEX tag_by_message ON tag (message_id);
INSERT INTO tag (message_id, tag) VALUES (0, 1);
ALTER TABLE inbox ADD COLUMN tags INTEGER NOT NULL DEFAULT 0;
UPDATE daemon SET clean_stop = 0;
DROP VIEW mail;
CREATE VIEW mail AS SELECT id FROM message;
DROP TRIGGER message_added;
CREATE TRIGGER message_added AFTER INSERT ON message BEGIN
    UPDATE inbox SET message_count = message_count + 1 WHERE id = NEW.inbox_id;
    DELETE FROM tag WHERE message_id = NEW.id;
END;
-- the end
