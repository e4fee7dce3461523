#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| consort_fuzzed::multiring_paxos_packet::run(bytes));
