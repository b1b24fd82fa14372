//! Rules of routing as operators write them: none breaks the reader, and what it reads is within the bounds. Whether
//! shares come to 100 % and gateways are there, the core checks.
#![no_main]

use domain::tenant::routing_rules::{RULES_MAX, Targets};
use killbill::fuzzing::routing_rules;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(rules) = routing_rules(text) else { return };
    assert!(rules.rules.len() <= RULES_MAX);
    for rule in &rules.rules {
        match &rule.to {
            Targets::Gateways(_) => {}
            Targets::Split(shares) => assert!(shares.iter().all(|it| it.percent <= 100)),
        }
    }
});
