//! All figures and tables of the papers that show results, in their order.
use super::figure::{Outcome, Paper};
use super::lab::Lab;
use super::{
    multiring, plato, recovery, regions, ring, ring_model, spread, spread_loads, spread_sizes, totem, totem_clocks,
    totem_rings, toto, toto_cable, toto_graph,
};

/// A figure or table of a paper.
#[derive(Debug)]
pub struct Figure {
    /// Whose.
    pub paper: Paper,
    /// Its number there, or a word for what has none: `figure-5.1`.
    pub number: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// What runs it.
    pub run: Run,
}

/// Runs a figure.
pub type Run = fn(&Lab) -> Result<Outcome, String>;

impl Figure {
    /// Its name: `ring/figure-5.1`.
    pub fn name(&self) -> String {
        format!("{}/{}", self.paper.prefix(), self.number)
    }
}

const fn figure(paper: Paper, number: &'static str, title: &'static str, run: Run) -> Figure {
    Figure { paper, number, title, run }
}

/// Every one of them.
pub const ALL: [Figure; 73] = [
    figure(Paper::Thesis, "throughput-model", "Throughput by the model of chapter 4", ring_model::throughput),
    figure(Paper::Thesis, "table-4.1", "Agreed delivery latency by the model", ring_model::table_4_1),
    figure(Paper::Thesis, "table-4.2", "Safe delivery latency by the model", ring_model::table_4_2),
    figure(Paper::Thesis, "figure-5.1", "Throughput over the accelerated window, 1 Gbit/s", ring::figure_5_1),
    figure(Paper::Thesis, "figure-5.2", "Agreed latency over the accelerated window, 1 Gbit/s", ring::figure_5_2),
    figure(Paper::Thesis, "figure-5.3", "Safe latency over the accelerated window, 1 Gbit/s", ring::figure_5_3),
    figure(Paper::Thesis, "figure-5.4", "Throughput at the best accelerated window, 1 Gbit/s", ring::figure_5_4),
    figure(Paper::Thesis, "figure-5.5", "Agreed latency at the best accelerated window, 1 Gbit/s", ring::figure_5_5),
    figure(Paper::Thesis, "figure-5.6", "Safe latency at the best accelerated window, 1 Gbit/s", ring::figure_5_6),
    figure(Paper::Thesis, "figure-5.7", "Throughput over the accelerated window, 10 Gbit/s", ring::figure_5_7),
    figure(Paper::Thesis, "figure-5.8", "Agreed latency over the accelerated window, 10 Gbit/s", ring::figure_5_8),
    figure(Paper::Thesis, "figure-5.9", "Safe latency over the accelerated window, 10 Gbit/s", ring::figure_5_9),
    figure(Paper::Thesis, "figure-5.10", "Throughput at the best accelerated window, 10 Gbit/s", ring::figure_5_10),
    figure(Paper::Thesis, "figure-5.11", "Agreed latency at the best accelerated window, 10 Gbit/s", ring::figure_5_11),
    figure(Paper::Thesis, "figure-5.12", "Safe latency at the best accelerated window, 10 Gbit/s", ring::figure_5_12),
    figure(Paper::Thesis, "figure-6.1", "Spread's throughput over the accelerated window, 1 Gbit/s", |lab| {
        spread::figure_6_1(lab.spread_gigabit()?)
    }),
    figure(Paper::Thesis, "figure-6.2", "Spread's throughput over the personal window, 1 Gbit/s", |lab| {
        spread::figure_6_2(lab.spread_gigabit()?)
    }),
    figure(Paper::Thesis, "figure-6.3", "Spread's agreed latency over throughput, 1 Gbit/s", |lab| {
        spread_loads::figure_6_3(lab.spread_loads()?)
    }),
    figure(Paper::Thesis, "figure-6.4", "Spread's safe latency over throughput, 1 Gbit/s", |lab| {
        spread_loads::figure_6_4(lab.spread_loads()?)
    }),
    figure(Paper::Thesis, "figure-6.5", "Throughput over message size, every other daemon, 1 Gbit/s", |lab| {
        spread_sizes::figure_6_5(lab.spread_sizes()?)
    }),
    figure(Paper::Thesis, "figure-6.6", "The same for small messages, 1 Gbit/s", |lab| {
        spread_sizes::figure_6_6(lab.spread_sizes()?)
    }),
    figure(Paper::Thesis, "figure-6.7", "Throughput over message size, every daemon, 1 Gbit/s", |lab| {
        spread_sizes::figure_6_7(lab.spread_sizes()?)
    }),
    figure(Paper::Thesis, "figure-6.8", "The same for small messages, 1 Gbit/s", |lab| {
        spread_sizes::figure_6_8(lab.spread_sizes()?)
    }),
    figure(Paper::Thesis, "figure-6.9", "Throughput on virtual machines", |lab| spread_sizes::figure_6_9(lab.scale)),
    figure(Paper::Thesis, "figure-6.10", "Spread's throughput over the accelerated window, 10 Gbit/s", |lab| {
        spread::figure_6_10(lab.spread_ten()?)
    }),
    figure(Paper::Thesis, "figure-6.11", "The same with the stricter method", |lab| {
        spread::figure_6_11(lab.spread_strict()?)
    }),
    figure(Paper::Thesis, "figure-6.12", "Spread's throughput over the personal window, 10 Gbit/s", |lab| {
        spread::figure_6_12(lab.spread_ten()?)
    }),
    figure(Paper::Thesis, "figure-6.13", "The same with the stricter method", |lab| {
        spread::figure_6_13(lab.spread_strict()?)
    }),
    figure(Paper::Thesis, "figure-6.14", "Spread's agreed latency over throughput, 10 Gbit/s", |lab| {
        spread_loads::figure_6_14(lab.spread_ten_loads()?)
    }),
    figure(Paper::Thesis, "figure-6.15", "Spread's safe latency over throughput, 10 Gbit/s", |lab| {
        spread_loads::figure_6_15(lab.spread_ten_loads()?)
    }),
    figure(Paper::Thesis, "figure-6.16", "Throughput over message size, every other daemon, 10 Gbit/s", |lab| {
        spread_sizes::figure_6_16(lab.spread_ten_sizes()?)
    }),
    figure(Paper::Thesis, "figure-6.17", "The same for small messages, 10 Gbit/s", |lab| {
        spread_sizes::figure_6_17(lab.spread_ten_sizes()?)
    }),
    figure(Paper::Thesis, "figure-6.18", "Throughput over message size, every daemon, 10 Gbit/s", |lab| {
        spread_sizes::figure_6_18(lab.spread_ten_sizes()?)
    }),
    figure(Paper::Thesis, "figure-6.19", "The same for small messages, 10 Gbit/s", |lab| {
        spread_sizes::figure_6_19(lab.spread_ten_sizes()?)
    }),
    figure(Paper::Toto, "table-1", "Candidates of the graph of figure 1", toto_graph::table_1),
    figure(Paper::Toto, "table-2", "Latency and speed-up, periodic", toto::table_2),
    figure(Paper::Toto, "table-3", "Latency and speed-up, Poisson", toto::table_3),
    figure(Paper::Toto, "table-4", "The model against what was measured, periodic", toto::table_4),
    figure(Paper::Toto, "table-5", "The model against what was measured, Poisson", toto::table_5),
    figure(Paper::Toto, "equations", "Latency by equations (1) and (2)", toto::equations),
    figure(Paper::Toto, "figure-5", "Index of latency, periodic", toto::figure_5),
    figure(Paper::Toto, "figure-6", "Index of latency, Poisson", toto::figure_6),
    figure(Paper::Toto, "throughput", "250 messages a second on an Ethernet of 10 Mbit/s", toto_cable::throughput),
    figure(Paper::Toto, "gain", "Speed-up over the number of members", toto::gain),
    figure(Paper::Toto, "wide-area", "Far from each other, and one slow member", toto::wide_area),
    figure(Paper::Totem, "figure-2", "Throughput over message size", totem::figure_2),
    figure(Paper::Totem, "figure-3", "Throughput with packing", totem::figure_3),
    figure(Paper::Totem, "figure-4", "Throughput over the window", totem::figure_4),
    figure(Paper::Totem, "figure-5", "Throughput over the number of members", totem::figure_5),
    figure(Paper::Totem, "figure-6", "Latency over the number of members", totem::figure_6),
    figure(Paper::Totem, "figure-7", "Latency over throughput", totem::figure_7),
    figure(Paper::Totem, "token-visit", "Visit of the token, unloaded", totem::visit),
    figure(Paper::Totem, "figure-8", "Throughput over the forwarding probability", totem_rings::figure_8),
    figure(Paper::Totem, "figure-9", "Agreed latency of three topologies", totem_rings::figure_9),
    figure(Paper::Totem, "figure-10", "Safe latency of three topologies", totem_rings::figure_10),
    figure(Paper::Totem, "figure-11", "Distribution of agreed latency, 40 members", totem_rings::figure_11),
    figure(Paper::Totem, "figure-12", "Distribution of safe latency, 40 members", totem_rings::figure_12),
    figure(Paper::Totem, "latency-methods", "Latency without clocks that agree", totem_clocks::latency_methods),
    figure(Paper::MultiRingPaxos, "figure-2", "Rings of 32 KB values on 10 Gbit/s", multiring::figure_2),
    figure(Paper::MultiRingPaxos, "figure-3", "Rings of 200-byte values", multiring::figure_3),
    figure(Paper::MultiRingPaxos, "figure-4", "Recovery of a key-value store", recovery::figure_4),
    figure(Paper::MultiRingPaxos, "figure-5", "Many rings at one learner", multiring::figure_5),
    figure(Paper::MultiRingPaxos, "figure-6", "Many learners of one ring", multiring::figure_6),
    figure(Paper::MultiRingPaxos, "figure-7", "A region is lost", regions::figure_7),
    figure(Paper::MultiRingPaxos, "figure-8", "What a global ring costs a local one", regions::figure_8),
    figure(Paper::Plato, "figure-3", "Swaps and losses over the rate", plato::figure_3),
    figure(Paper::Plato, "figure-4", "Gaps between swapped packets, and between all", plato::figure_4),
    figure(Paper::Plato, "figure-5", "Swap metrics over the rate", plato::figure_5),
    figure(Paper::Plato, "figure-6", "Loss metrics over the rate", plato::figure_6),
    figure(Paper::Plato, "figure-8", "Latency and late revokes over delta", plato::figure_8),
    figure(Paper::Plato, "figure-9", "A spike of the rate", plato::figure_9),
    figure(Paper::Plato, "figure-10", "Latency over the rate", plato::figure_10),
    figure(Paper::Plato, "figure-11", "Delta set by the paper's adaptive rule", plato::figure_11),
];
