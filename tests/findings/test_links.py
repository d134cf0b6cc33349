"""Links in a message: which links are found, in what form and in what order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growth import assert_linear
from tmpmaild.client.waiting import LIKELY
from tmpmaild.findings import links
from tmpmaild.mail import htmltext
from tmpmaild.model import BodyLink

TOKEN = "8fK2ab91LmPq77zX"
TRACKED = f"https://click.mail.example/ls/c?u={TOKEN}"


def hrefs(body, html=""):
    return [link.href for link in links.find(body, html)]


def confidence_of(text, href=TRACKED):
    return links.find("", f'<a href="{href}">{text}</a>')[0].confidence


@pytest.mark.parametrize(
    ("body", "href"),
    [
        ("https://x.example", "https://x.example"),
        ("HTTP://X.example/A", "HTTP://X.example/A"),
        ("see https://x.example/a.", "https://x.example/a"),
        ("see https://x.example/a, and", "https://x.example/a"),
        ("(https://x.example/a)", "https://x.example/a"),
        ("(https://x.example/a_(b))", "https://x.example/a_(b)"),
        ("<https://x.example/a?b=c>", "https://x.example/a?b=c"),
        ("text <https://x.example/a>.", "https://x.example/a"),
        ("[here](https://x.example/a)", "https://x.example/a"),
        ("[https://x.example/a]", "https://x.example/a"),
        ('"https://x.example/a"', "https://x.example/a"),
        ("„https://x.example/a“", "https://x.example/a"),
        ("**https://x.example/a**", "https://x.example/a"),
        ("https://x.example/a?b=c&d=e#f!", "https://x.example/a?b=c&d=e#f"),
        ("https://x.example/a-_~%20;=@b", "https://x.example/a-_~%20;=@b"),
        ("https://münchen.example/ä", "https://münchen.example/ä"),
        ("https://x.example/aをクリック", "https://x.example/a"),
        ("「https://x.example/a」", "https://x.example/a"),
        ("https://x.example/a。", "https://x.example/a"),
        ("https://[2001:db8::1]/a", "https://[2001:db8::1]/a"),
    ],
)
def test_an_address_in_a_text_ends_where_a_reader_would_end_it(body, href):
    assert hrefs(body) == [href]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no link",
        "www.x.example",
        "mailto:a@x.example",
        "ftp://x.example",
        "https://",
        "https://.",
        "javascript:alert(1)",
    ],
)
def test_other_texts_are_not_links(text):
    assert hrefs(text) == []
    assert hrefs("", f'<a href="{text}">x</a>') == []


@pytest.mark.parametrize(
    ("html", "href", "text"),
    [
        ('<a href="https://x.example/?a=1&amp;b=2">T</a>', "https://x.example/?a=1&b=2", "T"),
        ("<A HREF=https://x.example/a>T</A>", "https://x.example/a", "T"),
        ("<a class=b href='https://x.example/a'>T</a>", "https://x.example/a", "T"),
        ('<a href=" https://x.example/\n a b ">T</a>', "https://x.example/ a b", "T"),
        ('<a href="https://x.example/a"> A <b>bold</b>&nbsp; <i>link</i>\n</a>', "https://x.example/a", "A bold link"),
        ('<a href="https://x.example/a"><div>One</div><div>Two</div></a>', "https://x.example/a", "One Two"),
        ('<a href="https://x.example/a"><img src=x alt="The &amp; logo"></a>', "https://x.example/a", "The & logo"),
        ('<a href="https://x.example/a">never closed', "https://x.example/a", "never closed"),
        ('<a href="&#104;ttps://x.example/a">T</a>', "https://x.example/a", "T"),
    ],
)
def test_a_link_in_html_has_an_address_and_a_text(html, href, text):
    (link,) = links.find("", html)
    assert (link.href, link.text) == (href, text)


@pytest.mark.parametrize(
    "html",
    [
        "<!-- <a href='https://x.example'>x</a> -->",
        "<script>'<a href=https://x.example>x</a>'</script>",
        "<a name=top>x</a>",
        "<a href='/verify'>x</a>",
        "<a href='data:text/html,x'>x</a>",
        "<a href='JavaScript:x'>x</a>",
    ],
)
def test_other_html_is_not_a_link(html):
    assert links.find("", html) == ()


def test_links_come_from_both_parts_and_from_the_text_of_the_html():
    assert hrefs("https://t.example/", "<p>none</p>") == ["https://t.example/"]
    assert hrefs("https://t.example/", "<a href=https://h.example/>x</a>") == [
        "https://h.example/",
        "https://t.example/",
    ]
    assert hrefs("", "https://x.example in plain sight") == ["https://x.example"]


@pytest.mark.parametrize("href", ["https://x.example/a.", " https://x.example/ a b", "https://track.example/1"])
def test_the_address_that_a_link_has_or_shows_is_not_listed_again(href):
    """A text part that is generated from the HTML contains the address of each link, without white space."""
    html = f'<a href="{href}">https://x.example/b</a>, <a href="{href}">T</a>'
    assert hrefs(htmltext.to_text(html), html) == [href.strip()]


def test_an_address_that_is_escaped_in_the_text_part_is_the_same_as_in_the_html():
    """Messages from django-magiclink are like this: their text part comes from an HTML template."""
    link = f"https://x.example/login/verify/?token={TOKEN}&email=a%40b.example"
    escaped = link.replace("&", "&amp;")
    assert hrefs(f"Click to confirm and sign in.\n\n{escaped}\n", f'<a href="{escaped}">Sign in</a>') == [link]


@pytest.mark.parametrize("around", ["{}", "<{}>", "[{}]", "Go to {}.", "[1]: {}", '"{}"'])
def test_an_address_that_is_escaped_in_a_message_without_html_is_unescaped(around):
    """The message was generated from an HTML template, and has no HTML part."""
    link = f"https://x.example/verify?token={TOKEN}&redirect=https%3A%2F%2Fy.example%2F%3Fa%26amp%3Bb&sr=1"
    text = around.format(link.replace("&", "&amp;"))
    assert hrefs(text) == [link]
    (one,) = links.in_body(text)
    assert (one.href, text[one.start : one.end]) == (link, link.replace("&", "&amp;"))


def test_a_wrapped_address_in_angle_brackets_is_complete_in_its_href():
    first, last = f"https://x.example/account/activate?from=registration&token={TOKEN}", "V1StGXR8Z5"
    text = f"Confirm your address:\n<{first}\n{last}>\n"
    assert hrefs(text) == [first + last]
    (one,) = links.in_body(text)
    assert (one.href, text[one.start : one.end]) == (first + last, f"{first}\n{last}")


def test_an_address_is_listed_once_with_its_better_text():
    html = '<a href="https://x.example/v"><img></a><a href="https://x.example/v">Verify</a><a href="https://x.example/v">x</a>'
    (link,) = links.find("", html)
    assert (link.text, link.confidence) == ("Verify", links.find("", html[38:])[0].confidence)


@pytest.mark.parametrize(
    ("html", "order"),
    [
        (
            '<a href="https://x.example/a">Shop</a> <a href="https://x.example/u">Unsubscribe</a> <a href="https://x.example/verify?t=8fK2ab91LmPq77zX">Verify e-mail</a> <a href="https://x.example/b">Blog</a> <a href="https://x.example/c">News</a> ',
            "vcaub",
        ),
        (
            '<a href="https://x.example/a">Shop</a><a href="https://x.example/b">News</a><a href="https://x.example/c">Log in</a>',
            "cba",
        ),
    ],
)
def test_the_best_link_is_first_and_equal_links_keep_their_order(html, order):
    assert "".join(href[18:19] for href in hrefs("", html)) == order


@pytest.mark.parametrize("home", ["https://x.example", "https://x.example/de/", "https://x.example/?utm_source=mail"])
def test_a_home_page_is_listed_after_the_page_that_the_message_is_about(home):
    order = "https://x.example/orders/48"
    assert hrefs("", f'<a href="{home}">Shop</a><a href="https://x.example/new">New</a><a href="{order}">See</a>') == [
        order,
        "https://x.example/new",
        home,
    ]
    assert confidence(f"Please verify your address.\n-- \nAcme {home}") < LIKELY
    assert confidence("", f'<a href="{home}">Log in</a>') >= LIKELY
    assert hrefs(f"Log in at {home}\nRead https://x.example/guide") == [home, "https://x.example/guide"]


def confidence(body, html=""):
    return links.find(body, html)[0].confidence


@pytest.mark.parametrize(
    "text",
    [
        "Unsubscribe",
        "Privacy Policy",
        "View in browser",
        "Help Center",
        "Manage preferences",
        "Contact us",
        "Terms of use",
        "Follow us on Twitter",
        "Abmelden",
        "Datenschutz",
        "Impressum",
        "Se désabonner",
        "Politique de confidentialité",
        "Darse de baja",
        "Política de privacidad",
        "Cancelar inscrição",
        "Annulla iscrizione",
        "Informativa sulla privacy",
        "Uitschrijven",
        "Privacybeleid",
        "Wypisz się",
        "Polityka prywatności",
        "Отписаться",
        "Политика конфиденциальности",
        "Відписатися",
        "Abonelikten çık",  # noqa: RUF001
        "Gizlilik politikası",  # noqa: RUF001
        "退订",
        "隐私政策",
        "取消訂閱",
        "配信停止",
        "プライバシーポリシー",
        "수신거부",
        "개인정보처리방침",
        "Atsisakyti prenumeratos",
        "Tühista tellimus",
        "Отпиши се",  # noqa: RUF001
    ],
)
def test_footer_links_are_never_the_purpose_of_a_message(text):
    assert confidence_of(text, f"https://x.example/token/{TOKEN}") < 0.2


@pytest.mark.parametrize(
    "address",
    [
        "https://www.facebook.com/verify",
        "https://x.com/confirm",
        "https://apps.apple.com/app/id481516",
        "https://play.google.com/store/apps/details?id=login",
        "https://help.x.example/reset",
        "https://x.example/logo-login.png",
        "https://x.example/unsubscribe?confirm=1",
    ],
)
def test_some_addresses_are_unlikely_to_be_the_purpose_of_a_message(address):
    assert confidence_of("Click here", address) < 0.2


def test_a_reset_that_undoes_a_change_is_less_than_likely():
    address = f"https://x.example/password/reset?token={TOKEN}"
    assert confidence(f"Your password was changed. If this was not you, reset it: {address}") < LIKELY
    assert confidence(f"If you forgot your password, reset it: {address}") >= LIKELY


@pytest.mark.parametrize("host", ["acme.example", "shop.example", "terms.example", "shop.acme.example"])
def test_a_host_name_before_a_link_does_not_state_the_purpose_of_the_link(host):
    """Messages from django-invitations are like this."""
    said = f"You have been invited to join {host}.\n\nIf you'd like to join {host}, please go to"
    assert confidence(f"{said} https://{host}/invitations/accept-invite/{TOKEN}") >= LIKELY


def test_the_number_of_links_and_the_length_of_their_addresses_and_texts_are_limited():
    html = "".join(f"<a href=https://x.example/{number}>t</a>" for number in range(250))
    assert len(links.find("", html)) == links.MAX_LINKS
    long = "https://x.example/" + "a" * 8200
    assert hrefs(f"{long} https://x.example/") == ["https://x.example/"]
    assert links.find("", f"<a href={long}>t</a><a href=https://x.example/>{'t ' * 500}</a>")[0].text == "t " * 99 + "t"


PIECES = [
    " ",
    "<a>",
    "<a href=",
    "<a href=x>",
    "<a href=http://x>",
    "<a href=http://x>verify click here ",
    "</a>",
    "<b>",
    "<td>",
    "<img alt=x>",
    "<!-->",
    "&amp;",
    "http://",
    "http://x ",
    "https://x.example/)))",
    "Unsubscribe https://x.example/a1 ",
    "verify ",
    "\u0301",
    "\ud800",
    "<",
    ">",
    "(",
    ")",
    "[",
    "]",
    "a",
    "&",
    "'",
    '"',
    "\n",
    "<a href='https://x.example/" + "1a" * 4000 + "'>t</a>",
    "https://x.example/" + "a" * 100 + " ",
    "https://x.example/" + "1a" * 4000 + " ",
]


@pytest.mark.parametrize("piece", PIECES)
def test_finding_takes_linear_time_in_text_and_in_html(piece):
    text = piece * (32 * 1024 // len(piece))
    assert_linear(lambda body: links.find(body, ""), text)
    assert_linear(lambda html: links.find("", html), text)


MAILS = st.text(max_size=200) | st.lists(
    st.sampled_from([*PIECES, "https://x.example/verify?a=b", "Verify"]),
    max_size=30,
).map("".join)


@given(MAILS, MAILS)
def test_any_message_gives_valid_links(body, html):
    found = links.find(body, html)
    assert len({link.href for link in found}) == len(found) <= links.MAX_LINKS
    for link in found:
        assert link.href.lower().startswith(("http://", "https://"))
        assert 0 < link.confidence <= 1
        assert len(link.text) <= links.MAX_TEXT_CHARACTERS
        (link.href + link.text).encode(errors="surrogatepass" if "\ud800" in body else "strict")


def test_the_last_words_before_each_link_are_read_from_html():
    html = (
        "<p>Go <a href=https://x.example/1>one</a> or</p><p>even <img alt=more><a href=https://x.example/2>two</a></p>"
    )
    assert list(htmltext.links(html)) == [
        ("Go", "https://x.example/1", "one"),
        ("or even more", "https://x.example/2", "two"),
    ]
    ((before, _, _),) = htmltext.links("x" * 10_000 + "<a href=https://x.example>t</a>")
    assert before == "x" * htmltext.BEFORE_CHARACTERS


def test_the_addresses_in_a_body_are_bounded_in_number_and_length():
    long = "https://x.example/" + "a" * links.MAX_HREF_CHARACTERS
    found = links.in_body(f"{long} " + "https://x.example/b " * 2000)
    assert len(found) == links.MAX_BODY_LINKS
    assert found[0] == BodyLink(len(long) + 1, len(long) + 20, "https://x.example/b")


@pytest.mark.parametrize(
    "before",
    [
        "You asked about an account. To confirm it, open:\n",
        "Need help? You can change your settings any time. To reset your password, follow ",
        "If you didn't ask for this, ignore it. Otherwise confirm here: ",
        "Anna invites you to the project about birds. Click here to join: ",
        "To verify your request about our shop, open ",
        "Questions? Contact support.\nActivate your account:\n\n",
        "Falls Sie Hilfe brauchen, antworten Sie einfach. Bitte bestätigen Sie hier: ",
        "Vous n'avez rien demandé ? Voyez nos conditions. Sinon, confirmez : ",
        "¿Necesita ayuda? Escríbanos. Confirme su correo: ",
        "Нужна помощь? Пишите. Подтвердите адрес: ",
        "お問い合わせはサポートまで。本登録はこちら\uff1a",
        "如需帮助请联系客服。点击链接激活账号\uff1a",
    ],
)
def test_the_nearest_words_of_the_same_sentence_state_the_purpose_of_a_link(before):
    page = "https://x.example/u"  # the URL has no token, so only the label states its purpose
    assert confidence(f"{before}{page}") > confidence(f"Read more: {page}")
    assert confidence(f"{before}https://x.example/u/9f8e7d6c5b4a3210") >= LIKELY


@pytest.mark.parametrize(
    "before",
    [
        "Confirm your address. Unsubscribe: ",
        "To verify, see our help: ",
        "Activate it in the app or contact support at ",
    ],
)
def test_an_aside_that_is_nearer_than_the_action_remains_an_aside(before):
    assert confidence(f"{before}{TRACKED}") < 0.2


SENT_FOR = "https://x.example/q/9f8e7d6c5b4a3210"


@pytest.mark.parametrize(
    "text",
    [
        "If you wish to proceed, please follow the link below:\n\n  {}\n",
        "You didn't set one yet.\n\n{}\n\nThe link works once.",
        "Download {} now",
        "Your project about birds is ready: {}\n\nManual: https://x.example/manual",
        "{}\n\nPrivacy: https://x.example/privacy/0a1b2c3d4e5f6a7b\nUnsubscribe: https://x.example/u/0a1b2c3d4e5f6a7b",
    ],
)
def test_the_only_link_with_a_token_is_likely(text):
    best = links.find(text.format(SENT_FOR), "")[0]
    assert (best.href, best.confidence >= LIKELY) == (SENT_FOR, True)


@pytest.mark.parametrize(
    "text",
    [
        "Unsubscribe: {}",
        "News of the week.\n\nTo unsubscribe, open {}",
        "Privacy policy: {}",
        "For help see {}",
        "Abmelden: {}",
        "Se désabonner : {}",
        "退订\uff1a{}",
        "One: {}\nTwo: https://x.example/p/0a1b2c3d4e5f6a7b",
    ],
)
def test_a_link_with_a_token_is_not_likely_if_its_words_contradict_it_or_there_is_a_second_token_link(text):
    assert confidence(text.format(SENT_FOR)) < LIKELY


@pytest.mark.parametrize("text", ["View your order", "Track package", "Unsubscribe", "Privacy", "Quyền riêng tư"])
def test_the_text_of_the_only_link_with_a_token_states_its_purpose(text):
    assert confidence_of(text) < LIKELY
    assert confidence_of("Click here") >= LIKELY
