//! Accounts, their people, further addresses, blocking states, and imported audit logs.

use domain::account::blocking_state::{Blockable, BlockingState, Blocks};
use domain::account::email::AccountEmail;
use domain::change::{AccountChange, Change};
use domain::import::{AuditEntry, ImportedAudit};
use domain::{Account, AccountId, Person, Seq, TenantNo};
use engine::ports::StoreError;

use super::{CHECKED, CLUSTERED, Index, Table, folded, id, index, int, only, text};
use crate::cells::erasable;
use crate::codes::code;
use crate::driver::{Cells, Value};
use crate::stored::TableOf;
use crate::stored::folded_text;

/// Accounts, without what is known of the person.
pub static ACCOUNT: TableOf<Account> = TableOf::<Account>::new(
    Table { name: "account", exported: &["id"], ..CHECKED },
    &[
        int("tenant").of(|it, _| it.tenant.into()),
        id("id").of(|it, _| it.id.into()),
        text("external_key").null().of(|it, _| it.external_key.as_ref().into()),
        text("currency").null().of(|it, _| it.currency.as_ref().into()),
        int("bill_cycle_day_local").of(|it, _| i64::from(it.bill_cycle_day_local).into()),
        id("parent_account_id").null().of(|it, _| it.parent_account_id.into()),
        int("is_payment_delegated_to_parent").of(|it, _| it.is_payment_delegated_to_parent.into()),
        id("payment_method_id").null().of(|it, _| it.payment_method_id.into()),
        id("external_payment_method").null().of(|it, _| it.external_payment_method.into()),
        int("reference_time_us").fixed().of(|it, _| it.reference_time.into()),
        text("time_zone").fixed().of(|it, _| (&it.time_zone).into()),
        int("is_migrated").null().of(|it, _| it.is_migrated.into()),
        int("created_at_us").fixed().of(|it, _| it.created_at.into()),
        int("updated_at_us").of(|it, _| it.updated_at.into()),
        int("erased_at_us").null().of(|it, _| it.erased_at.into()),
        int("seq").of(|it, _| it.revision.seq.into()),
        id("actor").null().fixed().of(|it, cx| cx.maker(it)[0]),
        id("actor_salt").null().fixed().of(|it, cx| cx.maker(it)[1]),
        text("actor_user").null().fixed().of(|it, cx| cx.maker(it)[2]),
        text("actor_created_by").null().fixed().of(|it, cx| cx.maker(it)[3]),
        text("actor_reason").null().fixed().of(|it, cx| cx.maker(it)[4]),
        text("actor_comments").null().fixed().of(|it, cx| cx.maker(it)[5]),
        folded("external_key_folded").of(|it, cx| cx.folded(it.external_key.as_ref())),
    ],
    |cells| {
        let account = Account {
            tenant: cells.tenant()?,
            id: cells.entity()?,
            external_key: cells.opt_string()?,
            currency: cells.opt_currency()?,
            bill_cycle_day_local: {
                let day = u8::try_from(cells.int()?).ok().filter(|day| *day <= 31);
                day.ok_or_else(|| cells.corrupt("is no day of a month"))?
            },
            parent_account_id: cells.opt_entity()?,
            is_payment_delegated_to_parent: cells.flag()?,
            payment_method_id: cells.opt_entity()?,
            external_payment_method: cells.opt_entity()?,
            reference_time: cells.time()?,
            time_zone: cells.string()?,
            is_migrated: cells.opt_flag()?,
            created_at: cells.time()?,
            updated_at: cells.time()?,
            erased_at: cells.opt_time()?,
            revision: cells.revision()?,
        };
        Ok(account)
    },
)
.restored(|image, now| {
    if let Change::Account(AccountChange::Account(it)) = image {
        it.external_key.clone_from(&now.external_key);
        it.external_payment_method = now.external_payment_method;
    }
});

/// Personal data: a row for each revision of the account that changed it. The newest one holds.
pub static ACCOUNT_PERSON: Table = Table {
    name: "account_person",
    key_columns: 3,
    indexes: &[Index {
        only: Some("email IS NOT NULL"),
        ..index("account_person_by_folded_email", "tenant, coalesce(email_folded, lower(email))")
    }],
    exported: &["seq"],
    ..CHECKED
}
.of(&[
    int("tenant"),
    id("account_id"),
    int("seq"),
    text("name").null(),
    int("first_name_length").null(),
    text("email").null(),
    text("address1").null(),
    text("address2").null(),
    text("postal_code").null(),
    text("company").null(),
    text("city").null(),
    text("state").null(),
    text("country").null(),
    text("locale").null(),
    text("phone").null(),
    text("notes").null(),
    folded("name_folded"),
    folded("email_folded"),
    folded("company_folded"),
]);

pub(crate) fn person_row<'a>(
    (tenant, account, seq): (TenantNo, AccountId, Seq),
    it: &'a Person,
    folded: &'a [Option<String>; 3],
) -> [Value<'a>; 19] {
    let [name, email, company] = folded;
    [
        tenant.into(),
        account.into(),
        seq.into(),
        it.name.as_ref().into(),
        it.first_name_length.map(i64::from).into(),
        it.email.as_ref().into(),
        it.address1.as_ref().into(),
        it.address2.as_ref().into(),
        it.postal_code.as_ref().into(),
        it.company.as_ref().into(),
        it.city.as_ref().into(),
        it.state.as_ref().into(),
        it.country.as_ref().into(),
        it.locale.as_ref().into(),
        it.phone.as_ref().into(),
        it.notes.as_ref().into(),
        name.as_ref().into(),
        email.as_ref().into(),
        company.as_ref().into(),
    ]
}

/// Reads a row of [`ACCOUNT_PERSON`]: whose, from which revision on, and what.
pub(crate) fn person(cells: &mut Cells<'_>) -> Result<(AccountId, Seq, Person), StoreError> {
    cells.of(&ACCOUNT_PERSON);
    cells.skip(1);
    let (account, seq) = (cells.entity()?, cells.seq()?);
    let name = cells.opt_string()?;
    let first_name_length = match cells.opt_int()? {
        None => None,
        Some(length) => {
            Some(i32::try_from(length).map_err(|_| cells.corrupt("is too long a name"))?)
        }
    };
    let person = Person {
        name,
        first_name_length,
        email: cells.opt_string()?,
        address1: cells.opt_string()?,
        address2: cells.opt_string()?,
        postal_code: cells.opt_string()?,
        company: cells.opt_string()?,
        city: cells.opt_string()?,
        state: cells.opt_string()?,
        country: cells.opt_string()?,
        locale: cells.opt_string()?,
        phone: cells.opt_string()?,
        notes: cells.opt_string()?,
    };
    Ok((account, seq, person))
}

/// Further e-mail addresses of accounts, those that were removed too. `email` is NULL once the person is erased.
pub static ACCOUNT_EMAIL: TableOf<AccountEmail> = TableOf::<AccountEmail>::new(
    Table {
        name: "account_email",
        since: 3,
        indexes: &[index("account_email_by_account", "tenant, account_id, created_at_us")],
        exported: &["id"],
        history: Some("created_at_us, id"),
        ..CHECKED
    },
    &[
        int("tenant").of(|it, _| it.tenant.into()),
        id("id").of(|it, _| it.id.into()),
        id("account_id").fixed().of(|it, _| it.account.into()),
        text("email").erased().of(|it, _| erasable(&it.email)),
        int("active").of(|it, _| it.active.into()),
        int("created_at_us").fixed().of(|it, _| it.created_at.into()),
        int("seq").of(|it, _| it.revision.seq.into()),
    ],
    |cells| {
        Ok(AccountEmail {
            tenant: cells.tenant()?,
            id: cells.entity()?,
            account: cells.entity()?,
            email: cells.opt_string()?.unwrap_or_default(),
            active: cells.flag()?,
            created_at: cells.time()?,
            revision: cells.revision()?,
        })
    },
)
.parts(
    "WHERE tenant = ?1 AND account_id = ?2 AND active = 1 AND email IS NOT NULL \
     ORDER BY created_at_us, id",
)
.restored(|image, now| {
    if let Change::Account(AccountChange::Email(it)) = image {
        it.email.clone_from(&now.email);
    }
});

/// Which blocking states close accounts, or open them again.
pub(crate) const CLOSING: &str = "service = 'account-service'";

/// Blocking states of accounts, those that are no longer needed too.
pub static BLOCKING_STATE: TableOf<BlockingState> = TableOf::<BlockingState>::new(
    Table {
        name: "blocking_state",
        since: 4,
        indexes: &[
            index("blocking_state_by_account", "tenant, account_id, ordinal"),
            // Each account that is loaded is looked for here.
            only("blocking_state_closing", "tenant, account_id, ordinal", CLOSING),
        ],
        exported: &["ordinal"],
        history: Some("ordinal"),
        ..CLUSTERED
    },
    &[
        int("tenant").of(|it, _| it.tenant.into()),
        id("id").of(|it, _| it.id.into()),
        id("account_id").fixed().of(|it, _| it.account.into()),
        int("ordinal").fixed().of(|it, _| i64::from(it.ordinal).into()),
        text("service").fixed().of(|it, _| (&it.service).into()),
        text("name").fixed().of(|it, _| (&it.name).into()),
        int("blocks_change").fixed().of(|it, _| it.blocks.change.into()),
        int("blocks_entitlement").fixed().of(|it, _| it.blocks.entitlement.into()),
        int("blocks_billing").fixed().of(|it, _| it.blocks.billing.into()),
        int("effective_at_us").fixed().of(|it, _| it.effective_at.into()),
        int("active").of(|it, _| it.active.into()),
        int("created_at_us").fixed().of(|it, _| it.created_at.into()),
        id("bundle_id").null().fixed().added(22).of(|it, _| match it.of {
            Blockable::Bundle(id) => id.into(),
            Blockable::Account | Blockable::Subscription(_) => Value::Null,
        }),
        id("subscription_id").null().fixed().added(22).of(|it, _| match it.of {
            Blockable::Subscription(id) => id.into(),
            Blockable::Account | Blockable::Bundle(_) => Value::Null,
        }),
        int("seq").of(|it, _| it.revision.seq.into()),
    ],
    |cells| {
        let (tenant, id, account) = (cells.tenant()?, cells.entity()?, cells.entity()?);
        let ordinal = u32::try_from(cells.int()?).map_err(|_| cells.corrupt("is no ordinal"))?;
        Ok(BlockingState {
            tenant,
            id,
            account,
            ordinal,
            service: cells.string()?,
            name: cells.string()?,
            blocks: Blocks {
                change: cells.flag()?,
                entitlement: cells.flag()?,
                billing: cells.flag()?,
            },
            effective_at: cells.time()?,
            active: cells.flag()?,
            created_at: cells.time()?,
            of: match (cells.opt_entity()?, cells.opt_entity()?) {
                (Some(bundle), _) => Blockable::Bundle(bundle),
                (None, Some(subscription)) => Blockable::Subscription(subscription),
                (None, None) => Blockable::Account,
            },
            revision: cells.revision()?,
        })
    },
)
.parts("WHERE tenant = ?1 AND account_id = ?2 AND active = 1 ORDER BY effective_at_us, ordinal");

/// Entries of other systems' audit logs, of accounts and what belongs to them. They go with the account's person.
pub static AUDIT_IMPORTED: TableOf<AuditEntry> = TableOf::new(
    Table {
        name: "audit_imported",
        since: 7,
        key_columns: 3,
        indexes: &[index("audit_imported_by_account", "tenant, account_id, object_id, ordinal")],
        exported: &["object_id", "ordinal"],
        ..CHECKED
    },
    &[
        int("tenant").of(|it, _| it.tenant.into()),
        id("object_id").of(|it, _| it.entry.object.into()),
        int("ordinal").of(|it, _| i64::from(it.ordinal).into()),
        id("account_id").fixed().of(|it, _| it.account.into()),
        int("kind").fixed().of(|it, _| code(it.entry.kind).into()),
        int("at_us").fixed().of(|it, _| it.entry.at.into()),
        text("changed_by").fixed().of(|it, _| (&it.entry.changed_by).into()),
        text("reason").null().fixed().of(|it, _| it.entry.reason.as_ref().into()),
        text("comments").null().fixed().of(|it, _| it.entry.comments.as_ref().into()),
        id("token").fixed().of(|it, _| it.entry.token.into()),
    ],
    |cells| {
        let (tenant, object) = (cells.tenant()?, cells.id()?);
        let (ordinal, account) = (cells.count()?, cells.entity()?);
        let entry = ImportedAudit {
            object,
            kind: cells.code()?,
            at: cells.time()?,
            changed_by: cells.string()?,
            reason: cells.opt_string()?,
            comments: cells.opt_string()?,
            token: cells.id()?,
        };
        Ok(AuditEntry { tenant, account, ordinal, entry })
    },
);

/// The folded columns of a person: see [`WriteContext::folded`](crate::stored::WriteContext::folded).
pub(crate) fn folded_person(it: &Person) -> [Option<String>; 3] {
    [&it.name, &it.email, &it.company].map(|it| it.as_deref().and_then(folded_text))
}
