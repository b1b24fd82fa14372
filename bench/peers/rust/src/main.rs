//! Measures the Rust crates of the field on the messages that `bench/peers/run` hands over:
//! `peers SECONDS ROUNDS MESSAGE_FILE...` prints a JSON line per crate and message.

mod clock;
mod peers;
mod subject;

use std::error::Error;

use clock::Clock;
use peers::{OPERATIONS, PEERS};
use serde_json::{json, Map, Value};
use subject::Subject;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let seconds = arguments.next().ok_or("how many seconds?")?.parse()?;
    let rounds = arguments.next().ok_or("how many rounds?")?.parse()?;
    let clock = Clock { seconds, rounds };
    for path in arguments {
        let subject = Subject::read(&path)?;
        for peer in PEERS {
            let mut line = json!({
                "peer": peer.name,
                "version": peer.version,
                "message": subject.name,
            });
            match (peer.measure)(&subject, &clock) {
                Ok(outcome) => {
                    let rates = OPERATIONS.iter().zip(outcome.rates);
                    let rates: Map<String, Value> = rates
                        .map(|(name, rate)| ((*name).to_owned(), rate.round().into()))
                        .collect();
                    line["proof"] = outcome.proof.into();
                    line["rates"] = rates.into();
                }
                Err(reason) => line["cannot"] = reason.into(),
            }
            println!("{line}");
        }
    }
    Ok(())
}
