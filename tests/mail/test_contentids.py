"""Finding the images that HTML refers to, with a quick search of its source."""

from tmpmaild.mail.contentids import referred_to
from tmpmaild.mail.htmlview import render

PIXEL = "data:image/png;base64,iVBORw0KGgo="


def test_content_ids_match_the_source_and_an_image_in_the_source_is_kept():
    html = """<img src=cid:a@b><IMG SRC = 'CID:c d'><img src="cid:e&amp;f" ><p>cid:none</p><img src="cid:">"""
    assert referred_to(html) == {"a@b", "c d", "e&f"}
    assert PIXEL in render(f"<img src='{PIXEL}'>", {}, remote_images=False).html
    assert "src=" not in render("<img src='data:image/svg+xml;base64,AAAA'>", {}, remote_images=False).html
