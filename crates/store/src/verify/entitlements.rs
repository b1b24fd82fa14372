//! Purchases against their payments, and what was granted against what was bought.

use std::sync::LazyLock;

use domain::entitlement::Entitlements;
use domain::entitlement::purchase::{Purchase, PurchaseStatus};
use domain::payment::{PaidFor, Payment};
use engine::ports::StoreError;

use super::{Report, each_row};
use crate::driver::{Load, Reader};
use crate::tables::{self, CLOSING, ENTITLEMENTS, PAYMENT, PURCHASE};

static PURCHASES: LazyLock<String> = LazyLock::new(|| PURCHASE.select("ORDER BY tenant, id"));
static PURCHASE_OF_GRANT: LazyLock<String> =
    LazyLock::new(|| PURCHASE.select("WHERE tenant = ?1 AND id = ?2"));
static PAYMENT_OF: LazyLock<String> =
    LazyLock::new(|| PAYMENT.select("WHERE tenant = ?1 AND id = ?2"));
static OF_ACCOUNT: LazyLock<String> =
    LazyLock::new(|| ENTITLEMENTS.select("WHERE tenant = ?1 AND account_id = ?2"));
static CLOSED: LazyLock<String> = LazyLock::new(|| {
    let of_account = "WHERE tenant = ?1 AND account_id = ?2";
    format!("SELECT 1 FROM blocking_state {of_account} AND {CLOSING} LIMIT 1")
});

pub(super) fn verify(reader: &Reader, report: &mut Report) -> Result<(), StoreError> {
    let mut payments = reader.load(&PAYMENT_OF)?;
    let mut entitled = reader.load(&OF_ACCOUNT)?;
    let mut closed = reader.load(&CLOSED)?;
    each_row(reader, report, (&PURCHASE, &PURCHASES), |cells, report| {
        let it = tables::PURCHASE.row(cells)?;
        let payment = payment_of(&it, &mut payments)?;
        let of_account = [it.tenant.into(), it.account_id.into()];
        let entitlements = entitled.first(&of_account, |cells| tables::ENTITLEMENTS.row(cells))?;
        // A closed account keeps what it paid for, and has nothing of it.
        let was_closed = closed.first(&of_account, |cells| cells.int())?.is_some();
        let mut problem = |what: &str| report.problem(PURCHASE.name, it.id, what);
        if it.terms.offer.price.is_some() && payment.is_none() {
            problem("is of a payment that is not there");
        }
        let expected = it.standing(payment.as_ref()).status();
        if !it.status.is_final() && it.status != expected {
            problem("is not where its payment stands");
        }
        if it.status == PurchaseStatus::Closed && !was_closed {
            problem("was paid for a closed account, which was never closed");
        }
        let granted = granted(&it, entitlements.as_ref());
        let is_over = |at: &Entitlements| it.until.is_some_and(|until| until <= at.changed_at);
        let may_lack = was_closed || entitlements.as_ref().is_some_and(is_over);
        if it.status == PurchaseStatus::Active && granted != it.terms.features.len() && !may_lack {
            problem("is paid, and not all that it gives was granted");
        }
        if it.from.is_none() && granted > 0 {
            problem("was never paid, and has grants");
        }
        if it.status.is_final() && granted > 0 {
            problem("grants nothing, and has grants");
        }
        Ok(())
    })?;
    let mut purchases = reader.load(&PURCHASE_OF_GRANT)?;
    each_row(reader, report, (&ENTITLEMENTS, &ENTITLEMENTS.select("")), |cells, report| {
        let it = tables::ENTITLEMENTS.row(cells)?;
        for grant in &it.grants {
            let Some(id) = grant.purchase() else { continue };
            let bought = purchases
                .first(&[it.tenant.into(), id.into()], |cells| tables::PURCHASE.row(cells))?;
            if bought.is_none_or(|bought| bought.account_id != it.account_id) {
                let what = format!("has a grant of the purchase {id}, which is not the account's");
                report.problem(ENTITLEMENTS.name, it.account_id, what);
            }
        }
        Ok(())
    })
}

fn payment_of(it: &Purchase, load: &mut Load<'_>) -> Result<Option<Payment>, StoreError> {
    let Some(id) = it.payment_id else { return Ok(None) };
    let payment = load.first(&[it.tenant.into(), id.into()], |cells| tables::PAYMENT.row(cells))?;
    Ok(payment.filter(|payment| payment.paid_for == Some(PaidFor::Purchase(it.id))))
}

/// How many grants an account has of a purchase.
fn granted(it: &Purchase, entitlements: Option<&Entitlements>) -> usize {
    let all = entitlements.map_or(&[][..], |it| &it.grants);
    all.iter().filter(|grant| grant.purchase() == Some(it.id)).count()
}
