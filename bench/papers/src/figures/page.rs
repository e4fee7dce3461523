//! The report: one page that needs nothing else.
use super::all::Figure;
use super::figure::{Chart, Claim, Outcome, Paper};
use super::plot;
use super::{Tally, Verdict};
use std::fmt::Write;

/// The whole page.
///
/// # Errors
/// What kept a chart from being drawn.
pub fn page(seed: u64, ran: &[(&Figure, Outcome)]) -> Result<String, String> {
    let mut text = format!(
        "{HEAD}<h1>The papers' figures, with the shipping code</h1>\n<p class=\"tally\">{}</p>\n",
        Tally::of(ran)
    );
    let _ = writeln!(text, "<p>Seed {seed}. A chart shows what ran here; crosses are values that a paper states.</p>");
    for paper in Paper::ALL {
        let _ = writeln!(text, "<h2>{}</h2>", paper.title());
        for (figure, outcome) in ran.iter().filter(|(figure, _)| figure.paper == paper) {
            text += &section(figure, outcome)?;
        }
    }
    Ok(text + "</main></body></html>\n")
}

/// One figure. Writing to a string does not fail.
fn section(figure: &Figure, outcome: &Outcome) -> Result<String, String> {
    let verdict = Verdict::of(outcome);
    let mut text = format!(
        "<section id=\"{name}\"><h3><span class=\"{class}\">{verdict}</span> {name}: {title}</h3>\n",
        class = verdict.class(),
        name = figure.name(),
        title = escape(figure.title)
    );
    let _ = writeln!(text, "<p>{}</p>", escape(&outcome.setting));
    for chart in &outcome.charts {
        text += &picture(chart)?;
    }
    text += "<div class=\"wide\"><table><tr><th></th><th>paper</th><th>here</th><th>bound</th><th></th></tr>\n";
    outcome.claims.iter().for_each(|claim| text += &row(claim));
    let _ = writeln!(text, "</table></div><p><code>consort lab run {}</code></p>", figure.name());
    Ok(text + "</section>\n")
}

fn picture(chart: &Chart) -> Result<String, String> {
    let entry = |(colour, sign, name): (String, &str, &str)| {
        format!("<li><b style=\"color:{colour}\">{sign}</b> {}</li>", escape(name))
    };
    let legend: String = plot::legend(chart).map(entry).collect();
    let (title, svg) = (escape(&chart.title), plot::svg(chart)?);
    Ok(format!("<figure><figcaption>{title}</figcaption><ul class=\"legend\">{legend}</ul>{svg}</figure>\n"))
}

fn row(claim: &Claim) -> String {
    let cells = [&claim.what, &claim.paper, &claim.ours, &claim.bound].map(|cell| format!("<td>{}</td>", escape(cell)));
    let verdict = if claim.holds { "<td class=\"good\">holds</td>" } else { "<td class=\"bad\">missed</td>" };
    format!("<tr>{}{verdict}</tr>\n", cells.concat())
}

/// Text as HTML.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

const HEAD: &str = "<!DOCTYPE html>
<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">
<title>Consort: the papers' figures</title>
<style>
:root { color-scheme: light dark; --text: #1a1a1a; --ground: #ffffff; --line: #c8c8c8; --good: #1a7f37; --bad: #c0392b; }
@media (prefers-color-scheme: dark) { :root { --text: #e4e4e4; --ground: #16181b; --line: #44484e; --good: #4cc26b; --bad: #ff7b6b; } }
body { margin: 0; color: var(--text); background: var(--ground); font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 800px; margin: 0 auto; padding: 1rem; }
section { border-top: 1px solid var(--line); }
h3 { font-size: 1.05rem; }
h3 span { font-weight: normal; }
figure { margin: 1rem 0; } figcaption { font-weight: 600; } svg { width: 100%; height: auto; }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; margin: .3rem 0; padding: 0; font-size: .9rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .9rem; }
td, th { text-align: left; padding: .2rem .6rem .2rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
.good { color: var(--good); } .bad { color: var(--bad); }
.tally { font-size: 1.2rem; }
</style></head><body><main>
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_holds_each_figure_its_verdict_and_what_to_run() {
        let of = |number| Figure { paper: Paper::Toto, number, title: "a < b", run: |_| Err(String::new()) };
        let (one, other) = (of("table-2"), of("lan"));
        let outcome = Outcome { claims: vec![Claim::at_least("x & y", "1", 0.5, 1.0, "")], ..Outcome::default() };
        let page = page(7, &[(&one, outcome), (&other, Outcome::default())]).unwrap();
        for text in [
            "1 reproduced, 1 missed, of 2",
            "<code>consort lab run toto/table-2</code>",
            "a &lt; b",
            "x &amp; y",
            "class=\"bad\">missed",
            "prefers-color-scheme: dark",
        ] {
            assert!(page.contains(text), "{text}");
        }
        assert!(!page.contains("http"), "it needs nothing from elsewhere");
    }
}
