//! Each checker on traces made by hand: one as it should be, and one that breaks its promise and no other, or names those
//! that cannot but break with it.
mod delivery;
mod groups;
mod leader;
mod offers;
mod orders;
mod producers;
mod reading;
mod replicas;
mod resumed;
mod safe;
mod script;
mod uniform;
mod views;
