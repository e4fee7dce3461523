//! Virtual time, hosts, links, faults and checkers: one seed decides everything.
