//! The tests of every driver: functions over a way to open the same store again and again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use domain::access::{CreateUser, PutRole, UpdateUser};
use domain::change::{AccountChange, Change, ClaimChange, SettledReply};
use domain::claim::{Claim, ClaimKey, ClaimKind};
use domain::command::{AccessCommand, TenantCommand};
use domain::payment::{Actor, ReplyKey};
use domain::read::{
    AccessRead, AccountRead, AccountRow, BillingRead, CustomerRead, EntitlementRead, FlagRead,
    PaymentRead, Read, TenantRead, TenantRow, UsageRead,
};
use domain::reply::AccountReply;
use domain::state::State;
use domain::tenant::SetTenantValue;
use domain::{
    Account, AccountId, Command, Event, Id, Rejection, Reply, RequestId, Revision, Seq, Sequences,
    TenantNo,
};
use engine::ports::{
    Batch, Bookkeeping, CALLBACK, Delivery, DeliveryId, Entry, Store, StoreError, StoredReply,
};
use store::{SqlStore, tables};
use uuid::Uuid;

use crate::flags;
use crate::sqlite::number;
use crate::watched::{Entries, Watched};
use crate::workload::{BEGIN, Workload, create_tenant};

/// The loaded rows are those that were committed, also after the store was opened again.
pub fn committed_rows_are_loaded<S: Store>(open: impl Fn() -> S) {
    let entries = Entries::default();
    let mut workload = two_tenants(Watched::recording(open(), Arc::clone(&entries)), 1);
    fill_access(&mut workload);
    workload.run(600);
    assert!(workload.transactions.len() > 30, "the history is not of nothing");
    let (mut expected, reads) = expected(&entries.lock().unwrap());
    let head = workload.head();
    let loaded = reload(workload.partition.store(), &reads);
    assert_same(&mut expected, loaded);
    drop(workload);
    let mut again = open();
    assert_eq!(again.open().unwrap().next_seq, Seq(head.0 + 1));
    let loaded = reload(&mut again, &reads);
    assert_same(&mut expected, loaded);
}

fn fill_access<S: Store>(workload: &mut Workload<S>) {
    let system = TenantNo::SYSTEM;
    workload.accepted(system, create_tenant("access"));
    workload.accepted(
        system,
        Command::Access(AccessCommand::PutRole(PutRole {
            name: "clerk".to_owned(),
            permissions: vec!["payment".to_owned(), "account:create".to_owned()],
            create: true,
        })),
    );
    workload.accepted(
        system,
        Command::Access(AccessCommand::CreateUser(CreateUser {
            username: "ada".to_owned(),
            password_hash: "first".to_owned(),
            roles: vec!["clerk".to_owned()],
        })),
    );
    workload.accepted(
        system,
        Command::Access(AccessCommand::UpdateUser(UpdateUser {
            username: "ada".to_owned(),
            password_hash: Some("second".to_owned()),
            roles: None,
            active: Some(false),
        })),
    );
    flags::fill(workload);
    crate::tags::fill(workload);
    crate::custom_fields::fill(workload);
    crate::blocking_states::fill(workload);
    crate::customers::fill(workload);
    crate::control::fill(workload);
    crate::disputes::fill(workload);
    crate::entitlements::fill(workload);
    crate::usage::fill(workload);
    crate::billing::fill_featured(workload);
    crate::method_steps::fill(workload);
    for value in [Some("http://localhost/"), None, Some("http://[::1]/")] {
        workload.accepted(
            TenantNo(1),
            Command::Tenant(TenantCommand::SetValue(SetTenantValue {
                key: "PUSH_NOTIFICATION_CB".to_owned(),
                value: value.map(str::to_owned),
                rules: None,
            })),
        );
    }
}

/// The state that the entries add up to, and the reads that name all of it.
fn expected(entries: &[Entry]) -> (State, BTreeSet<Read>) {
    let mut state = State::default();
    for entry in entries {
        state.apply(entry.tenant, &entry.changes);
    }
    let mut reads = BTreeSet::new();
    reads.extend(state.claims.keys().cloned().map(Read::Claim));
    reads.extend(of_tenants(&state));
    reads.extend(of_accounts(&state));
    reads.extend(of_payments(&state));
    reads.extend(of_usage(&state));
    reads.extend(of_billing(&state));
    (state, reads)
}

fn of_tenants(state: &State) -> Vec<Read> {
    use {AccessRead as A, FlagRead as F, TenantRead as T, TenantRow as Row};
    let mut reads: Vec<Read> = vec![];
    let (tenant, access, flag) = (&state.tenant, &state.access, &state.flag);
    reads.extend(tenant.tag_definitions.keys().map(|it| Row::TagDefinition(it.0, it.1).into()));
    reads.extend(tenant.changed_payment_rules.keys().map(|no| T::PaymentRules(*no).into()));
    reads.extend(tenant.values.keys().map(|it| Row::Value(it.0, it.1.clone()).into()));
    reads.extend(access.users.keys().map(|it| A::User(it.clone()).into()));
    reads.extend(access.roles.keys().map(|it| A::Role(it.clone()).into()));
    reads.extend(flag.environments.keys().map(|it| F::Environment(it.0, it.1).into()));
    reads.extend(flag.secrets.keys().map(|it| F::Secret(it.0, it.1).into()));
    reads.extend(flag.definitions.keys().map(|it| F::Definition(it.0, it.1.clone()).into()));
    reads.extend(flag.change_requests.keys().map(|it| F::ChangeRequest(it.0, it.1).into()));
    reads
}

fn of_accounts(state: &State) -> Vec<Read> {
    use {AccountRead as A, AccountRow as Row, CustomerRead as C};
    let mut reads: Vec<Read> = vec![];
    let (account, customer) = (&state.account, &state.customer);
    reads.extend(account.accounts.keys().map(|it| A::Account(it.0, it.1).into()));
    reads.extend(account.payment_methods.keys().map(|it| A::PaymentMethod(it.0, it.1).into()));
    reads.extend(account.tags.keys().map(|it| Row::Tag(it.0, it.1).into()));
    reads.extend(account.emails.owners().map(|it| Row::Emails(it.0, it.1).into()));
    reads.extend(account.blocking_states.owners().map(|it| Row::BlockingStates(it.0, it.1).into()));
    reads.extend(account.custom_fields.owners().map(|it| Row::CustomFields(it.0, it.1).into()));
    reads.extend(customer.customers.keys().map(|it| C::Customer(it.0, it.1).into()));
    reads.extend(customer.operations.keys().map(|it| C::Operation(it.0, it.1).into()));
    reads
}

fn of_payments(state: &State) -> Vec<Read> {
    use PaymentRead as P;
    let mut reads: Vec<Read> = vec![];
    let payment = &state.payment;
    reads.extend(payment.payments.keys().map(|it| P::Payment(it.0, it.1).into()));
    reads.extend(payment.attempts.keys().map(|it| P::Attempts(it.0, it.1).into()));
    reads.extend(payment.velocities.keys().map(|it| P::Velocity(it.0, it.1).into()));
    reads.extend(payment.disputes.keys().map(|it| P::Dispute(it.0, it.1.clone()).into()));
    reads
}

fn of_usage(state: &State) -> Vec<Read> {
    use UsageRead as U;
    let usage = &state.entitlement.usage;
    let counts = usage.counts.keys().map(|it| U::Feature(it.0, it.1, it.2.clone()));
    let events = usage.events.keys().map(|it| U::Event(it.0, it.1, it.2));
    let reservations = usage.reservations.keys().map(|it| U::Reservation(it.0, it.1, it.2));
    let all = counts.chain(events).chain(reservations);
    all.map(|read| EntitlementRead::Usage(read).into()).collect()
}

fn of_billing(state: &State) -> Vec<Read> {
    let billing = &state.billing;
    let accounts = billing.accounts.keys().map(|it| BillingRead::Account(it.0, it.1));
    let invoices = billing.invoices.keys().map(|it| BillingRead::Invoice(it.0, it.1));
    let versions = state.tenant.catalog_versions.owners();
    let versions = versions.map(|it| TenantRow::CatalogVersions(*it).into());
    let features = state.entitlement.plan_features.keys();
    let features = features.map(|it| EntitlementRead::PlanFeatures(it.0, it.1.clone()).into());
    accounts.chain(invoices).map(Read::from).chain(versions).chain(features).collect()
}

fn reload<S: Store>(store: &mut S, reads: &BTreeSet<Read>) -> State {
    let loaded = store.load(reads, &BTreeSet::new()).unwrap();
    store.commit(&Batch::default()).unwrap();
    loaded.state
}

fn assert_same(expected: &mut State, loaded: State) {
    // A row knows its revision, not the one before.
    let forget = |revision: &mut Revision| revision.previous = None;
    expected.account.accounts.iter_mut().for_each(|it| forget(&mut it.revision));
    expected.account.payment_methods.iter_mut().for_each(|it| forget(&mut it.revision));
    expected.account.tags.iter_mut().for_each(|it| forget(&mut it.revision));
    expected.tenant.tag_definitions.iter_mut().for_each(|it| forget(&mut it.revision));
    let emails = expected.account.emails.iter_mut();
    emails.for_each(|it| forget(&mut it.revision));
    let states = expected.account.blocking_states.iter_mut();
    states.for_each(|it| forget(&mut it.revision));
    let fields = expected.account.custom_fields.iter_mut();
    fields.for_each(|it| forget(&mut it.revision));
    expected.tenant.values.iter_mut().for_each(|it| forget(&mut it.revision));
    expected.access.users.iter_mut().for_each(|it| forget(&mut it.revision));
    expected.access.roles.iter_mut().for_each(|it| forget(&mut it.revision));
    expected.flag.environments.iter_mut().for_each(|it| forget(&mut it.revision));
    expected.flag.secrets.iter_mut().for_each(|it| forget(&mut it.revision));
    expected.flag.definitions.iter_mut().for_each(|it| forget(&mut it.revision));
    expected.flag.change_requests.iter_mut().for_each(|it| forget(&mut it.revision));
    expected.customer.operations.iter_mut().for_each(|it| forget(&mut it.revision));
    let customers = expected.customer.customers.iter_mut();
    customers.for_each(|it| forget(&mut it.customer.revision));
    for file in expected.payment.payments.iter_mut() {
        forget(&mut file.payment.revision);
        file.transactions.iter_mut().for_each(|it| forget(&mut it.revision));
    }
    expected.payment.disputes.iter_mut().for_each(|it| forget(&mut it.revision));
    let attempts = expected.payment.attempts.values_mut().flatten();
    attempts.for_each(|it| forget(&mut it.revision));
    let changed = std::mem::take(&mut expected.tenant.changed_payment_rules);
    for rules in changed.into_values() {
        expected.tenant.payment_rules.put(rules);
    }
    expected.tenant.payment_rules.iter_mut().for_each(|it| forget(&mut it.revision));
    let in_order = |mut state: State| {
        state.payment.attempts.values_mut().for_each(|all| all.sort_by_key(|it| it.id));
        state.payment.attempts
    };
    assert_eq!(in_order(expected.clone()), in_order(loaded.clone()));
    assert_eq!(expected.payment.velocities, loaded.payment.velocities);
    assert_eq!(expected.entitlement.usage.counts, loaded.entitlement.usage.counts);
    assert_eq!(expected.entitlement.usage.events, loaded.entitlement.usage.events);
    assert_eq!(expected.entitlement.usage.reservations, loaded.entitlement.usage.reservations);
    assert_eq!(expected.tenant.payment_rules, loaded.tenant.payment_rules);
    assert_eq!(expected.account.accounts, loaded.account.accounts);
    assert_eq!(expected.account.people, loaded.account.people);
    assert_eq!(expected.account.payment_methods, loaded.account.payment_methods);
    assert_eq!(expected.account.tags, loaded.account.tags);
    assert_eq!(expected.tenant.tag_definitions, loaded.tenant.tag_definitions);
    assert_eq!(expected.account.emails, loaded.account.emails);
    assert_eq!(expected.account.closed, loaded.account.closed);
    assert!(!loaded.account.closed.is_empty(), "some account is closed");
    assert_eq!(expected.account.blocking_states, loaded.account.blocking_states);
    assert_eq!(expected.account.custom_fields, loaded.account.custom_fields);
    assert_eq!(expected.payment.payments, loaded.payment.payments);
    assert_eq!(expected.payment.outstanding, loaded.payment.outstanding);
    assert_eq!(expected.claims, loaded.claims);
    assert_eq!(expected.tenant.values, loaded.tenant.values);
    assert_eq!(expected.access.users, loaded.access.users);
    assert_eq!(expected.access.roles, loaded.access.roles);
    assert_eq!(expected.flag.environments, loaded.flag.environments);
    assert_eq!(expected.flag.secrets, loaded.flag.secrets);
    assert_eq!(expected.flag.definitions, loaded.flag.definitions);
    assert_eq!(expected.flag.change_requests, loaded.flag.change_requests);
    assert_eq!(expected.customer.customers, loaded.customer.customers);
    assert_eq!(expected.customer.operations, loaded.customer.operations);
    assert!(loaded.payment.disputes.iter().next().is_some(), "there are disputes");
    assert_eq!(expected.payment.disputes, loaded.payment.disputes);
    assert_same_billing(expected, &loaded);
}

fn assert_same_billing(expected: &mut State, loaded: &State) {
    let forget = |revision: &mut Revision| revision.previous = None;
    let versions = expected.tenant.catalog_versions.iter_mut();
    versions.for_each(|it| forget(&mut it.revision));
    assert_eq!(expected.tenant.catalog_versions, loaded.tenant.catalog_versions);
    let features = &mut expected.entitlement.plan_features;
    features.iter_mut().for_each(|it| forget(&mut it.revision));
    assert!(features.iter().next().is_some(), "there are features of plans");
    assert_eq!(*features, loaded.entitlement.plan_features);
    let billing = &mut expected.billing;
    billing.accounts.iter_mut().for_each(|it| forget(&mut it.revision));
    billing.bundles.iter_mut().for_each(|it| forget(&mut it.revision));
    billing.subscriptions.iter_mut().for_each(|it| forget(&mut it.revision));
    billing.items.iter_mut().for_each(|it| forget(&mut it.revision));
    billing.invoices.iter_mut().for_each(|it| forget(&mut it.revision));
    assert!(billing.invoices.iter().next().is_some(), "there are invoices");
    assert_eq!(billing.accounts, loaded.billing.accounts);
    assert_eq!(billing.bundles, loaded.billing.bundles);
    assert_eq!(billing.subscriptions, loaded.billing.subscriptions);
    assert_eq!(billing.items, loaded.billing.items);
    assert_eq!(billing.invoices, loaded.billing.invoices);
}

/// Each read loads what belongs to it, and what is not there as `None`.
pub fn a_read_loads_what_belongs_to_it<S: Store>(open: impl Fn() -> S) {
    let entries = Entries::default();
    let mut workload = two_tenants(Watched::recording(open(), Arc::clone(&entries)), 7);
    workload.run(300);
    let (all, _) = expected(&entries.lock().unwrap());
    let file = all.payment.payments.iter().find(|it| it.payment.external_key.is_some());
    let payment = &file.expect("some payment has a key").payment;
    let key = payment.external_key.as_deref().unwrap();
    let claim = ClaimKey::new(payment.tenant, ClaimKind::Payment, key);
    let nobody = ClaimKey::new(payment.tenant, ClaimKind::Payment, "nobody's");
    let stranger = AccountId::new(Uuid::from_u128(1));
    let reads = [
        Read::Claim(claim.clone()),
        Read::Claim(nobody.clone()),
        AccountRead::Account(payment.tenant, stranger).into(),
        AccessRead::User("nobody".to_owned()).into(),
        FlagRead::Environment(payment.tenant, Id::new(Uuid::from_u128(1))).into(),
        FlagRead::Secret(payment.tenant, Id::new(Uuid::from_u128(1))).into(),
        FlagRead::Definition(payment.tenant, flags::key(1, "nothing")).into(),
        FlagRead::ChangeRequest(payment.tenant, Id::new(Uuid::from_u128(1))).into(),
        CustomerRead::Customer(payment.tenant, Id::new(Uuid::from_u128(1))).into(),
        CustomerRead::Operation(payment.tenant, Id::new(Uuid::from_u128(1))).into(),
        // Another tenant's view of the same payment.
        PaymentRead::Payment(TenantNo(99), payment.id).into(),
    ];
    let loaded = reload(workload.partition.store(), &reads.into());
    let tenant = payment.tenant;
    let account = loaded.account.accounts.find(&(tenant, payment.account_id)).unwrap();
    assert_eq!(loaded.claims[&claim].unwrap().owner, payment.id.uuid());
    assert_eq!(loaded.claims[&nobody], None);
    assert_eq!(loaded.account.accounts.get(&(tenant, stranger)), None);
    assert_eq!(loaded.access.users.get(&"nobody".to_owned()), None);
    assert_eq!(loaded.payment.payments.get(&(TenantNo(99), payment.id)), None);
    assert!(loaded.payment.payments.find(&(tenant, payment.id)).is_some());
    assert!(loaded.account.payment_methods.find(&(tenant, payment.payment_method_id)).is_some());
    if let Some(default) = account.payment_method_id {
        assert!(loaded.account.payment_methods.find(&(tenant, default)).is_some());
    }
}

/// A store taken over by somebody else does not commit any more.
pub fn an_older_epoch_does_not_commit(open: impl Fn() -> SqlStore) {
    let mut store = open();
    let opened = store.open().unwrap();
    store.load(&BTreeSet::new(), &BTreeSet::new()).unwrap();
    store.commit(&batch(vec![account_created(opened.next_seq, account_id(1))])).unwrap();
    let sql = "UPDATE partition SET epoch = epoch + 1";
    assert_eq!(store.database().exec(sql, &[]).unwrap(), 1);
    let next = account_created(Seq(opened.next_seq.0 + 1), account_id(2));
    store.load(&BTreeSet::new(), &BTreeSet::new()).unwrap();
    let refused = store.commit(&batch(vec![next.clone()]));
    assert!(matches!(refused, Err(StoreError::NotOwner)), "{refused:?}");
    // No store wrote that, so none takes it over.
    let refused = store.open();
    assert!(matches!(refused, Err(StoreError::Corrupt { .. })), "{refused:?}");
    let sql = "UPDATE partition SET epoch = epoch - 1";
    assert_eq!(store.database().exec(sql, &[]).unwrap(), 1);
    assert_eq!(store.open().unwrap().next_seq, next.seq, "nothing of it was written");
    store.load(&BTreeSet::new(), &BTreeSet::new()).unwrap();
    store.commit(&batch(vec![next])).unwrap();
}

/// A commit that fails leaves nothing, and the next one is as if it had never been.
pub fn a_failed_commit_leaves_nothing<S: Store>(open: impl Fn() -> S) {
    let mut store = open();
    let opened = store.open().unwrap();
    let begin = |store: &mut S| store.load(&BTreeSet::new(), &BTreeSet::new()).unwrap();
    begin(&mut store);
    let first = account_created(opened.next_seq, account_id(1));
    store.commit(&batch(vec![first.clone()])).unwrap();
    let next = Seq(opened.next_seq.0 + 1);
    // A new account, and one that says that it is new but is there.
    let new = account_created(next, account_id(2));
    let known = account_created(Seq(next.0 + 1), account_id(1));
    begin(&mut store);
    let failed = store.commit(&batch(vec![new, known]));
    assert!(matches!(failed, Err(StoreError::Repeated(_))), "{failed:?}");
    // A journal row that is not the next one.
    begin(&mut store);
    let gap = batch(vec![account_created(Seq(next.0 + 1), account_id(3))]);
    assert!(matches!(store.commit(&gap), Err(StoreError::Database(_))));
    let reads = (1..=3).map(|n| AccountRead::Account(TenantNo(1), account_id(n)).into()).collect();
    let there = reload(&mut store, &reads);
    let accounts = there.account.accounts;
    let there = accounts.keys().map(|key| accounts.get(key).is_some());
    let there: Vec<bool> = there.collect();
    assert_eq!(there, [true, false, false]);
    begin(&mut store);
    store.commit(&batch(vec![account_created(next, account_id(2))])).unwrap();
    assert_eq!(store.open().unwrap().next_seq, Seq(next.0 + 1));
}

/// A batch that was begun and never committed is given up by the next one.
pub fn an_abandoned_batch_is_given_up<S: Store>(open: impl Fn() -> S) {
    let mut store = open();
    let opened = store.open().unwrap();
    for _ in 0..3 {
        store.load(&BTreeSet::new(), &BTreeSet::new()).unwrap();
    }
    store.commit(&batch(vec![account_created(opened.next_seq, account_id(1))])).unwrap();
    store.load(&BTreeSet::new(), &BTreeSet::new()).unwrap();
    assert_eq!(store.open().unwrap().next_seq, Seq(opened.next_seq.0 + 1));
}

/// Replies: running, settled by a change, replaced once expired, forgotten.
pub fn replies_are_kept<S: Store>(open: impl Fn() -> S) {
    let mut store = open();
    let seq = store.open().unwrap().next_seq;
    let key = |n| ReplyKey(Uuid::from_u128(n));
    let reply = |n, answer, expires_at| StoredReply {
        key: key(n),
        fingerprint: Uuid::from_u128(100 + n),
        answer,
        expires_at,
    };
    let refusal = Rejection::invalid("amount", "needs to be set");
    let soon = BEGIN.plus_us(10);
    let first = [
        reply(1, None, soon),
        reply(2, Some(Ok(Reply::Account(AccountReply::Created(account_id(9))))), soon),
        reply(3, Some(Err(refusal)), soon.plus_us(100)),
    ];
    let begin = |store: &mut S| {
        store.load(&BTreeSet::new(), &[key(1), key(2), key(3), key(4)].into()).unwrap().replies
    };
    assert_eq!(begin(&mut store), BTreeMap::new());
    store.commit(&Batch { replies: first.to_vec(), ..Batch::default() }).unwrap();
    let expected = |replies: &[StoredReply]| -> BTreeMap<ReplyKey, StoredReply> {
        replies.iter().map(|reply| (reply.key, reply.clone())).collect()
    };
    assert_eq!(begin(&mut store), expected(&first));

    // One runs and is settled within one batch; another ran before, is settled and comes again.
    let later = soon.plus_us(100);
    let settled = |n| {
        let (key, reply) = (key(n), Reply::Done);
        Change::from(SettledReply { key, reply, expires_at: later })
    };
    let mut entry = account_created(seq, account_id(1));
    entry.changes.extend([settled(1), settled(4)]);
    let again = reply(1, None, soon.plus_us(500));
    let mut second = batch(vec![entry]);
    second.replies = vec![reply(4, None, soon.plus_us(100)), again.clone()];
    store.commit(&second).unwrap();
    let four = reply(4, Some(Ok(Reply::Done)), soon.plus_us(100));
    let [_, two, three] = first;
    assert_eq!(begin(&mut store), expected(&[again.clone(), two, three, four.clone()]));

    // Time passes: the next reply makes room, but what runs stays.
    let mut entry = account_created(Seq(seq.0 + 1), account_id(2));
    entry.at = soon.plus_us(1_000);
    let mut third = batch(vec![entry]);
    let late = reply(3, Some(Ok(Reply::Done)), soon.plus_us(2_000));
    third.replies = vec![late.clone()];
    store.commit(&third).unwrap();
    assert_eq!(begin(&mut store), expected(&[again, late]));
}

/// Bookkeeping and sequences survive opening the store again.
pub fn bookkeeping_is_kept(open: impl Fn() -> SqlStore) {
    let delivery = |seq, attempts| Delivery {
        id: DeliveryId { seq: Seq(seq), ordinal: 2, endpoint: CALLBACK },
        tenant: TenantNo(1),
        attempts,
        due_at: BEGIN,
        error: "connection refused".to_owned(),
    };
    let sequences = Sequences { payment_number: 41, tenant_no: 7 };
    let mut store = open();
    store.open().unwrap();
    let commit = |store: &mut SqlStore, bookkeeping: Vec<Bookkeeping>| {
        store.load(&BTreeSet::new(), &BTreeSet::new()).unwrap();
        let sequences = Some(sequences);
        store.commit(&Batch { bookkeeping, sequences, ..Batch::default() }).unwrap();
    };
    let moved = |upto| Bookkeeping::Followed { follower: "push", upto: Seq(upto) };
    let postponed = |it| Bookkeeping::DeliveryPostponed(it);
    let first = vec![moved(4), postponed(delivery(3, 1)), postponed(delivery(4, 1))];
    commit(&mut store, first);
    let closed = |seq, attempts| Bookkeeping::DeliveryClosed { id: delivery(seq, 1).id, attempts };
    // That of row 4 was queued anew since it was read.
    commit(&mut store, vec![moved(5), postponed(delivery(4, 2)), closed(3, 1), closed(4, 1)]);
    drop(store);
    let mut store = open();
    assert_eq!(store.open().unwrap().sequences, sequences);
    let sql = tables::DELIVERY.select("");
    let waiting =
        store.database().reader().query(&sql, &[], |cells| tables::DELIVERY.row(cells)).unwrap();
    assert_eq!(waiting, [delivery(4, 2)]);
    assert_eq!(number(&store, "SELECT upto FROM follower WHERE name = 'push'"), 5);
}

/// Somebody with two tenants to write for.
pub fn two_tenants<S: Store>(store: S, seed: u64) -> Workload<S> {
    let mut workload = Workload::new(store, seed);
    for key in ["key-1", "key-2"] {
        workload.accepted(TenantNo::SYSTEM, create_tenant(key));
    }
    workload
}

pub fn account_id(n: u128) -> AccountId {
    Id::new(Uuid::from_u128(n))
}

pub fn batch(entries: Vec<Entry>) -> Batch {
    Batch { entries, ..Batch::default() }
}

/// The entry of a command that makes an account with a key.
pub fn account_created(seq: Seq, id: AccountId) -> Entry {
    let account = Account {
        tenant: TenantNo(1),
        id,
        external_key: Some(id.to_string()),
        currency: None,
        bill_cycle_day_local: 31,
        parent_account_id: None,
        is_payment_delegated_to_parent: false,
        payment_method_id: None,
        external_payment_method: None,
        reference_time: BEGIN,
        time_zone: "UTC".to_owned(),
        is_migrated: Some(true),
        created_at: BEGIN,
        updated_at: BEGIN,
        erased_at: None,
        revision: Revision::first(seq),
    };
    let claim = Claim { owner: id.uuid(), account: Some(id) };
    let key = ClaimKey::new(TenantNo(1), ClaimKind::Account, &id.to_string());
    entry(
        seq,
        vec![
            Change::Claim(ClaimChange::Taken { key, claim }),
            Change::Account(AccountChange::Account(account)),
        ],
        vec![Event::AccountCreated { account: id }],
    )
}

pub fn entry(seq: Seq, changes: Vec<Change>, events: Vec<Event>) -> Entry {
    Entry {
        seq,
        at: BEGIN,
        tenant: TenantNo(1),
        request: RequestId(Uuid::from_u128(u128::try_from(seq.0).unwrap())),
        command: "CreateAccount",
        actor: Actor {
            user: "admin".to_owned(),
            created_by: "clerk".to_owned(),
            reason: Some("reason".to_owned()),
            comments: None,
            token: Uuid::nil(),
        },
        changes,
        events,
    }
}
