#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| dragstrip_parser_checks::check("hdr_histogram_log", data));
