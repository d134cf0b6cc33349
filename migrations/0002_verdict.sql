-- What was found out about who sent a message. A table of its own, since it is known after the mail is stored, and a list
-- reads it without reading through the source. Text is in overflow pages only, as in content.

CREATE TABLE verdict (
    id INTEGER PRIMARY KEY,                        -- of the message
    filler BLOB NOT NULL,
    authentication TEXT NOT NULL,                  -- JSON
    padding BLOB NOT NULL
) STRICT;

CREATE TRIGGER verdict_deleted AFTER DELETE ON message BEGIN
    DELETE FROM verdict WHERE id = OLD.id;
END;
