//! Rules that are broken on purpose, by name.

/// Makes an enum `Mutant` out of names and what each does wrong: for crates that can break their own rules, one at a time,
/// to prove that the simulator's checkers notice.
///
/// ```
/// consort_types::mutants!(
///     Deaf "hears nothing",
///     Mute "says nothing",
/// );
/// assert_eq!(Mutant::ALL, [Mutant::Deaf, Mutant::Mute]);
/// assert_eq!((Mutant::Mute.name(), Mutant::Mute.what()), ("Mute", "says nothing"));
/// ```
#[macro_export]
macro_rules! mutants {
    ($($name:ident $what:literal),* $(,)?) => {
        /// A rule that is broken on purpose.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Mutant { $(#[doc = $what] $name),* }

        impl Mutant {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Its name.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name)),* }
            }

            /// What it does wrong.
            pub const fn what(self) -> &'static str {
                match self { $(Self::$name => $what),* }
            }
        }
    };
}

/// Whether the rule is broken on purpose: `mutated!(config, Mutant)` in a crate with `mutant::Mutant`, whose settings name the
/// one that is broken. Without that crate's feature `mutants` there is nothing to ask.
#[macro_export]
#[allow(clippy::crate_in_macro_def, reason = "the mutants are those of the crate that asks")]
macro_rules! mutated {
    ($config:expr, $mutant:ident) => {{
        #[cfg(feature = "mutants")]
        let broken = $config.mutant == Some(crate::mutant::Mutant::$mutant);
        #[cfg(not(feature = "mutants"))]
        let broken = {
            let _ = &$config;
            false
        };
        broken
    }};
}
