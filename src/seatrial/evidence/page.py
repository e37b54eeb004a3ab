"""The page for people: one file, no request to anywhere, readable without a script."""

from __future__ import annotations

import base64
import hashlib
from importlib import resources

from seatrial.evidence.page_view import page_values
from seatrial.evidence.report_input import ReportInput

_TEMPLATE, _STYLE = "page.html.j2", "page.css"


def render_page(report: ReportInput) -> str:
    """The report as one self-contained HTML document.

    The policy inside it forbids every request and every script, and allows the one style sheet by
    its hash. All texts of the run are escaped; hidden and reordering characters are shown as
    escapes; endless texts are cut with a note.
    """
    import jinja2
    from markupsafe import Markup

    style = _packaged(_STYLE)
    environment = jinja2.Environment(
        loader=jinja2.DictLoader({_TEMPLATE: _packaged(_TEMPLATE)}),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    template = environment.get_template(_TEMPLATE)
    return template.render(
        **page_values(report),
        style=Markup(style),  # noqa: S704 - a file of this package
        style_hash=_csp_hash(style),
    )


def _packaged(name: str) -> str:
    folder = resources.files("seatrial.evidence").joinpath("templates")
    return folder.joinpath(name).read_text(encoding="utf-8")


def _csp_hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return "sha256-" + base64.b64encode(digest).decode("ascii")
