//! Reading by position.
use super::script::pair;

const ORDER: &str = "n0 reads placed 1\n n0 reads placed 2\n n0 reads placed 2.1\n n0 reads placed 4\n";

/// What the checkers say of a reading of that order.
fn read(more: &str) -> Vec<&'static str> {
    pair(&format!("{ORDER}{more}"))
}

const BEGUN: &str = "n1 reads asked 2\n n1 reads began 2 sum 9\n";

#[test]
fn what_is_read_is_the_order_without_gaps() {
    let rest = "n1 reads message 2.1\n n1 reads message 4\n n1 reads caught_up 0 to 4\n n1 reads message 5\n quiet";
    assert_eq!(read(&format!("{BEGUN} n1 reads message 2\n {rest}")), [""; 0]);
    assert_eq!(read(&format!("{BEGUN} {rest}")), ["RP"], "the first is not told");
    assert_eq!(read(&format!("{BEGUN} n1 reads message 2 sum 3")), ["RP"], "another message stands there");
    assert_eq!(read(&format!("{BEGUN} n1 reads message 2\n n1 reads message 2")), ["RP"]);
    assert_eq!(read(&format!("{BEGUN} n1 reads message 2\n n1 reads message 2.1\n n1 reads caught_up 0 to 4")), ["RP"]);
    assert_eq!(read(&format!("{BEGUN} n1 reads caught_up 0 to 1\n n1 reads caught_up 0 to 1")), ["RP"]);
    assert_eq!(read("n1 reads message 1"), ["RP"], "it reads nothing");
}

#[test]
fn what_is_known_only_later_is_not_forgotten() {
    let reads = "n1 reads asked 4\n n1 reads began 4 sum 9\n n1 reads message 4\n n1 reads message 6\n";
    assert_eq!(read(&format!("{reads} n0 reads placed 6\n quiet")), [""; 0]);
    assert_eq!(read(&format!("{reads} n0 reads placed 5\n quiet")), ["RP"], "skipped");
    assert_eq!(read(&format!("{reads} n0 reads placed 5\n n1 reads ended 0\n quiet")), ["RP"], "skipped");
    assert_eq!(read(&format!("{reads} n0 reads placed 7\n quiet")), ["RP"], "not told in the end");
    assert_eq!(read(&format!("{reads} n0 reads placed 7\n n1 reads ended 0\n quiet")), [""; 0]);
    assert_eq!(read(&format!("{reads} n0 reads placed 7\n n1 crashes\n quiet")), [""; 0]);
    assert_eq!(read("n1 reads asked 4\n quiet"), ["RP"], "never answered");
    assert_eq!(read("n1 reads asked 5\n quiet"), [""; 0], "it may come yet");
}

#[test]
fn a_reading_begins_where_it_was_asked_to() {
    assert_eq!(read("n1 reads asked 0\n n1 reads began 3 sum 9 oldest 3 retained 3"), [""; 0]);
    assert_eq!(read("n1 reads asked 0\n n1 reads began 3 sum 9 oldest 2 retained 3"), ["RP"]);
    assert_eq!(read("n1 reads asked 2\n n1 reads began 3 sum 9"), ["RP"]);
    assert_eq!(read("n1 reads asked 2\n n1 reads began 2 sum 9 oldest 3 retained 3"), ["RP"], "it is not retained");
    assert_eq!(read("n1 reads asked 4\n n1 reads began 4 sum 9 oldest 3 retained 2"), ["RP"], "2 is retained");
    assert_eq!(read("n1 reads began 2 sum 9"), ["RP"], "nothing was asked for");
    let again = "n1 reads asked 2\n n1 reads began 2 sum 9";
    assert_eq!(read(&format!("{BEGUN} {again}")), ["RP"], "two readings");
    assert_eq!(read(&format!("{BEGUN} n1 reads ended 0\n {again}")), [""; 0]);
    assert_eq!(read(&format!("{BEGUN} n0 reads asked 2\n n0 reads began 2 sum 8")), ["RP"], "two orders");
}

#[test]
fn what_is_lost_or_refused_is_retained_no_more() {
    assert_eq!(read(&format!("{BEGUN} n1 reads lost 2 to 3 retained 4\n n1 reads message 4\n quiet")), [""; 0]);
    assert_eq!(read(&format!("{BEGUN} n1 reads lost 2 to 3 retained 3")), ["RP"], "3 is retained");
    assert_eq!(read(&format!("{BEGUN} n1 reads lost 4 to 5 retained 6")), ["RP"], "what stands before 4 was skipped");
    assert_eq!(read(&format!("{BEGUN} n1 reads message 2\n n1 reads lost 1 to 5 retained 6")), ["RP"], "1 is behind");
    let asked = "n1 reads asked 2 retained 3\n n1 reads trimmed 0";
    assert_eq!(read(&format!("{asked} oldest 4 retained 5")), [""; 0]);
    assert_eq!(read(&format!("{asked} oldest 2 retained 5")), ["RP"], "2 is said to be there");
    assert_eq!(read(&format!("{asked} oldest 6 retained 5")), ["RP"], "5 is");
    assert_eq!(read("n1 reads trimmed 0"), ["RP"]);
    assert_eq!(read("n1 reads asked 9\n n1 reads beyond_end 0 to 4"), [""; 0]);
    assert_eq!(read("n1 reads asked 5\n n1 reads beyond_end 0 to 4"), ["RP"], "5 is what comes next");
}
