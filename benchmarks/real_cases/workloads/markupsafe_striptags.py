"""A page of a blog: paragraphs with links, entities and line breaks, and now and then a comment."""

from __future__ import annotations

from markupsafe import Markup

PARAGRAPH = """
<p class="text" id="p{n}">The <em>quick</em> brown fox &amp; its
   friend read <a href="/posts/{n}.html" title="post">post number {n}</a>, then went &quot;home&quot;.</p>
<ul><li>one</li><li><strong>two</strong></li><li>a &lt; b</li></ul>
"""
COMMENT = "<!-- here was an image: <img src='fox.png'> -->\n"
PAGE = Markup("".join(PARAGRAPH.format(n=n) + (COMMENT if n % 5 == 0 else "") for n in range(20)))
TITLES = [Markup(f"<b>Title</b> of post {n}") for n in range(20)]


def main() -> list[str]:
    return [text.striptags() for text in (PAGE, *TITLES)]
