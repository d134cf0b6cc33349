"""Signatures, compared with the example in the specification of Standard Webhooks."""

from tmpmaild.webhooks.signing import event_id, signed_fields

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def test_the_example_of_the_specification_has_the_signature_that_it_states():
    body = b'{"test": 2432232314}'
    fields = signed_fields(SECRET, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body)
    assert fields == [
        ("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek"),
        ("webhook-timestamp", "1614265330"),
        ("webhook-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="),
    ]


def test_an_event_has_a_stable_id_that_depends_on_the_secret():
    ids = [
        event_id(SECRET, "message.received", "msg_1"),
        event_id(SECRET, "message.received", "msg_2"),
        event_id(SECRET, "verdict.reached", "msg_1"),
        event_id("whsec_AAAA", "message.received", "msg_1"),
    ]
    assert len(set(ids)) == 4
    assert ids[0] == event_id(SECRET, "message.received", "msg_1")
    assert "." not in ids[0]
