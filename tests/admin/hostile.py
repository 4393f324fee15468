"""Texts that try to be more than text."""

from __future__ import annotations

from collections.abc import Callable

MARK = "qlessxss"
"""Whatever takes effect carries this: an element, an attribute, a variable."""


def marked(*numbers: int) -> Callable[[str], str]:
    """Return words for content (see tests/admin/content.py), all with these texts."""
    text = " ".join(STRINGS[number] for number in numbers)
    no_glob = text.translate({ord("*"): "+", ord("?"): "!"})  # for names of queues
    return lambda of: f"{of[:30]} {no_glob if of.startswith('queue') else text}"


def together(most: int) -> list[tuple[int, ...]]:
    """Return the numbers of all texts, in groups of at most `size` bytes."""
    groups: list[tuple[int, ...]] = []
    size = most
    for number, text in enumerate(STRINGS):
        length = len(text.encode()) + 1
        if size + length > most:
            groups.append(())
            size = 0
        groups[-1] += (number,)
        size += length
    return groups


STRINGS = [
    "<script>window.qlessxss=1</script>",
    "</script><script>window.qlessxss=2</script>",
    "<img src=x onerror=window.qlessxss=3>",
    "<svg onload=window.qlessxss=4>",
    "<svg><script>window.qlessxss=5</script></svg>",
    '"><script>window.qlessxss=6</script>',
    "'><script>window.qlessxss=7</script>",
    '" onmouseover="window.qlessxss=8" x="',
    "' onmouseover='window.qlessxss=9' x='",
    '" autofocus onfocus="window.qlessxss=10',
    "` onmouseover=`window.qlessxss=11` `",
    "<body onload=window.qlessxss=12>",
    "<iframe src=javascript:window.qlessxss=13></iframe>",
    "<iframe srcdoc='<script>parent.qlessxss=14</script>'></iframe>",
    "<a href='javascript:window.qlessxss=15'>click</a>",
    "javascript:window.qlessxss=16",
    "JaVaScRiPt:window.qlessxss=17//",
    "java\tscript:window.qlessxss=18",
    "data:text/html,<script>window.qlessxss=19</script>",
    "data:text/html;base64,PHNjcmlwdD5xbGVzc3hzczwvc2NyaXB0Pg==",
    "vbscript:qlessxss",
    "<details open ontoggle=window.qlessxss=22>",
    "<input autofocus onfocus=window.qlessxss=23>",
    "<video><source onerror=window.qlessxss=24></video>",
    "<math><mtext><qlessxss>25</qlessxss></mtext></math>",
    "<qlessxss>26</qlessxss>",
    "<style>@import '//qlessxss'</style>",
    "<style>*{background:url(//qlessxss)}</style>",
    "<link rel=stylesheet href=//qlessxss>",
    "<meta http-equiv=refresh content='0;url=//qlessxss'>",
    "<base href=//qlessxss/>",
    "<form action=//qlessxss><input name=qlessxss></form>",
    "</form><form action=//qlessxss method=post>",
    "</textarea><script>window.qlessxss=34</script>",
    "</title><script>window.qlessxss=35</script>",
    "</style><script>window.qlessxss=36</script>",
    "</option></select><script>window.qlessxss=37</script>",
    "</table></div><qlessxss>38</qlessxss>",
    "--><qlessxss>39</qlessxss><!--",
    "<!--<qlessxss>40</qlessxss>",
    "]]><qlessxss>41</qlessxss>",
    "<![CDATA[<qlessxss>42</qlessxss>]]>",
    "&lt;qlessxss&gt;43&lt;/qlessxss&gt;",
    "&#60;qlessxss&#62;44",
    "&quot; onclick=&quot;window.qlessxss=45",
    "%3Cqlessxss%3E46%3C/qlessxss%3E",
    "\\u003cqlessxss\\u003e47",
    "\\x3cqlessxss\\x3e48",
    "{{ qlessxss }}{% now 'Y' %}{% csrf_token %}",
    "${window.qlessxss=50}",
    "{%%}<qlessxss>%(qlessxss)s%s%d</qlessxss>",
    "//qlessxss/path?x=1&y=2#z",
    "/\\qlessxss",
    "../../../qlessxss/?a=b&next=//qlessxss",
    "<<qlessxss>>55<</qlessxss>>",
    "<qlessxss\n56\n>",
    "<qlessxss/onclick=window.qlessxss=57>",
    "<\u0000qlessxss>58",
    "<scr<script>ipt>window.qlessxss=59</scr</script>ipt>",
    "＜qlessxss＞60 \u2028\u2029\u202e\u2066qlessxss\u2069",
]
