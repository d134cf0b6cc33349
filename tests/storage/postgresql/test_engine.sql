-- needs 1: it adds what older daemons do without
ALTER TABLE content ADD COLUMN language text;
ALTER TABLE inbox ADD COLUMN note text;
ALTER TABLE domain ADD COLUMN note text;
CREATE TABLE later (id integer PRIMARY KEY);
