//! `faregate bench entitlements`: checks of what accounts may do, usage that is counted, purchases, and grants that
//! end.

use std::process::ExitCode;
use std::sync::Arc;

use serde_json::{Value, json};

use super::client::{Client, Furniture, Method};
use super::closed_loop::{self, Worker};
use super::random::Random;

mod expire;

/// The limit of an account's usage: more than a run uses.
const LIMIT: i64 = 1_000_000_000_000;
/// The features of each account: a switch and two limits.
const FEATURES: [&str; 3] = ["bench-pro", "bench-calls", "bench-seats"];

/// The offer that is bought, and its price.
const OFFER: &str = "bench-all";
const PRICE: &str = "10.00";

#[derive(Debug, clap::Subcommand)]
pub enum Bench {
    /// Checks whether an account may use a feature.
    Check(closed_loop::Options),
    /// Counts usage: events one by one or in batches, or reservations that are confirmed.
    Usage(UsageArgs),
    /// Buys an offer of three features, through the gateway that settles at once.
    Buy(BuyArgs),
    /// Grants that end in the same second, beside the payments of others.
    Expire(expire::Args),
}

/// Options of `faregate bench entitlements usage`.
#[derive(Debug, clap::Args)]
pub struct UsageArgs {
    #[command(flatten)]
    args: closed_loop::Options,
    /// Events of a request.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    batch: u16,
    /// Reserve and confirm instead: a pair of requests counts as one.
    #[arg(long, conflicts_with = "batch")]
    reserve: bool,
}

/// Options of `faregate bench entitlements buy`.
#[derive(Debug, clap::Args)]
pub struct BuyArgs {
    #[command(flatten)]
    args: closed_loop::Options,
    /// Pay as much without buying anything instead, by Kill Bill's API.
    #[arg(long)]
    plain: bool,
}

/// The requests that each connection sends.
#[derive(Clone, Copy, Debug)]
enum Work {
    Check,
    Record { batch: u16 },
    Reserve,
    Buy,
    Pay,
}

/// Runs the benchmark and prints the report.
///
/// # Errors
/// Where the server cannot be used.
pub fn run(bench: &Bench) -> anyhow::Result<ExitCode> {
    let (args, work) = match bench {
        Bench::Check(args) => (args, Work::Check),
        Bench::Buy(BuyArgs { args, plain: true }) => (args, Work::Pay),
        Bench::Buy(BuyArgs { args, plain: false }) => (args, Work::Buy),
        Bench::Expire(args) => return expire::run(args),
        Bench::Usage(UsageArgs { args, reserve: true, .. }) => (args, Work::Reserve),
        Bench::Usage(UsageArgs { args, batch, .. }) => (args, Work::Record { batch: *batch }),
    };
    let started = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_micros();
    let furnished = async |client: Client| Ok(Arc::new(furnish(args, work, client).await?));
    closed_loop::run(args, furnished, |client, number, accounts| Shopper {
        client,
        work,
        accounts: Arc::clone(accounts),
        random: Random::new(u64::from(number)),
        name: format!("{started:x}-{number}"),
        sent: 0,
    })
}

/// Makes what the requests are about, and returns the accounts' ids.
async fn furnish(
    args: &closed_loop::Options,
    work: Work,
    mut client: Client,
) -> anyhow::Result<Vec<String>> {
    for feature in FEATURES {
        let body = match feature {
            "bench-pro" => json!({ "name": "Bench", "kind": "switch" }),
            _ => json!({ "name": "Bench", "kind": "limit", "unit": "calls", "resets": "month" }),
        };
        client.expect("PUT", &format!("/v1/features/{feature}"), &body).await?;
    }
    let values =
        FEATURES.map(|it| (it, if it == "bench-pro" { json!(true) } else { json!(LIMIT) }));
    let furniture = match work {
        Work::Check | Work::Record { .. } | Work::Reserve => Furniture {
            grants: values
                .into_iter()
                .map(|(feature, value)| json!({ "feature": feature, "value": value, "reason": "bench" }))
                .collect(),
            method: None,
        },
        Work::Buy | Work::Pay => {
            let features: serde_json::Map<_, _> =
                values.into_iter().map(|(feature, value)| (feature.to_owned(), value)).collect();
            let offer = json!({
                "name": "Bench", "price": { "amount": PRICE, "currency": "USD" }, "again": "extend",
                "features": features, "lasts": { "months": 1 },
            });
            client.expect("PUT", &format!("/v1/offers/{OFFER}"), &offer).await?;
            Furniture { grants: vec![], method: Some(Method::External) }
        }
    };
    client.accounts(args.accounts, &furniture).await
}

/// One connection's share of the work.
struct Shopper {
    client: Client,
    work: Work,
    accounts: Arc<Vec<String>>,
    random: Random,
    /// Begins the ids of its events.
    name: String,
    /// How many events it has sent.
    sent: u64,
}

impl Worker for Shopper {
    async fn once(&mut self) -> Result<u64, String> {
        match self.work {
            Work::Check => self.check().await,
            Work::Record { batch } => self.record(batch).await,
            Work::Reserve => self.reserve().await,
            Work::Buy => self.buy().await,
            Work::Pay => self.pay().await,
        }
    }
}

impl Shopper {
    async fn check(&mut self) -> Result<u64, String> {
        let feature = FEATURES[self.below(FEATURES.len())];
        let path = format!("/v1/accounts/{}/entitlements/{feature}", self.any_account());
        let (status, body, _) = self.client.exchange("GET", &path, &Value::Null).await?;
        let is_right = status == 200 && body.contains("\"allowed\":true");
        if is_right { Ok(1) } else { Err(format!("check {status}")) }
    }

    async fn record(&mut self, batch: u16) -> Result<u64, String> {
        let path = format!("/v1/accounts/{}/usage", self.any_account());
        let mut events: Vec<Value> = (0..batch).map(|_| self.event()).collect();
        let body = match events.len() {
            1 => events.remove(0),
            _ => json!({ "events": events }),
        };
        let (status, answer, _) = self.client.exchange("POST", &path, &body).await?;
        let is_right =
            status == 200 && (batch == 1 || answer.starts_with(&format!("{{\"counted\":{batch},")));
        if is_right { Ok(u64::from(batch)) } else { Err(format!("record {status}")) }
    }

    async fn reserve(&mut self) -> Result<u64, String> {
        let path = format!("/v1/accounts/{}/reservations", self.any_account());
        let body = json!({ "feature": "bench-calls", "quantity": 2, "ttlSeconds": 60 });
        let (status, _, location) = self.client.exchange("POST", &path, &body).await?;
        let Some(location) = location.filter(|_| status == 201) else {
            return Err(format!("reserve {status}"));
        };
        let confirm = json!({ "quantity": 1 });
        let path = format!("{location}/confirm");
        let (status, ..) = self.client.exchange("POST", &path, &confirm).await?;
        if status == 200 { Ok(1) } else { Err(format!("confirm {status}")) }
    }

    async fn buy(&mut self) -> Result<u64, String> {
        let path = format!("/v1/accounts/{}/purchases", self.any_account());
        let price = json!({ "amount": PRICE, "currency": "USD" });
        let body = json!({ "offer": OFFER, "expectedPrice": price });
        let (status, answer, _) = self.client.exchange("POST", &path, &body).await?;
        let is_right = status == 201 && answer.contains("\"status\":\"ACTIVE\"");
        if is_right { Ok(1) } else { Err(format!("purchase {status}")) }
    }

    async fn pay(&mut self) -> Result<u64, String> {
        let path = format!("/1.0/kb/accounts/{}/payments", self.any_account());
        let body = json!({ "transactionType": "PURCHASE", "amount": PRICE, "currency": "USD" });
        let (status, ..) = self.client.exchange("POST", &path, &body).await?;
        if status == 201 { Ok(1) } else { Err(format!("payment {status}")) }
    }

    fn event(&mut self) -> Value {
        self.sent += 1;
        let id = format!("{}-{}", self.name, self.sent);
        json!({ "feature": FEATURES[1 + self.below(2)], "quantity": 1, "eventId": id })
    }

    fn any_account(&mut self) -> String {
        let at = self.below(self.accounts.len());
        self.accounts[at].clone()
    }

    fn below(&mut self, count: usize) -> usize {
        let number = self.random.next() % u64::try_from(count).unwrap_or(u64::MAX);
        usize::try_from(number).unwrap_or_default()
    }
}
