//! Process groups: names, members, joins and leaves as ordered messages.
