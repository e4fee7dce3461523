//! Who a client is, and what it may do. Pure: files, sockets and clocks belong to others.
//!
//! | module | what |
//! |---|---|
//! | [`identity`] | [`Identity`]: what is known of a client; [`Who`]: a pattern for it |
//! | [`glob`] | [`Glob`]: a pattern for names |
//! | [`rules`] | [`Rule`] and [`Rules`]: who may do what with which groups, be called what, and how much |
//! | [`tokens`] | [`tokens::Tokens`]: what clients without certificates show |
//! | [`bucket`] | [`Bucket`]: so many bytes a second |
//!
//! Without rules everybody may do everything. Once there is one, what no rule allows is denied. Rules are looked at in
//! their order: the first that names the client, the group and the verb decides.

pub mod bucket;
pub mod glob;
pub mod identity;
pub mod rules;
pub mod tokens;

pub use bucket::Bucket;
pub use glob::Glob;
pub use identity::{Identity, Who, WhoError};
pub use rules::{Denial, IdentityLimits, Rule, Rules, Verb, Verbs};
pub use tokens::{TOKEN_MAX, TokenProblem, TokenProof, Tokens};
