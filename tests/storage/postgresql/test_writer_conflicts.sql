-- The second statement that stores mail fails, as if it could not be serialized.
CREATE SEQUENCE attempt;
CREATE FUNCTION fail_once() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    IF nextval('attempt') = 2 THEN RAISE 'on purpose' USING ERRCODE = '40001'; END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER fail_once AFTER INSERT ON content FOR EACH STATEMENT EXECUTE FUNCTION fail_once();
