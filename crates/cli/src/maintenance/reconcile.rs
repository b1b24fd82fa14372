//! Compares a gateway's own books with the booked transactions: the simulator's journal, Stripe's balance, what the
//! program of an HTTP gateway lists.

mod http;
mod stripe;

use std::collections::BTreeSet;
use std::fmt::Write;

use config::Config;
use domain::payment::TransactionStatus;
use domain::tenant::Tenant;
use domain::{Timestamp, TransactionId};
use engine::ports::{Page, TenantQueries};
use gateway::reconcile::{Charges, Compared, Difference, DifferenceKind};
use gateway::simulator::record::Record;
use gateway::simulator::{self, journal};
use gateway::stripe::NAMES;
use serde_json::json;
use server::{gateways, node, serve};
use store::SqlQueries;

use super::{Args, Error, Report};

/// Differences listed; the rest is counted.
const SHOWN_MAX: usize = 100;

/// How many tenants are read at a time.
const TENANTS_PAGE: u64 = 1_000;

const DAY_US: i64 = 86_400 * Timestamp::SECOND_US;

/// Compare a gateway's own books with the booked transactions.
#[derive(Clone, Debug, clap::Args)]
pub struct Reconcile {
    #[command(flatten)]
    pub args: Args,
    /// The gateway: the simulator, Stripe, or an HTTP gateway of the configuration
    #[arg(long, value_name = "NAME", default_value = simulator::NAME)]
    gateway: String,
    /// Only payments that began in the last so many days; not of the simulator [default: all]
    #[arg(long, value_name = "N")]
    days: Option<u16>,
    /// Only payments in which no money moved in the last so many seconds; not of the simulator
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    older_than: u32,
}

/// Finds charges that are not booked, bookings without a charge, and amounts that differ.
///
/// # Errors
/// [`Error`].
pub fn reconcile(config: &Config, of: &Reconcile) -> Result<Report, Error> {
    let window = (of.days, of.older_than);
    match of.gateway.as_str() {
        simulator::NAME | simulator::KILL_BILL_NAME => reconcile_journal(config),
        name if NAMES.contains(&name) => stripe::reconcile(config, window),
        name => http::reconcile(config, name, window),
    }
}

fn each_tenant(queries: &SqlQueries, mut each: impl FnMut(Tenant)) -> Result<(), Error> {
    let mut offset = 0;
    loop {
        let page = queries.tenants(Page { offset, limit: TENANTS_PAGE })?;
        let read = page.len() as u64;
        page.into_iter().for_each(&mut each);
        if read < TENANTS_PAGE {
            return Ok(());
        }
        offset += TENANTS_PAGE;
    }
}

fn reconcile_journal(config: &Config) -> Result<Report, Error> {
    let (mut compared, mut differences) = compare(config, None)?;
    if !differences.is_empty() {
        // The two sides are not read at the same moment, and a server may run: transactions that
        // differ are compared again. Real differences remain.
        let suspects = differences.iter().map(|it| it.transaction).collect();
        (_, differences) = compare(config, Some(&suspects))?;
    }
    let (open, different): (Vec<_>, Vec<_>) = differences.into_iter().partition(is_open);
    compared.differences = different.len() as u64;
    Ok(report(&compared, open.len(), &different))
}

/// Whether the gateway may have charged and its answer is still outstanding.
fn is_open(difference: &Difference) -> bool {
    match difference.kind {
        DifferenceKind::ChargedNotBooked { status: Some(status) } => match status {
            TransactionStatus::InFlight
            | TransactionStatus::Pending
            | TransactionStatus::Unknown => true,
            TransactionStatus::Success
            | TransactionStatus::PaymentFailure
            | TransactionStatus::PluginFailure => false,
        },
        DifferenceKind::ChargedNotBooked { status: None }
        | DifferenceKind::BookedNotCharged
        | DifferenceKind::AmountDiffers { .. }
        | DifferenceKind::CurrencyDiffers { .. }
        | DifferenceKind::ChargedTwice { .. } => false,
    }
}

type Suspects = BTreeSet<TransactionId>;

/// Compares both sides, restricted to `suspects` if given.
fn compare(
    config: &Config,
    suspects: Option<&Suspects>,
) -> Result<(Compared, Vec<Difference>), Error> {
    let is_compared = |id| suspects.is_none_or(|suspects| suspects.contains(&id));
    let mut charges = Charges::default();
    read_journal(config, |record| {
        if is_compared(record.transaction) {
            charges.add(record);
        }
    })?;
    let mut differences = Vec::new();
    let names = [simulator::NAME, simulator::KILL_BILL_NAME];
    let source = node::source(config)?;
    let compared = charges.compare(
        |each| {
            store::each_transaction(&source, |transaction| {
                if names.contains(&transaction.gateway.as_str()) && is_compared(transaction.id) {
                    each(transaction);
                }
            })
        },
        |difference| differences.push(difference),
    )?;
    Ok((compared, differences))
}

fn read_journal(config: &Config, mut each: impl FnMut(&Record)) -> Result<(), Error> {
    let url = &config.gateway.simulator.url;
    if !url.is_empty() {
        let reading = simulator::charges(url, |record| each(&record));
        return Ok(serve::runtime(config)?.block_on(reading)?);
    }
    let path = gateways::simulator_dir(&config.data_dir).join(journal::FILE);
    if !path.exists() {
        // The gateway has never charged.
        return Ok(());
    }
    for record in journal::read(&path, u64::MAX)? {
        each(&record?);
    }
    Ok(())
}

fn report(compared: &Compared, open: usize, different: &[Difference]) -> Report {
    let Compared { charged, booked, differences } = compared;
    let mut text = format!(
        "{charged} charged by the gateway, {booked} booked, {open} open, {differences} differences"
    );
    for difference in different.iter().take(SHOWN_MAX) {
        write!(text, "\n  {difference}").expect("writing to a String does not fail");
    }
    let shown: Vec<String> = different.iter().take(SHOWN_MAX).map(ToString::to_string).collect();
    let json = json_of(compared, open as u64, &shown);
    Report { text, json, problems: !different.is_empty() }
}

fn json_of(compared: &Compared, open: u64, shown: &[String]) -> serde_json::Value {
    let Compared { charged, booked, differences } = compared;
    json!({
        "charged": charged,
        "booked": booked,
        "open": open,
        "differencesFound": differences,
        "differences": shown,
    })
}
