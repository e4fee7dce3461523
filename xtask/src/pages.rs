//! `cargo xtask verify --only pages`: links of the pages lead somewhere, and lines are short.
use crate::trace::{each_file, name, root};
use std::io;
use std::path::Path;

/// The most characters of a line. Tables, code, headings and lines with a link may be longer.
const COLUMNS: usize = 100;
/// The pages above the folders.
pub const TOP: [&str; 5] = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"];

/// The book, and the chapters that the client library shows by rustdoc.
const FOLDERS: [&str; 2] = ["docs", "crates/client/src/docs"];

/// Checks all pages and prints what is wrong; returns whether all is well.
pub fn check() -> bool {
    let (mut pages, mut faults) = (0, Vec::new());
    let root = root();
    let book = std::fs::read_to_string(root.join("docs/SUMMARY.md")).unwrap_or_default();
    let read = each_page(&root, &mut |path, text| {
        let file = name(&root, path);
        pages += 1;
        faults.extend(dead_links(path, text).map(|link| format!("{file}: {link} leads nowhere")));
        faults.extend(links_out_of_book(&file, text).map(|link| format!("{file}: {link} leads out of the book")));
        faults.extend(wide_lines(text).map(|line| format!("{file}:{line} has more than {COLUMNS} characters")));
        let page =
            file.strip_prefix("docs/").filter(|page| *page != "SUMMARY.md" && !book.contains(&format!("({page})")));
        faults.extend(page.map(|page| format!("docs/SUMMARY.md: {page} is missing from the book")));
    });
    if let Err(error) = read {
        eprintln!("pages: {error}");
        return false;
    }
    faults.iter().for_each(|fault| println!("{fault}"));
    println!("pages: {pages}, {} faults", faults.len());
    faults.is_empty() && pages > 0
}

fn each_page(root: &Path, see: &mut impl FnMut(&Path, &str)) -> io::Result<()> {
    for page in TOP.map(|page| root.join(page)) {
        see(&page, &std::fs::read_to_string(&page)?);
    }
    FOLDERS.iter().try_for_each(|folder| each_file(&root.join(folder), "md", see))
}

/// The numbers of the lines that should have been wrapped.
fn wide_lines(text: &str) -> impl Iterator<Item = usize> {
    let mut in_code = false;
    text.lines().zip(1..).filter_map(move |(line, number)| {
        let start = line.trim_start();
        in_code ^= start.starts_with("```");
        let may_be_wide = in_code || start.starts_with(['|', '#']) || line.contains("](");
        (!may_be_wide && line.chars().count() > COLUMNS).then_some(number)
    })
}

/// The links of a page to files of the tree that are not there, or to headings that are not in them.
fn dead_links(page: &Path, text: &str) -> impl Iterator<Item = String> {
    links(text).filter(|link| !leads_somewhere(page, text, link)).map(String::from)
}

/// The links of a page of the book that no reader of the book can follow: to folders, sources, or pages outside `docs`.
fn links_out_of_book(file: &str, text: &str) -> impl Iterator<Item = String> {
    let folders = file.strip_prefix("docs/").map(|page| page.matches('/').count());
    let leads_out = move |link: &&str| {
        let target = link.split_once('#').map_or(*link, |(target, _)| target);
        let up = target.split('/').filter(|part| *part == "..").count();
        !target.is_empty() && folders.is_some_and(|folders| up > folders || !target.ends_with(".md"))
    };
    links(text).filter(leads_out).map(String::from)
}

/// The links of a page, without those to other machines and to items of Rust, which rustdoc checks.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let links = text.split("](").skip(1).filter_map(|rest| rest.split_once(')').map(|(link, _)| link));
    links.filter(|link| !link.contains("://") && !link.contains("::"))
}

fn leads_somewhere(page: &Path, text: &str, link: &str) -> bool {
    let (file, heading) = link.split_once('#').unwrap_or((link, ""));
    let target = page.parent().unwrap_or(page).join(file);
    match (file.is_empty(), heading.is_empty()) {
        (true, _) => has_heading(text, heading),
        (false, true) => target.exists(),
        (false, false) => std::fs::read_to_string(target).is_ok_and(|text| has_heading(&text, heading)),
    }
}

fn has_heading(text: &str, wanted: &str) -> bool {
    text.lines().filter(|line| line.starts_with('#')).any(|line| anchor(line) == wanted)
}

/// How a heading is linked: small letters, hyphens for spaces, no other signs.
fn anchor(heading: &str) -> String {
    let kept =
        heading.trim_start_matches('#').trim().chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_lines_are_found_but_not_in_tables_code_headings_and_links() {
        let wide = "word ".repeat(21);
        let page = format!("short\n{wide}\n| {wide}\n# {wide}\n```\n{wide}\n```\n- {wide}\n[{wide}](x)\n");
        assert_eq!(wide_lines(&page).collect::<Vec<_>>(), [2, 8]);
    }

    #[test]
    fn links_to_no_file_and_to_no_heading_are_dead() {
        let page = root().join("README.md");
        let text = "# A `b`, c\n[x](#a-b-c) [x](#no) [x](docs/lab.md) [x](docs/no.md) [x](docs/lab.md#no) [x](https://no) [x](crate::No)";
        let dead: Vec<_> = dead_links(&page, text).collect();
        assert_eq!(dead, ["#no", "docs/no.md", "docs/lab.md#no"]);
    }

    #[test]
    fn links_to_folders_to_sources_and_past_docs_lead_out_of_the_book() {
        let text = "[x](../SECURITY.md) [x](protocols) [x](a.rs) [x](lab.md#y) [x](#y) [x](https://no)";
        assert_eq!(links_out_of_book("docs/a.md", text).collect::<Vec<_>>(), ["../SECURITY.md", "protocols", "a.rs"]);
        let nested = links_out_of_book("docs/runbooks/a.md", "[x](../lab.md) [x](../../SECURITY.md)");
        assert_eq!(nested.collect::<Vec<_>>(), ["../../SECURITY.md"]);
        assert_eq!(links_out_of_book("README.md", "[x](crates/cli)").count(), 0);
    }
}
