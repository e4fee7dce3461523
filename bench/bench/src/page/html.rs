//! The page for a browser: one file, no script, well-formed as XML too.
use super::{Page, Table};
use std::fmt::Write;

const STYLE: &str = "\
body{font:15px/1.45 system-ui,sans-serif;max-width:64em;margin:2em auto;padding:0 1em;color:#222;background:#fff}\
table{border-collapse:collapse;margin:.5em 0 1.5em}th,td{padding:.25em .8em;text-align:right;border-bottom:1px solid #ddd}\
th:first-child,td:first-child{text-align:left}th{background:#f3f5f7}svg{max-width:100%;height:auto}\
pre{white-space:pre-wrap;overflow-wrap:anywhere;background:#f3f5f7;padding:1em}";

/// Writes a page. `json` stands at its end, as it is.
pub fn write(page: &Page, json: &str) -> String {
    let title = escape(&page.title);
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\">\n<head><meta charset=\"utf-8\"/>\
         <title>{title}</title>\n<style>{STYLE}</style></head>\n<body>\n<h1>{title}</h1>\n"
    );
    for fact in &page.facts {
        line(&mut out, &format!("<p>{}</p>", escape(fact)));
    }
    page.tables.iter().for_each(|table| table.write(&mut out));
    for chart in &page.charts {
        line(&mut out, &format!("<h2>{}</h2>", escape(&chart.title)));
        chart.write(&mut out);
    }
    let json = escape(json);
    line(&mut out, &format!("<h2>All figures</h2>\n<pre id=\"figures\">{json}</pre>\n</body>\n</html>"));
    out
}

impl Table {
    fn write(&self, out: &mut String) {
        let cells = |tag: &str, row: &[String]| -> String {
            let cells = row.iter().map(|cell| format!("<{tag}>{}</{tag}>", escape(cell)));
            format!("<tr>{}</tr>", cells.collect::<String>())
        };
        line(
            out,
            &format!("<h2>{}</h2>\n<table>\n<thead>{}</thead>\n<tbody>", escape(&self.title), cells("th", &self.head)),
        );
        self.rows.iter().for_each(|row| line(out, &cells("td", row)));
        line(out, "</tbody>\n</table>");
    }
}

/// Adds a line; writing into memory does not fail.
pub fn line(out: &mut String, text: &str) {
    let _ = writeln!(out, "{text}");
}

/// A text that means nothing but itself.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::super::{Chart, Series};
    use super::*;
    use roxmltree::{Document, ParsingOptions};

    fn page() -> Page {
        let points = vec![(0.0, 80.0), (0.5, 120.0), (0.99, 400.0), (1.0, 900.0)];
        Page {
            title: "Latency <of> \"A & B\"".into(),
            facts: vec!["3 daemons".into()],
            tables: vec![Table::new("Times", ["case", "p50"]).rows([vec!["a<b".into(), "120".into()]].into_iter())],
            charts: vec![Chart::latency("Percentiles", vec![Series { name: "x & y".into(), points }])],
        }
    }

    #[test]
    fn the_page_is_well_formed_and_holds_every_figure() {
        let json = r#"{"p50":120,"name":"a<b & c"}"#;
        let text = write(&page(), json);
        let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
        let document = Document::parse_with_options(&text, options).unwrap();
        let named = |tag: &str| -> Vec<String> {
            let all = document.descendants().filter(|node| node.tag_name().name() == tag);
            all.map(|node| node.text().unwrap_or_default().to_owned()).collect()
        };
        assert_eq!(named("title"), ["Latency <of> \"A & B\"", "Percentiles"]);
        assert_eq!(named("td"), ["a<b", "120"]);
        assert_eq!(named("pre"), [json]);
        assert_eq!(named("polyline").len(), 1);
        assert!(named("text").iter().any(|text| text == "x & y"));
        assert!(named("script").is_empty() && !text.contains("src="));
    }
}
