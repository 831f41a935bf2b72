//! A short form of `make simulate`: every property, in few cases.

#[test]
fn every_rule_keeps_its_promises_in_a_few_hundred_cases() {
    for property in dragstrip_simulate::all(300) {
        // Three standard errors of the share that is demanded.
        let slack = 3.0 * (property.least * (1.0 - property.least) / 300.0).sqrt();
        assert!(
            property.held >= property.least - slack,
            "{}: it held in {:.1} % of the cases, and {:.1} % are demanded",
            property.claim,
            property.held * 100.0,
            property.least * 100.0
        );
    }
}
