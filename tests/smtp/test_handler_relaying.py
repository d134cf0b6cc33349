"""Whose mail it is, asked over a socket: no form of a foreign address is taken, every form of one of ours is."""

FOREIGN, UNKNOWN, NO_ADDRESS, JUNK = "550 5.7.1 ", "550 5.1.1 ", "501 5.1.3 ", "555 5.5.4 "

NOT_TAKEN = [
    ("<abc@elsewhere.example>", FOREIGN),
    ("<abc@[192.0.2.1]>", FOREIGN),
    ("<abc@[127.0.0.1]>", FOREIGN),  # us by another name, and still none of our domains
    ("<abc@[IPv6:2001:db8::1]>", FOREIGN),
    ("<abc@localhost>", FOREIGN),
    ("<abc@mx.ours.test>", FOREIGN),  # our own host's name
    ("<abc@ours.test.elsewhere.example>", FOREIGN),
    ("<abc@sub.ours.test>", FOREIGN),
    ("<abc@xours.test>", FOREIGN),
    ("<abc@ours.tes>", FOREIGN),
    ("<@ours.test:abc@elsewhere.example>", FOREIGN),  # a route through us
    ("<@ours.test,@second.test:abc@elsewhere.example>", FOREIGN),
    ("<@elsewhere.example:v%x@ours.test>", UNKNOWN),
    ("<v%elsewhere.example@ours.test>", UNKNOWN),
    ("<v%elsewhere.example%second.test@ours.test>", UNKNOWN),
    ("<elsewhere.example!v@ours.test>", UNKNOWN),
    ("<ours.test!elsewhere.example!v@ours.test>", UNKNOWN),
    ('<"v@elsewhere.example"@ours.test>', UNKNOWN),
    ('<"v%elsewhere.example"@ours.test>', UNKNOWN),
    ('<"abc@ours.test"@elsewhere.example>', FOREIGN),
    ("<abc@second.test>", UNKNOWN),  # our domain, nobody's inbox
    ("<v@elsewhere.example@ours.test>", NO_ADDRESS),
    ("<abc@ours.test@elsewhere.example>", NO_ADDRESS),
    ('<"abc"%elsewhere.example@ours.test>', NO_ADDRESS),
    ("<abc@ours.test:v@elsewhere.example>", NO_ADDRESS),
    ("<abc@ours.test,v@elsewhere.example>", NO_ADDRESS),
    ("<abc@ours.test, v@elsewhere.example>", NO_ADDRESS),
    ("<abc>", NO_ADDRESS),
    ("<elsewhere.example!abc>", NO_ADDRESS),
    ("<abc@\u212aelvin.test>", NO_ADDRESS),
    ("<abc@ｏurs.test>", NO_ADDRESS),  # noqa: RUF001 - full-width
    ("<abc@elsewhere.example", NO_ADDRESS),
    ("<v@elsewhere.example><abc@ours.test>", NO_ADDRESS),
    ("abc@elsewhere.example", NO_ADDRESS),
    ("<abc@ours.test> ORCPT=rfc822;v@elsewhere.example", JUNK),
]


async def test_nothing_is_relayed_in_any_form(serve):
    async with serve() as house:
        for path, expected in NOT_TAKEN:
            client = await house.greeted()
            said = await client.say("MAIL FROM:<abc@ours.test> SMTPUTF8", f"RCPT TO:{path}", "DATA", "QUIT")
            assert [reply[:10] for reply in said] == ["250 2.1.0 ", expected, "554 5.5.1 ", "221 2.0.0 "], path
        assert house.sources() == []


OURS = [
    "abc@ours.test",
    '"abc"@ours.test',
    '"a\\bc"@ours.test',
    "ABC@OURS.TEST",
    "abc+tag@ours.test",
    "abc+@ours.test",
    "Abc+a+b@ours.test",
    "abc+\u00e4@ours.test",
    '"abc+tag"@ours.test',
    '"abc+v@elsewhere.example"@ours.test',
    "@relay.example:abc@ours.test",
    "@a.example,@b.example:abc@ours.test",
]


async def test_every_form_of_an_address_reaches_its_inbox(serve):
    async with serve() as house:
        client = await house.greeted()
        for path in OURS:
            said = await client.say("MAIL FROM:<a@example.com> SMTPUTF8", f"RCPT TO:<{path}>", "DATA", ".")
            assert [reply[:10] for reply in said] == ["250 2.1.0 ", "250 2.1.5 ", "354 End da", "250 2.0.0 "], path
            newest, *_ = await house.messages("abc")
            assert said[-1] == f"250 2.0.0 Ok: stored as {newest.id}"
            assert newest.recipient == path


async def test_one_of_ours_beside_foreign_ones_gets_the_mail_alone(serve):
    async with serve(names=("abc",)) as house:
        client = await house.greeted()
        paths = [path for path, expected in NOT_TAKEN if expected in (FOREIGN, UNKNOWN)]
        said = await client.say("MAIL FROM:<>", *[f"RCPT TO:{path}" for path in [*paths, "<abc@ours.test>"]], "DATA")
        assert said[-2:] == ["250 2.1.5 Ok", "354 End data with <CR><LF>.<CR><LF>"]
        assert (await client.say("To: v@elsewhere.example\r\n."))[0].startswith("250 2.0.0 Ok: stored as ")
        assert house.read("SELECT address FROM mail") == [("abc@ours.test",)]
