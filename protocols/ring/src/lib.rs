//! The accelerated ring and the original ring on a configured membership.
