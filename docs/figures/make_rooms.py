"""Draw the rooms of the package, the highest at the top, and the path of data through them.

python docs/figures/make_rooms.py     # writes docs/figures/rooms.svg
"""

from pathlib import Path
from xml.sax.saxutils import escape

ROWS = (
    (
        ("cli", "command line"),
        ("serve", "page in the browser"),
        ("experiments", "studies, many data sets"),
        ("files", "models, fits, SBML, PEtab"),
        ("problems", "systems with known truth"),
        ("report", "text, pictures, HTML"),
    ),
    (
        ("analysis", "fits again: comparison, missing terms"),
        ("inference", "from a finished fit: intervals, bands, draws"),
    ),
    (("fitting", "prepare, climb the ladder of strategies, judge"),),
    (("engine", "many fits side by side in the lanes of a core"),),
    (("diagnostics", "judges a fit: uncertainty, tests, warnings"), ("estimators", "one method for each file")),
    (
        ("results", "records: FitResult, Status, Trace"),
        ("collocation", "states on a mesh"),
        ("optimize", "minimisers; no ODEs"),
        ("weak", "weak residual, likelihood"),
    ),
    (
        ("basis", "test functions"),
        ("forward", "solutions, sensitivities"),
        ("parameters", "bounds, priors, scales"),
        ("data", "measurements, tables"),
    ),
    (
        ("model", "expressions, compiled"),
        ("noise", "kinds of noise"),
        ("linalg", "structured matrices"),
        ("support", "errors, wording, progress"),
    ),
)
PATH = "Dataset + Model → Parameters → weak problem → Outcome → Judgement → FitResult → report"
WIDTH, MARGIN, GAP, HEIGHT = 1000, 10, 12, 62


def draw() -> str:
    """Return the picture as SVG."""
    total = len(ROWS) * (HEIGHT + GAP) + 70
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {total}" font-family="sans-serif">',
        "<title>The rooms of weakform: a room imports only from rooms below it</title>",
        f'<rect width="{WIDTH}" height="{total}" fill="#ffffff"/>',
    ]
    for k, row in enumerate(ROWS):
        width = (WIDTH - 2 * MARGIN - (len(row) - 1) * GAP) / len(row)
        size = 11 if len(row) > 4 else 12.5
        for j, (name, words) in enumerate(row):
            x, y = MARGIN + j * (width + GAP), 20 + k * (HEIGHT + GAP)
            parts.append(
                f'<rect x="{x:.0f}" y="{y}" width="{width:.0f}" height="{HEIGHT}" rx="6" fill="#eef3f7" '
                'stroke="#5b7f99"/>'
            )
            for text, dy, style in (
                (name, 26, 'font-size="16" font-weight="600" fill="#16324a"'),
                (words, 46, f'font-size="{size}" fill="#3d566b"'),
            ):
                parts.append(
                    f'<text x="{x + width / 2:.0f}" y="{y + dy}" text-anchor="middle" {style}>{escape(text)}</text>'
                )
    parts.append(
        f'<text x="{WIDTH / 2:.0f}" y="{total - 24}" text-anchor="middle" font-size="14" fill="#16324a">'
        f"{escape(PATH)}</text></svg>"
    )
    return "".join(parts) + "\n"


if __name__ == "__main__":
    Path(__file__).with_name("rooms.svg").write_text(draw(), encoding="utf-8")
