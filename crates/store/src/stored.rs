//! The tables of entities and other rows with a key: how a row is found, read and written. Each is described
//! once, in [`TableOf`]; batches, loads and verification follow from it.

use domain::access::{Role, User};
use domain::account_email::AccountEmail;
use domain::blocking_state::BlockingState;
use domain::change_request::ChangeRequest;
use domain::custom_field::CustomField;
use domain::customer::Customer;
use domain::definition::Definition;
use domain::dispute::Dispute;
use domain::entitlement::Entitlements;
use domain::environment::{Environment, Secret};
use domain::feature::Feature;
use domain::offer::Offer;
use domain::operation::Operation;
use domain::payment::{Payment, Transaction};
use domain::payment_attempt::{PaymentAttempt, PaymentVelocity};
use domain::payment_rules::PaymentRules;
use domain::purchase::Purchase;
use domain::rows::{Keyed, Rows};
use domain::tag::{Tag, TagDefinition};
use domain::tenant::{Tenant, TenantValue};
use domain::timer::Timer;
use domain::{Account, Id, PartitionNo, PaymentMethod, Seq, TenantNo};
use engine::ports::StoreError;

use crate::actors::Named;
use crate::cells::json;
use crate::codes::timer_kind_code;
use crate::driver::{Cells, Database, Put, Reader, Value};
use crate::rows::{self, AttemptTexts, RulesTexts, customers};
use crate::tables::{self, Table};

/// A table whose rows are found by the key of `T`.
pub(crate) struct TableOf<T: Keyed> {
    pub(crate) table: &'static Table,
    /// The condition that finds a row by its key, in SQL.
    pub(crate) by_key: &'static str,
    /// The parameters of that condition.
    pub(crate) parameters: for<'a> fn(&'a T::Key) -> Vec<Value<'a>>,
    pub(crate) read: fn(&mut Cells<'_>) -> Result<T, StoreError>,
    write: fn(&T, &WriteContext<'_>, &mut Put<'_>) -> Result<(), StoreError>,
}

/// An entity's newest image in a batch.
pub(crate) struct Newest<'a, T> {
    pub(crate) image: &'a T,
    /// Set where the batch made it.
    pub(crate) made_by: Option<Seq>,
}

/// Facts that rows have besides their entities.
#[derive(Clone, Copy)]
pub(crate) struct WriteContext<'a> {
    /// The journal row that made the entity, where the batch made it.
    pub(crate) made_by: Option<Seq>,
    pub(crate) actors: &'a Named,
    pub(crate) partition: PartitionNo,
}

impl<T: Keyed> TableOf<T> {
    /// Writes the newest images of a batch: inserts the rows that the batch made, so that a key that is there already is
    /// an error, and changes the others.
    pub(crate) fn write<'a>(
        &self,
        db: &Database,
        images: impl Iterator<Item = &'a Newest<'a, T>>,
        cx: WriteContext<'_>,
    ) -> Result<(), StoreError>
    where
        T: 'a,
    {
        let (mut insert, mut upsert) = (None, None);
        for it in images {
            let is_new = it.made_by.is_some();
            let slot = if is_new { &mut insert } else { &mut upsert };
            let put = match slot {
                Some(put) => put,
                None if is_new => slot.insert(db.insert(self.table)?),
                None => slot.insert(db.upsert(self.table)?),
            };
            (self.write)(it.image, &WriteContext { made_by: it.made_by, ..cx }, put)?;
        }
        Ok(())
    }

    /// Inserts a row, or changes the one that is there.
    pub(crate) fn put(
        &self,
        rows: &[&T],
        db: &Database,
        cx: WriteContext<'_>,
    ) -> Result<(), StoreError> {
        if rows.is_empty() {
            return Ok(());
        }
        let mut put = db.upsert(self.table)?;
        rows.iter().try_for_each(|it| (self.write)(it, &cx, &mut put))
    }

    /// Loads rows by their keys; a key without a row is noted as looked for.
    pub(crate) fn load(
        &self,
        reader: &Reader,
        keys: impl IntoIterator<Item = T::Key>,
        loaded: &mut Rows<T>,
    ) -> Result<(), StoreError> {
        let keys: Vec<T::Key> = keys.into_iter().collect();
        if keys.is_empty() {
            return Ok(());
        }
        let parameters: Vec<Vec<Value<'_>>> = keys.iter().map(self.parameters).collect();
        keys.iter().for_each(|key| loaded.look_for(key.clone()));
        reader.for_keys(&self.table.select(self.by_key), &parameters, |_, cells| {
            loaded.put((self.read)(cells)?);
            Ok(())
        })
    }
}

const BY_ID: &str = "WHERE tenant = ?1 AND id = ?2";
const BY_NAME: &str = "WHERE tenant = ?1 AND key = ?2";
/// A definition by its key.
pub(crate) const DEFINITION_BY_KEY: &str =
    "WHERE tenant = ?1 AND environment_id = ?2 AND kind = ?3 AND key = ?4";
const BY_ACCOUNT: &str = "WHERE tenant = ?1 AND account_id = ?2";

fn by_id<K>(key: &(TenantNo, Id<K>)) -> Vec<Value<'_>> {
    vec![key.0.into(), key.1.into()]
}

fn by_name(key: &(TenantNo, String)) -> Vec<Value<'_>> {
    vec![key.0.into(), (&key.1).into()]
}

pub(crate) static TENANTS: TableOf<Tenant> = TableOf {
    table: &tables::TENANT,
    by_key: "WHERE no = ?1",
    parameters: |no| vec![(*no).into()],
    read: rows::tenant,
    write: |it, _, put| put.row(&rows::tenant_row(it)),
};

pub(crate) static TENANT_VALUES: TableOf<TenantValue> = TableOf {
    table: &tables::TENANT_VALUE,
    by_key: "WHERE tenant = ?1 AND name = ?2",
    parameters: by_name,
    read: rows::tenant_value,
    write: |it, _, put| put.row(&rows::tenant_value_row(it)),
};

pub(crate) static TAG_DEFINITIONS: TableOf<TagDefinition> = TableOf {
    table: &tables::TAG_DEFINITION,
    by_key: BY_ID,
    parameters: by_id,
    read: rows::tag_definition,
    write: |it, _, put| put.row(&rows::tag_definition_row(it, &json(&it.applies_to))),
};

pub(crate) static PAYMENT_RULES: TableOf<PaymentRules> = TableOf {
    table: &tables::PAYMENT_RULES,
    by_key: "WHERE tenant = ?1",
    parameters: |tenant| vec![(*tenant).into()],
    read: rows::payment_rules,
    write: |it, _, put| put.row(&rows::payment_rules_row(it, &RulesTexts::of(it))),
};

pub(crate) static USERS: TableOf<User> = TableOf {
    table: &tables::APP_USER,
    by_key: "WHERE username = ?1",
    parameters: |name| vec![name.into()],
    read: rows::user,
    write: |it, _, put| put.row(&rows::user_row(it, &json(&it.roles))),
};

pub(crate) static ROLES: TableOf<Role> = TableOf {
    table: &tables::ROLE,
    by_key: "WHERE name = ?1",
    parameters: |name| vec![name.into()],
    read: rows::role,
    write: |it, _, put| put.row(&rows::role_row(it, &json(&it.permissions))),
};

pub(crate) static ENVIRONMENTS: TableOf<Environment> = TableOf {
    table: &tables::ENVIRONMENT,
    by_key: BY_ID,
    parameters: by_id,
    read: rows::environment,
    write: |it, _, put| put.row(&rows::environment_row(it)),
};

pub(crate) static SECRETS: TableOf<Secret> = TableOf {
    table: &tables::ENVIRONMENT_SECRET,
    by_key: BY_ID,
    parameters: by_id,
    read: rows::secret,
    write: |it, _, put| put.row(&rows::secret_row(it)),
};

pub(crate) static DEFINITIONS: TableOf<Definition> = TableOf {
    table: &tables::DEFINITION,
    by_key: DEFINITION_BY_KEY,
    parameters: |(tenant, key)| rows::definition_key(*tenant, key).to_vec(),
    read: rows::definition,
    write: |it, _, put| put.row(&rows::definition_row(it)),
};

pub(crate) static CHANGE_REQUESTS: TableOf<ChangeRequest> = TableOf {
    table: &tables::CHANGE_REQUEST,
    by_key: BY_ID,
    parameters: by_id,
    read: rows::change_request,
    write: |it, _, put| put.row(&rows::change_request_row(it)),
};

pub(crate) static CUSTOMERS: TableOf<Customer> = TableOf {
    table: &tables::CUSTOMER,
    by_key: BY_ID,
    parameters: by_id,
    read: customers::customer,
    write: |it, _, put| {
        let second_factor = customers::second_factor_text(it);
        put.row(&customers::customer_row(it, second_factor.as_deref()))
    },
};

pub(crate) static OPERATIONS: TableOf<Operation> = TableOf {
    table: &tables::OPERATION,
    by_key: BY_ID,
    parameters: by_id,
    read: customers::operation,
    write: |it, _, put| put.row(&customers::operation_row(it)),
};

pub(crate) static ACCOUNTS: TableOf<Account> = TableOf {
    table: &tables::ACCOUNT,
    by_key: BY_ID,
    parameters: by_id,
    read: rows::account,
    write: |it, cx, put| {
        let folded = rows::folded::of_account(it);
        put.row(&rows::account_row(it, cx.actors.maker(it), &folded))
    },
};

pub(crate) static TAGS: TableOf<Tag> = TableOf {
    table: &tables::TAG,
    by_key: "WHERE tenant = ?1 AND object_id = ?2 AND definition_id = ?3",
    parameters: |(tenant, key)| rows::tag_key(*tenant, *key).to_vec(),
    read: rows::tag,
    write: |it, _, put| put.row(&rows::tag_row(it)),
};

pub(crate) static ACCOUNT_EMAILS: TableOf<AccountEmail> = TableOf {
    table: &tables::ACCOUNT_EMAIL,
    by_key: BY_ID,
    parameters: by_id,
    read: rows::account_email,
    write: |it, _, put| put.row(&rows::account_email_row(it)),
};

pub(crate) static BLOCKING_STATES: TableOf<BlockingState> = TableOf {
    table: &tables::BLOCKING_STATE,
    by_key: BY_ID,
    parameters: by_id,
    read: rows::blocking_state,
    write: |it, _, put| put.row(&rows::blocking_state_row(it)),
};

pub(crate) static CUSTOM_FIELDS: TableOf<CustomField> = TableOf {
    table: &tables::CUSTOM_FIELD,
    by_key: BY_ID,
    parameters: by_id,
    read: rows::custom_field,
    write: |it, _, put| put.row(&rows::custom_field_row(it, &rows::folded::of_custom_field(it))),
};

pub(crate) static PAYMENT_METHODS: TableOf<PaymentMethod> = TableOf {
    table: &tables::PAYMENT_METHOD,
    by_key: BY_ID,
    parameters: by_id,
    read: rows::payment_method,
    write: |it, _, put| {
        let properties = rows::properties_text(it);
        let folded = rows::folded::of_payment_method(it);
        put.row(&rows::payment_method_row(it, properties.as_deref(), &folded))
    },
};

pub(crate) static PAYMENTS: TableOf<Payment> = TableOf {
    table: &tables::PAYMENT,
    by_key: BY_ID,
    parameters: by_id,
    read: rows::payment,
    write: |it, _, put| put.row(&rows::payment_row(it)),
};

pub(crate) static TRANSACTIONS: TableOf<Transaction> = TableOf {
    table: &tables::PAYMENT_TRANSACTION,
    by_key: BY_ID,
    parameters: by_id,
    read: rows::transaction,
    write: |it, cx, put| {
        // Where the batch did not make it, the row keeps what it was made by.
        let opened_seq = cx.made_by.unwrap_or(it.revision.seq);
        let routed = it.routed.as_ref().map(json);
        put.row(&rows::transaction_row(it, opened_seq, routed.as_ref()))
    },
};

pub(crate) static ATTEMPTS: TableOf<PaymentAttempt> = TableOf {
    table: &tables::PAYMENT_ATTEMPT,
    by_key: BY_ID,
    parameters: by_id,
    read: rows::payment_attempt,
    write: |it, _, put| put.row(&rows::payment_attempt_row(it, &AttemptTexts::of(it))),
};

pub(crate) static VELOCITIES: TableOf<PaymentVelocity> = TableOf {
    table: &tables::PAYMENT_VELOCITY,
    by_key: BY_ACCOUNT,
    parameters: by_id,
    read: rows::payment_velocity,
    write: |it, _, put| put.row(&rows::payment_velocity_row(it, &json(&it.amounts))),
};

pub(crate) static DISPUTES: TableOf<Dispute> = TableOf {
    table: &tables::DISPUTE,
    by_key: "WHERE tenant = ?1 AND gateway = ?2 AND case_id = ?3",
    parameters: |(tenant, it)| vec![(*tenant).into(), (&it.gateway).into(), (&it.case).into()],
    read: rows::dispute,
    write: |it, _, put| put.row(&rows::dispute_row(it)),
};

pub(crate) static FEATURES: TableOf<Feature> = TableOf {
    table: &tables::FEATURE,
    by_key: BY_NAME,
    parameters: by_name,
    read: rows::feature,
    write: |it, _, put| put.row(&rows::feature_row(it, &json(&it.terms))),
};

/// The newest versions of offers.
pub(crate) static OFFERS: TableOf<Offer> = TableOf {
    table: &tables::OFFER,
    by_key: BY_NAME,
    parameters: by_name,
    read: rows::offer,
    write: |it, _, put| put.row(&rows::offer_row(it, &json(&it.terms))),
};

pub(crate) static PURCHASES: TableOf<Purchase> = TableOf {
    table: &tables::PURCHASE,
    by_key: BY_ID,
    parameters: by_id,
    read: rows::purchase,
    write: |it, _, put| put.row(&rows::purchase_row(it, &json(&it.terms))),
};

pub(crate) static ENTITLEMENTS: TableOf<Entitlements> = TableOf {
    table: &tables::ENTITLEMENTS,
    by_key: BY_ACCOUNT,
    parameters: by_id,
    read: rows::entitlements,
    write: |it, _, put| {
        put.row(&rows::entitlements_row(it, (&json(&it.grants), &json(&it.bought))))
    },
};

pub(crate) static TIMERS: TableOf<Timer> = TableOf {
    table: &tables::TIMER,
    by_key: "WHERE tenant = ?1 AND kind = ?2 AND object_id = ?3",
    parameters: |(tenant, key)| {
        vec![(*tenant).into(), timer_kind_code(key.kind).into(), key.object.into()]
    },
    read: rows::timer,
    write: |it, cx, put| put.row(&rows::timer_row(it, cx.partition)),
};
