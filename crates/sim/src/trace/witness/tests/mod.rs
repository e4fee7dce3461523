//! Sessions as real clients have them, written down and judged: as they should be, and doctored.
mod doctored;
mod groups;
mod stage;
