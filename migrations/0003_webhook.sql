-- Who is called when an inbox changes. There is no table of events: what is to be told are the messages of the inbox above the
-- two positions, so an event is stored by the transaction that stores its mail, and ends with that mail.

-- Numbers only (and one of a few words), so that a row changes in place, also when the file is full.
CREATE TABLE webhook (
    inbox_id INTEGER PRIMARY KEY,
    version INTEGER NOT NULL,                      -- drawn at random when it is set; each lease adds one
    told_message_id INTEGER NOT NULL,              -- the last message of which it was told that it has come
    told_verdict_id INTEGER NOT NULL,              -- and that it is known who sent it
    failures INTEGER NOT NULL,                     -- in a row
    next_at_ms INTEGER NOT NULL,                   -- no call before; a lease moves it to its end
    called_at_ms INTEGER,
    result TEXT NOT NULL                           -- of that call: a status, or why there is none
) STRICT;

-- What the holder of the inbox wants. Text is in overflow pages only, as in content.
CREATE TABLE webhook_text (
    inbox_id INTEGER PRIMARY KEY,
    filler BLOB NOT NULL,
    webhook TEXT NOT NULL,                         -- JSON: URL, events, secret
    padding BLOB NOT NULL
) STRICT;

CREATE TRIGGER webhook_deleted AFTER DELETE ON webhook BEGIN
    DELETE FROM webhook_text WHERE inbox_id = OLD.inbox_id;
END;

-- A delivery, which changes other columns, does not fire it.
CREATE TRIGGER webhook_ended AFTER UPDATE OF swept ON inbox WHEN NEW.swept = 1 BEGIN
    DELETE FROM webhook WHERE inbox_id = NEW.id;
END;
