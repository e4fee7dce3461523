//! Reads TOML so that whatever is wrong is told with file, line, key and remedy; and all of it at once.
use crate::args;
use crate::failure::Failure;
use crate::words;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Range, RangeInclusive};
use std::time::Duration;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// One thing that is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The line it stands in, counted from 1.
    pub line: usize,
    /// The key, with its section: `ring.hold`.
    pub key: String,
    /// What is wrong and what would be right.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.key.as_str() {
            "" => write!(f, "{}: {}", self.line, self.message),
            key => write!(f, "{}: {key}: {}", self.line, self.message),
        }
    }
}

/// What was found while reading: problems, and in which line each key stands.
#[derive(Debug, Default)]
pub struct Notes {
    starts: Vec<usize>,
    lines: BTreeMap<String, usize>,
    pub problems: Vec<Problem>,
}

impl Notes {
    /// For reading `text`.
    pub fn new(text: &str) -> Self {
        let starts = text.match_indices('\n').map(|(at, _)| at + 1).collect();
        Self { starts, ..Self::default() }
    }

    /// All that is wrong with the file of this name, by line.
    pub fn refusal(&mut self, name: &str) -> Failure {
        self.problems.sort_by_key(|problem| problem.line);
        let lines: Vec<_> = self.problems.iter().map(|problem| format!("{name}:{problem}")).collect();
        Failure::usage(lines.join("\n         "))
    }

    /// Parses the text; `None` if it is not TOML, which is noted.
    pub fn parse<'t>(&mut self, text: &'t str) -> Option<Spanned<DeTable<'t>>> {
        match DeTable::parse(text) {
            Ok(table) => Some(table),
            Err(error) => {
                let line = self.line(&error.span().unwrap_or_default());
                self.add(line, "", format!("this is not TOML: {}", error.message()));
                None
            }
        }
    }

    /// Notes a problem with a key, wherever that key stands (or at the start of its section, or of the file).
    pub fn about(&mut self, key: &str, message: impl Into<String>) {
        let section = key.rsplit_once('.').map_or("", |(section, _)| section);
        let line = self.lines.get(key).or_else(|| self.lines.get(section)).copied().unwrap_or(1);
        self.add(line, key, message);
    }

    fn add(&mut self, line: usize, key: &str, message: impl Into<String>) {
        self.problems.push(Problem { line, key: key.into(), message: message.into() });
    }

    fn line(&self, span: &Range<usize>) -> usize {
        self.starts.partition_point(|start| *start <= span.start) + 1
    }
}

/// One table of the file, or the lack of it.
pub struct Section<'a, 't> {
    notes: &'a mut Notes,
    table: Option<&'a DeTable<'t>>,
    name: String,
    asked: Vec<&'static str>,
}

impl<'a, 't> Section<'a, 't> {
    /// The file's outermost table.
    pub fn root(notes: &'a mut Notes, table: &'a DeTable<'t>) -> Self {
        Self { notes, table: Some(table), name: String::new(), asked: Vec::new() }
    }

    /// A table in this one; without any keys if it is not there.
    pub fn table(&mut self, key: &'static str) -> Section<'_, 't> {
        let table = self.find(key).and_then(|value| match value.get_ref() {
            DeValue::Table(table) => Some(table),
            other => {
                self.wrong(key, format!("{} is not a table; write [{key}] and its keys below", describe(other)));
                None
            }
        });
        let name = self.path(key);
        Section { notes: &mut *self.notes, table, name, asked: Vec::new() }
    }

    /// Whether a key has a list, such as an array of tables.
    pub fn is_list(&mut self, key: &'static str) -> bool {
        self.find(key).is_some_and(|value| matches!(value.get_ref(), DeValue::Array(_)))
    }

    /// Calls `read` with each table of an array of tables, such as `[[node]]`.
    pub fn each(&mut self, key: &'static str, mut read: impl FnMut(&mut Section<'_, 't>)) {
        let Some(value) = self.find(key) else { return };
        let DeValue::Array(items) = value.get_ref() else {
            return self.wrong(key, format!("write one [[{key}]] for each, with its keys below"));
        };
        for item in items.iter() {
            let line = self.notes.line(&item.span());
            self.notes.lines.insert(self.path(key), line);
            match item.get_ref() {
                DeValue::Table(table) => {
                    let name = self.path(key);
                    let mut section = Section { notes: &mut *self.notes, table: Some(table), name, asked: Vec::new() };
                    read(&mut section);
                    section.finish();
                }
                _ => self.wrong(key, format!("write one [[{key}]] for each, with its keys below")),
            }
        }
    }

    /// Calls `read` with each table in this one, whatever it is called, and what that is.
    pub fn each_named(&mut self, mut read: impl FnMut(&str, &mut Section<'_, 't>)) {
        for (key, value) in self.table.into_iter().flat_map(DeTable::iter) {
            let (name, line) = (self.path(key.get_ref()), self.notes.line(&key.span()));
            self.notes.lines.insert(name.clone(), line);
            match value.get_ref() {
                DeValue::Table(table) => {
                    let mut section = Section { notes: &mut *self.notes, table: Some(table), name, asked: Vec::new() };
                    read(key.get_ref(), &mut section);
                    section.finish();
                }
                other => self.notes.about(&name, format!("{} is not a table of keys", describe(other))),
            }
        }
    }

    /// A text, in whatever form `read` gives it; an error of `read` is noted.
    pub fn text<T>(&mut self, key: &'static str, read: impl FnOnce(&str) -> Result<T, String>) -> Option<T> {
        let value = self.find(key)?.get_ref();
        let found = match value {
            DeValue::String(text) => read(text),
            other => Err(format!("{} is not a text; put it in \"quotes\"", describe(other))),
        };
        found.map_err(|message| self.wrong(key, message)).ok()
    }

    /// A list of texts.
    pub fn texts<T>(&mut self, key: &'static str, read: impl Fn(&str) -> Result<T, String>) -> Option<Vec<T>> {
        let value = self.find(key)?.get_ref();
        let wanted = || format!("{} is not a list of texts; write {key} = [\"...\", \"...\"]", describe(value));
        let read_one = |item: &Spanned<DeValue<'t>>| match item.get_ref() {
            DeValue::String(text) => read(text),
            _ => Err(wanted()),
        };
        let found = match value {
            DeValue::Array(items) => items.iter().map(read_one).collect(),
            _ => Err(wanted()),
        };
        found.map_err(|message| self.wrong(key, message)).ok()
    }

    /// A whole number in `range`.
    pub fn number<T>(&mut self, key: &'static str, range: RangeInclusive<T>) -> Option<T>
    where
        T: TryFrom<i128> + PartialOrd + fmt::Display + Copy,
    {
        let found = whole(self.find(key)?.get_ref(), &range);
        found.map_err(|message| self.wrong(key, message)).ok()
    }

    /// A list of whole numbers in `range`.
    pub fn numbers<T>(&mut self, key: &'static str, range: RangeInclusive<T>) -> Option<Vec<T>>
    where
        T: TryFrom<i128> + PartialOrd + fmt::Display + Copy,
    {
        let value = self.find(key)?.get_ref();
        let wanted = || format!("{} is not a list of whole numbers; write {key} = [1000, 1001]", describe(value));
        let found = match value {
            DeValue::Array(items) => items.iter().map(|item| whole(item.get_ref(), &range)).collect(),
            _ => Err(wanted()),
        };
        found.map_err(|message| self.wrong(key, message)).ok()
    }

    /// `true` or `false`.
    pub fn switch(&mut self, key: &'static str) -> Option<bool> {
        let found = match self.find(key)?.get_ref() {
            DeValue::Boolean(on) => Ok(*on),
            other => Err(format!("{} is not a switch; write {key} = true, or false", describe(other))),
        };
        found.map_err(|message| self.wrong(key, message)).ok()
    }

    /// One of the named choices.
    pub fn choice<T: Copy>(&mut self, key: &'static str, choices: &[(&'static str, T)]) -> Option<T> {
        self.text(key, |text| {
            let found = choices.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
            found.ok_or_else(|| {
                let names: Vec<_> = choices.iter().map(|(name, _)| *name).collect();
                format!("\"{text}\" is not known; choose {}", words::either(&names))
            })
        })
    }

    /// A span of time, written as `"20ms"`.
    pub fn duration(&mut self, key: &'static str) -> Option<Duration> {
        let found = match self.find(key)?.get_ref() {
            DeValue::String(text) => span(text),
            other => Err(format!("{} is not a time; {SPAN_REMEDY}", describe(other))),
        };
        found.map_err(|message| self.wrong(key, message)).ok()
    }

    /// The same, in `range`.
    pub fn duration_in(&mut self, key: &'static str, range: RangeInclusive<Duration>) -> Option<Duration> {
        let found = self.duration(key)?;
        if range.contains(&found) {
            return Some(found);
        }
        let (least, most) = (range.start(), range.end());
        self.wrong(key, format!("{found:?} is out of range; give a time from \"{least:?}\" to \"{most:?}\""));
        None
    }

    /// Notes that a key is missing that must be there.
    pub fn require<T>(&mut self, key: &'static str, found: Option<T>, remedy: &str) -> Option<T> {
        let present = self.table.is_some_and(|table| table.contains_key(key));
        if found.is_none() && !present {
            let (section, key) = (self.name.clone(), self.path(key));
            let line = self.notes.lines.get(&section).copied().unwrap_or(1);
            self.notes.add(line, &key, format!("is missing; {remedy}"));
        }
        found
    }

    /// Notes a problem with a key of this section.
    pub fn wrong(&mut self, key: &str, message: impl Into<String>) {
        let key = self.path(key);
        self.notes.about(&key, message);
    }

    /// Notes every key that nobody asked for.
    pub fn finish(&mut self) {
        let Some(table) = self.table else { return };
        for key in table.keys().filter(|key| !self.asked.contains(&key.get_ref().as_ref())) {
            let near = words::nearest(key.get_ref(), self.asked.iter().copied());
            let remedy = near.map_or_else(
                || format!("known here: {}", self.asked.join(", ")),
                |near| format!("did you mean {near}?"),
            );
            let line = self.notes.line(&key.span());
            let path = self.path(key.get_ref());
            self.notes.add(line, &path, format!("there is no such key; {remedy}"));
        }
    }

    /// The value of a key, remembering that it was asked for and where it stands.
    fn find(&mut self, key: &'static str) -> Option<&'a Spanned<DeValue<'t>>> {
        if !self.asked.contains(&key) {
            self.asked.push(key);
        }
        let (key, value) = self.table?.get_key_value(key)?;
        let line = self.notes.line(&key.span());
        let path = self.path(key.get_ref());
        self.notes.lines.insert(path, line);
        Some(value)
    }

    fn path(&self, key: &str) -> String {
        if self.name.is_empty() { key.into() } else { format!("{}.{key}", self.name) }
    }
}

const SPAN_REMEDY: &str = "write it with its unit, like \"20ms\" or \"1.5s\", a year at most";

/// A span of time with its unit.
pub fn span(text: &str) -> Result<Duration, String> {
    let found = args::duration(text).filter(|_| text.ends_with(char::is_alphabetic));
    found.ok_or_else(|| format!("\"{text}\" is not a time; {SPAN_REMEDY}"))
}

fn whole<T>(value: &DeValue<'_>, range: &RangeInclusive<T>) -> Result<T, String>
where
    T: TryFrom<i128> + PartialOrd + fmt::Display + Copy,
{
    let wanted = || format!("give a whole number from {} to {}", range.start(), range.end());
    let DeValue::Integer(digits) = value else {
        return Err(format!("{} is not a whole number; {}", describe(value), wanted()));
    };
    let number = i128::from_str_radix(digits.as_str(), digits.radix()).ok();
    let fitting = number.and_then(|number| T::try_from(number).ok()).filter(|number| range.contains(number));
    fitting.ok_or_else(|| format!("{} is out of range; {}", digits.as_str(), wanted()))
}

fn describe(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("\"{text}\""),
        DeValue::Integer(digits) => digits.as_str().into(),
        DeValue::Float(digits) => digits.as_str().into(),
        DeValue::Boolean(yes) => yes.to_string(),
        other => format!("a value of type {}", other.type_str()),
    }
}

/// Sets what the file says something about.
pub(super) fn set<T>(place: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *place = value;
    }
}
