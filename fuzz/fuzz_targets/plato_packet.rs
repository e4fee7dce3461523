#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| consort_fuzzed::plato_packet::run(bytes));
