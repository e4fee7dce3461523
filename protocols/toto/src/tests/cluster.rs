//! Whole engines over a network of their own.
