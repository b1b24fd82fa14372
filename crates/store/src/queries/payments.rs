//! Reads of payments, each with its transactions.

use std::sync::LazyLock;

use domain::claim::ClaimKind;
use domain::payment::attempt::PaymentAttempt;
use domain::payment::{Payment, PaymentFile, PaymentState, TransactionStatus, TransactionType};
use domain::{AccountId, AttemptId, PaymentId, TenantNo, TransactionId};
use engine::ports::{GatewayPage, Page, Paged, PaymentQueries, ROWS_MAX, StoreError};
use uuid::Uuid;

use super::window::{Key, MATCHES_MAX};
use super::{SqlQueries, ledger, window};
use crate::codes::code;
use crate::driver::{Reader, Value};
use crate::tables;
use crate::totals::Counted;

impl PaymentQueries for SqlQueries {
    fn payment(&self, no: TenantNo, id: PaymentId) -> Result<Option<PaymentFile>, StoreError> {
        self.snapshot(|reader| by_id(reader, no, id))
    }

    fn payment_account(
        &self,
        no: TenantNo,
        id: PaymentId,
    ) -> Result<Option<AccountId>, StoreError> {
        self.read(|reader| {
            ledger::account_of(reader, ledger::ACCOUNT_OF_PAYMENT, [no.into(), id.into()])
        })
    }

    fn payment_by_key(&self, no: TenantNo, key: &str) -> Result<Option<PaymentFile>, StoreError> {
        let key = self.seek(no, ClaimKind::Payment, key);
        self.snapshot(|reader| by_key(reader, &key))
    }

    fn payment_of_transaction(
        &self,
        no: TenantNo,
        id: TransactionId,
    ) -> Result<Option<PaymentFile>, StoreError> {
        self.snapshot(|reader| of_transaction(reader, no, id))
    }

    fn payment_of_transaction_key(
        &self,
        no: TenantNo,
        key: &str,
    ) -> Result<Option<PaymentFile>, StoreError> {
        let key = &self.seek(no, ClaimKind::Transaction, key);
        self.snapshot(|reader| {
            let found = match key.claim(reader)? {
                Some(claim) => by_id(reader, key.tenant, PaymentId::new(claim.owner))?,
                None => match window::spelled_id(key.text) {
                    Some(id) => of_transaction(reader, key.tenant, TransactionId::new(id))?,
                    None => None,
                },
            };
            Ok(found.filter(|file| file.named(key.text).next().is_some()))
        })
    }

    fn payment_attempts(
        &self,
        no: TenantNo,
        payment: PaymentId,
    ) -> Result<Vec<PaymentAttempt>, StoreError> {
        self.read(|reader| {
            // By the payment's index alone, as they are loaded.
            static SQL: LazyLock<String> = LazyLock::new(|| {
                tables::PAYMENT_ATTEMPT
                    .select("WHERE payment_id = ?2 AND tenant + 0 = ?1 ORDER BY id LIMIT ?3")
            });
            let limit = i64::try_from(ROWS_MAX).unwrap_or(i64::MAX).into();
            reader.query(&SQL, &[no.into(), payment.into(), limit], |cells| {
                tables::PAYMENT_ATTEMPT.row(cells)
            })
        })
    }

    fn payment_attempt(
        &self,
        no: TenantNo,
        id: AttemptId,
    ) -> Result<Option<PaymentAttempt>, StoreError> {
        self.read(|reader| {
            static SQL: LazyLock<String> =
                LazyLock::new(|| tables::PAYMENT_ATTEMPT.select("WHERE tenant = ?1 AND id = ?2"));
            reader.query_one(&SQL, &[no.into(), id.into()], |cells| {
                tables::PAYMENT_ATTEMPT.row(cells)
            })
        })
    }

    fn payments_of(
        &self,
        no: TenantNo,
        account: AccountId,
        page: Page,
    ) -> Result<Vec<PaymentFile>, StoreError> {
        self.snapshot(|reader| {
            static SQL: LazyLock<String> = LazyLock::new(|| {
                tables::PAYMENT
                    .select("WHERE tenant = ?1 AND account_id = ?2 ORDER BY id LIMIT ?3 OFFSET ?4")
            });
            let [limit, offset] = window::limit_offset(page);
            let payments =
                reader.query(&SQL, &[no.into(), account.into(), limit, offset], |cells| {
                    tables::PAYMENT.row(cells)
                })?;
            files(reader, payments)
        })
    }

    fn payments(
        &self,
        no: TenantNo,
        GatewayPage { gateway, page }: GatewayPage<'_>,
    ) -> Result<Paged<PaymentFile>, StoreError> {
        self.snapshot(|reader| {
            static ALL: LazyLock<String> = LazyLock::new(|| {
                tables::PAYMENT.select("WHERE tenant = ?1 ORDER BY id LIMIT ?2 OFFSET ?3")
            });
            // The window is one on the index: rows that are skipped are not fetched.
            static OF_GATEWAY: LazyLock<String> = LazyLock::new(|| {
                let columns = tables::PAYMENT.select_list("p.");
                format!(
                    "SELECT {columns} FROM (SELECT tenant, id FROM payment \
                     WHERE tenant = ?1 AND gateway = ?4 ORDER BY id LIMIT ?2 OFFSET ?3) w \
                     JOIN payment p ON p.tenant = w.tenant AND p.id = w.id ORDER BY p.id"
                )
            });
            let [limit, offset] = window::limit_offset(page);
            let all = window::total(reader, no, Counted::Payments, None)?;
            let (payments, matching) = match gateway {
                None => (
                    reader.query(&ALL, &[no.into(), limit, offset], |cells| {
                        tables::PAYMENT.row(cells)
                    })?,
                    all,
                ),
                Some(gateway) => {
                    let parameters = [no.into(), limit, offset, gateway.into()];
                    let payments = reader
                        .query(&OF_GATEWAY, &parameters, |cells| tables::PAYMENT.row(cells))?;
                    (payments, window::total(reader, no, Counted::Payments, Some(gateway))?)
                }
            };
            Ok(Paged { items: files(reader, payments)?, matching, all })
        })
    }

    fn payments_named(
        &self,
        no: TenantNo,
        text: &str,
        GatewayPage { gateway, page }: GatewayPage<'_>,
    ) -> Result<Paged<PaymentFile>, StoreError> {
        let key = &self.seek(no, ClaimKind::Payment, text);
        self.snapshot(|reader| {
            let no = key.tenant;
            let of = format!("SELECT id FROM payment WHERE tenant = ?1{}", of_gateway(gateway));
            let sql = format!(
                "{of} AND id = ?3 UNION {of} AND account_id = ?3 UNION {of} AND id = ?4 \
                 ORDER BY 1 LIMIT ?5"
            );
            let by_key = by_key(reader, key)?.map(|file| file.payment.id);
            let id = Uuid::try_parse(key.text).ok();
            let gateway = gateway.unwrap_or_default().into();
            let parameters = [no.into(), gateway, id.into(), by_key.into(), MATCHES_MAX.into()];
            found(reader, no, (&sql, &parameters), page)
        })
    }

    fn search_payments(
        &self,
        no: TenantNo,
        text: &str,
        GatewayPage { gateway, page }: GatewayPage<'_>,
    ) -> Result<Paged<PaymentFile>, StoreError> {
        self.snapshot(|reader| {
            let of = format!("SELECT id FROM payment WHERE tenant = ?1{}", of_gateway(gateway));
            let sql = format!(
                "{of} AND lower(external_key) LIKE ?3 ESCAPE '\\' \
                 UNION {of} AND payment_method_id = ?4 ORDER BY 1 LIMIT ?5"
            );
            let (pattern, id) = (window::containing_as_written(text), Uuid::try_parse(text).ok());
            let gateway = gateway.unwrap_or_default().into();
            let parameters = [no.into(), gateway, (&pattern).into(), id.into(), MATCHES_MAX.into()];
            found(reader, no, (&sql, &parameters), page)
        })
    }

    fn payments_in_state(
        &self,
        no: TenantNo,
        states: &[PaymentState],
        GatewayPage { gateway, page }: GatewayPage<'_>,
    ) -> Result<Paged<PaymentFile>, StoreError> {
        self.snapshot(|reader| {
            let of_gateway = of_gateway(gateway);
            let mut parameters =
                vec![no.into(), gateway.unwrap_or_default().into(), MATCHES_MAX.into()];
            // Of no states, none.
            let mut ranges = vec!["SELECT id FROM payment WHERE 1 = 0".to_owned()];
            for state in states {
                let at = parameters.len();
                let only = if is_rare(*state) { tables::IN_RARE_STATE } else { "1 = 1" };
                ranges.push(format!(
                    "SELECT id FROM payment WHERE tenant = ?1{of_gateway} AND {only} \
                     AND operation = ?{} AND status = ?{}",
                    at + 1,
                    at + 2
                ));
                parameters.push(code(state.operation).into());
                parameters.push(code(state.status).into());
            }
            let sql = format!("{} ORDER BY id LIMIT ?3", ranges.join(" UNION ALL "));
            found(reader, no, (&sql, &parameters), page)
        })
    }
}

static BY_ID: LazyLock<String> =
    LazyLock::new(|| tables::PAYMENT.select("WHERE tenant = ?1 AND id = ?2"));
static TRANSACTIONS: LazyLock<String> =
    LazyLock::new(|| tables::PAYMENT_TRANSACTION.select("WHERE tenant = ?1 AND payment_id = ?2"));

/// The payments with their transactions, oldest first: a range of one key for each payment.
fn files(reader: &Reader, payments: Vec<Payment>) -> Result<Vec<PaymentFile>, StoreError> {
    let mut load = reader.load(&TRANSACTIONS)?;
    let mut files = Vec::with_capacity(payments.len());
    for payment in payments {
        let mut opened = Vec::with_capacity(1);
        load.rows(&[payment.tenant.into(), payment.id.into()], &mut |cells| {
            opened.push(tables::opened_transaction(cells)?);
            Ok(())
        })?;
        opened.sort_by_key(|(opened_seq, it)| (*opened_seq, it.effective_at));
        let transactions = opened.into_iter().map(|(_, transaction)| transaction).collect();
        files.push(PaymentFile { payment, transactions });
    }
    Ok(files)
}

pub(super) fn by_id(
    reader: &Reader,
    no: TenantNo,
    id: PaymentId,
) -> Result<Option<PaymentFile>, StoreError> {
    let payment =
        reader.query_one(&BY_ID, &[no.into(), id.into()], |cells| tables::PAYMENT.row(cells))?;
    Ok(files(reader, payment.into_iter().collect())?.pop())
}

pub(super) fn by_key(reader: &Reader, key: &Key<'_>) -> Result<Option<PaymentFile>, StoreError> {
    let Some((id, external_key)) = key.named(reader)? else { return Ok(None) };
    let found = by_id(reader, key.tenant, PaymentId::new(id))?;
    Ok(found.filter(|it| it.payment.external_key.as_deref() == external_key))
}

pub(super) fn of_transaction(
    reader: &Reader,
    no: TenantNo,
    id: TransactionId,
) -> Result<Option<PaymentFile>, StoreError> {
    let sql = "SELECT payment_id FROM payment_transaction WHERE tenant = ?1 AND id = ?2";
    let payment = reader.query_one(sql, &[no.into(), id.into()], |cells| cells.entity())?;
    payment.map_or(Ok(None), |payment| by_id(reader, no, payment))
}

/// A condition that the second parameter is the gateway, or one that names it and is true.
pub(super) const fn of_gateway(gateway: Option<&str>) -> &'static str {
    match gateway {
        Some(_) => " AND gateway = ?2",
        None => " AND ?2 = ''",
    }
}

/// Whether an index has the payments in a state: see [`tables::IN_RARE_STATE`].
const fn is_rare(state: PaymentState) -> bool {
    match (state.status, state.operation) {
        (
            TransactionStatus::InFlight | TransactionStatus::Success,
            TransactionType::Authorize | TransactionType::Capture | TransactionType::Purchase,
        ) => false,
        (
            TransactionStatus::InFlight
            | TransactionStatus::Success
            | TransactionStatus::Pending
            | TransactionStatus::PaymentFailure
            | TransactionStatus::PluginFailure
            | TransactionStatus::Unknown,
            _,
        ) => true,
    }
}

/// The payments that a search finds.
fn found(
    reader: &Reader,
    no: TenantNo,
    search: (&str, &[Value<'_>]),
    page: Page,
) -> Result<Paged<PaymentFile>, StoreError> {
    let all = window::total(reader, no, Counted::Payments, None)?;
    window::find(reader, search, page, all, |id| by_id(reader, no, PaymentId::new(id)))
}
