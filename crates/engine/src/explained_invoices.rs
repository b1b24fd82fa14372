//! Explained invoices: how each item has its amount, by the stages of a run and with the rows of then.

use std::collections::BTreeMap;

use domain::billing::account::AccountBilling;
use domain::billing::base_of;
use domain::billing::explain::{self, Known, Then, Unexplained, Working, explain_credit};
use domain::billing::invoice::{Invoice, InvoiceItem, ItemKind};
use domain::billing::subscription::Subscription;
use domain::change::Image as _;
use domain::{AmountMinor, InvoiceId, Seq, SubscriptionId, TenantNo, Timestamp};
use jiff::civil::Date;

use crate::ports::{HistoryOf, HistoryRow, InvoiceFile, Page, Queries, ROWS_MAX, StoreError};

/// How often a run looks further back for what is across the days of an item.
const LOOKS_MAX: usize = 100;

/// An invoice with a page of its items.
#[derive(Clone, Debug)]
pub struct ExplainedInvoice {
    pub invoice: Invoice,
    pub items: Vec<ExplainedItem>,
    /// How many items it has, the page aside.
    pub all: usize,
}

/// An item, and how it has its amount.
#[derive(Clone, Debug)]
pub struct ExplainedItem {
    pub item: InvoiceItem,
    /// The journal row that made it.
    pub made: Seq,
    pub made_at: Timestamp,
    /// Who asked for it; a timer has no name.
    pub by: String,
    pub working: Result<Working, Unexplained>,
}

/// Explains the items of an invoice; `None`: there is no such invoice.
///
/// # Errors
/// [`StoreError`].
pub fn explain(
    queries: &dyn Queries,
    (tenant, id): (TenantNo, InvoiceId),
    page: Page,
) -> Result<Option<ExplainedInvoice>, StoreError> {
    let Some(InvoiceFile { invoice, items }) = queries.invoice(tenant, id)? else {
        return Ok(None);
    };
    let all = items.len();
    let (skip, take) = (usize::try_from(page.offset), usize::try_from(page.limit));
    let items = items.into_iter().skip(skip.unwrap_or(usize::MAX)).take(take.unwrap_or(usize::MAX));
    let items: Vec<InvoiceItem> = items.collect();
    let of: Vec<_> = items.iter().map(|it| HistoryOf::new::<InvoiceItem>(it.id.uuid())).collect();
    let mut origins = queries.first_states(tenant, &of)?;
    let state = queries.rows(&explain::reads(tenant, invoice.account_id))?;
    let known = Known::of(&state, (tenant, invoice.account_id), invoice.currency);
    let mut explaining = Explaining { queries, invoice: &invoice, known, runs: BTreeMap::new() };
    let made = items.into_iter().filter_map(|it| Some((origins.remove(&it.id.uuid())?, it)));
    let made: Vec<_> = made.collect();
    for (origin, item) in made.iter().filter(|(_, it)| is_of_run(it)) {
        explaining.note_day(origin, item);
    }
    let explained = made.into_iter().map(|(origin, item)| {
        let working = explaining.working(&origin, &item)?;
        let (made, made_at, by) = (origin.seq, origin.at, origin.actor.created_by);
        Ok(ExplainedItem { item, made, made_at, by, working })
    });
    let items = explained.collect::<Result<_, StoreError>>()?;
    Ok(Some(ExplainedInvoice { invoice, items, all }))
}

/// Whether a run made it of a subscription.
const fn is_of_run(it: &InvoiceItem) -> bool {
    it.of.is_some()
        && matches!(it.kind, ItemKind::Fixed | ItemKind::Recurring | ItemKind::RepairAdj)
}

struct Explaining<'a> {
    queries: &'a dyn Queries,
    invoice: &'a Invoice,
    known: Option<Known<'a>>,
    runs: BTreeMap<(SubscriptionId, Seq), RunOfThen>,
}

/// The subscription as a command knew it, with its items since a day before which nothing of it matters.
type KnownThen = Result<(Then, Vec<InvoiceItem>, Date), Unexplained>;

/// What a command knew of a subscription.
struct RunOfThen {
    at: Timestamp,
    /// The first day of its items.
    day: Date,
    read: Option<KnownThen>,
}

impl Explaining<'_> {
    fn note_day(&mut self, origin: &HistoryRow, item: &InvoiceItem) {
        let Some(of) = &item.of else { return };
        let new = || RunOfThen { at: item.created_at, day: item.start, read: None };
        let run = self.runs.entry((of.subscription, origin.seq)).or_insert_with(new);
        run.day = run.day.min(item.start);
    }

    fn working(
        &mut self,
        origin: &HistoryRow,
        item: &InvoiceItem,
    ) -> Result<Result<Working, Unexplained>, StoreError> {
        // As it was made: credit that was deleted has no amount.
        let Some(first) = InvoiceItem::of(&origin.image) else {
            return Ok(Err(Unexplained::NotKnown));
        };
        match &item.of {
            Some(of) if is_of_run(item) => self.of_run((of.subscription, origin.seq), first),
            _ if item.kind == ItemKind::CbaAdj => self.of_credit(origin.seq, first.amount),
            Some(_) | None => Ok(Ok(Working::ByHand)),
        }
    }

    fn of_run(
        &mut self,
        key: (SubscriptionId, Seq),
        item: &InvoiceItem,
    ) -> Result<Result<Working, Unexplained>, StoreError> {
        let Some(known) = &self.known else { return Ok(Err(Unexplained::NotKnown)) };
        let Some(run) = self.runs.get_mut(&key) else { return Ok(Err(Unexplained::NotKnown)) };
        if run.read.is_none() {
            run.read = Some(read_then(self.queries, known, (self.invoice, key), run)?);
        }
        let read = run.read.as_ref().expect("it was read");
        let working = read.as_ref().map_err(|why| *why);
        Ok(working.and_then(|(then, others, day)| known.explain(item, then, (others, *day))))
    }

    /// The item as the account's credit and its invoice were.
    fn of_credit(
        &self,
        seq: Seq,
        amount: AmountMinor,
    ) -> Result<Result<Working, Unexplained>, StoreError> {
        let (tenant, id) = (self.invoice.tenant, self.invoice.id);
        let of = HistoryOf::new::<Invoice>(id.uuid());
        let after = self.queries.state_at(tenant, of, seq)?;
        let Some(after) = after.as_ref().and_then(|it| Invoice::of(&it.image)) else {
            return Ok(Err(Unexplained::NotKnown));
        };
        let before = match after.revision.previous {
            Some(before) => self.queries.state_at(tenant, of, before)?,
            None => None,
        };
        let before = before.as_ref().and_then(|it| Invoice::of(&it.image));
        let paid = before.map_or(AmountMinor::ZERO, Invoice::paid);
        Ok(explain_credit(amount, after, paid))
    }
}

fn read_then(
    queries: &dyn Queries,
    known: &Known<'_>,
    (invoice, (id, seq)): (&Invoice, (SubscriptionId, Seq)),
    RunOfThen { at, day, .. }: &RunOfThen,
) -> Result<KnownThen, StoreError> {
    let tenant = invoice.tenant;
    let (at, mut day) = (*at, *day);
    let image = |id: SubscriptionId| {
        let found = queries.state_at(tenant, HistoryOf::new::<Subscription>(id.uuid()), seq)?;
        Ok::<_, StoreError>(found.and_then(|it| Subscription::of(&it.image).cloned()))
    };
    let Some(subscription) = image(id)? else { return Ok(Err(Unexplained::NotKnown)) };
    let beside = queries.subscriptions_of_bundle(tenant, subscription.bundle_id)?;
    let base = base_of(&subscription, beside.iter().map(|it| &it.subscription));
    let base = base.map(|it| image(it.id)).transpose()?.flatten().filter(|it| !it.is_over);
    let account = HistoryOf::new::<AccountBilling>(invoice.account_id.uuid());
    let account = queries.state_in(tenant, account, seq)?;
    let until = account.as_ref().and_then(|it| AccountBilling::of(&it.image)?.invoiced_until);
    let Some(target) = until.or(invoice.target_date) else {
        return Ok(Err(Unexplained::NotKnown));
    };
    let then = Then { seq, subscription, base, target };
    for _ in 0..LOOKS_MAX {
        let items = queries.items_since(tenant, id, day)?;
        if items.len() as u64 >= ROWS_MAX {
            break;
        }
        let items = made_before(queries, items, (at, seq))?;
        match known.horizon(&then, &items, day) {
            Ok(earlier) if earlier < day => day = earlier,
            Ok(_) => return Ok(Ok((then, items, day))),
            Err(why) => return Ok(Err(why)),
        }
    }
    Ok(Err(Unexplained::NotKnown))
}

/// Those of the items that were made before a journal row.
fn made_before(
    queries: &dyn Queries,
    items: Vec<InvoiceItem>,
    (at, seq): (Timestamp, Seq),
) -> Result<Vec<InvoiceItem>, StoreError> {
    let of_then = items.iter().filter(|it| it.created_at == at);
    let of_then: Vec<_> = of_then.map(|it| HistoryOf::new::<InvoiceItem>(it.id.uuid())).collect();
    let Some(tenant) = items.first().map(|it| it.tenant) else { return Ok(items) };
    let origins = queries.first_states(tenant, &of_then)?;
    let is_before = |it: &InvoiceItem| match origins.get(&it.id.uuid()) {
        Some(origin) => origin.seq < seq,
        None => it.created_at < at,
    };
    Ok(items.into_iter().filter(is_before).collect())
}
