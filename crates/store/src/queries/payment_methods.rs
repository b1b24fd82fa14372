//! Reads of payment methods, each with whether it is its account's default.

use std::sync::LazyLock;

use domain::claim::ClaimKind;
use domain::{AccountId, PaymentMethodId, TenantNo};
use engine::ports::{GatewayPage, MethodView, Page, Paged, PaymentMethodQueries, StoreError};
use uuid::Uuid;

use super::payments::of_gateway;
use super::window::{Key, MATCHES_MAX};
use super::{SqlQueries, window};
use crate::driver::{Cells, Reader, Value};
use crate::tables;
use crate::totals::Counted;

impl PaymentMethodQueries for SqlQueries {
    fn payment_method(
        &self,
        no: TenantNo,
        id: PaymentMethodId,
    ) -> Result<Option<MethodView>, StoreError> {
        self.read(|reader| by_id(reader, no, id))
    }

    fn payment_method_by_key(
        &self,
        no: TenantNo,
        key: &str,
    ) -> Result<Option<MethodView>, StoreError> {
        let key = &self.seek(no, ClaimKind::PaymentMethod, key);
        self.snapshot(|reader| by_key(reader, key))
    }

    fn payment_methods_of(
        &self,
        no: TenantNo,
        account: AccountId,
    ) -> Result<Vec<MethodView>, StoreError> {
        self.read(|reader| {
            static SQL: LazyLock<String> = LazyLock::new(|| {
                select("payment_method", "WHERE m.tenant = ?1 AND m.account_id = ?2 ORDER BY m.id")
            });
            reader.query(&SQL, &[no.into(), account.into()], view)
        })
    }

    fn payment_methods(
        &self,
        no: TenantNo,
        GatewayPage { gateway, page }: GatewayPage<'_>,
    ) -> Result<Paged<MethodView>, StoreError> {
        self.snapshot(|reader| {
            static ALL: LazyLock<String> = LazyLock::new(|| {
                let window = "WHERE tenant = ?1 AND active = 1 ORDER BY id LIMIT ?2 OFFSET ?3";
                let window = tables::PAYMENT_METHOD.select(window);
                select(&format!("({window})"), "ORDER BY m.id")
            });
            static OF_GATEWAY: LazyLock<String> = LazyLock::new(|| {
                let methods = select("payment_method", "");
                format!(
                    "{methods} JOIN (SELECT tenant, id FROM payment_method \
                     WHERE tenant = ?1 AND gateway = ?4 AND active = 1 ORDER BY id LIMIT ?2 OFFSET ?3) w \
                     ON w.tenant = m.tenant AND w.id = m.id ORDER BY m.id"
                )
            });
            let [limit, offset] = window::limit_offset(page);
            let all = window::total(reader, no, Counted::PaymentMethods, None)?;
            let Some(gateway) = gateway else {
                let items = reader.query(&ALL, &[no.into(), limit, offset], view)?;
                return Ok(Paged { items, matching: all, all });
            };
            let items =
                reader.query(&OF_GATEWAY, &[no.into(), limit, offset, gateway.into()], view)?;
            let matching = window::total(reader, no, Counted::PaymentMethods, Some(gateway))?;
            Ok(Paged { items, matching, all })
        })
    }

    fn payment_methods_named(
        &self,
        no: TenantNo,
        text: &str,
        GatewayPage { gateway, page }: GatewayPage<'_>,
    ) -> Result<Paged<MethodView>, StoreError> {
        let key = &self.seek(no, ClaimKind::PaymentMethod, text);
        self.snapshot(|reader| {
            let of = active_of(gateway);
            let sql = format!(
                "{of} AND id = ?3 UNION {of} AND account_id = ?3 UNION {of} AND id = ?4 \
                 ORDER BY 1 LIMIT ?5"
            );
            let by_key = by_key(reader, key)?.map(|it| it.method.id);
            let id = Uuid::try_parse(text).ok();
            let gateway = gateway.unwrap_or_default().into();
            let parameters = [no.into(), gateway, id.into(), by_key.into(), MATCHES_MAX.into()];
            found(reader, no, (&sql, &parameters), page)
        })
    }

    fn has_method_at_gateway(
        &self,
        no: TenantNo,
        gateway: &str,
        external_id: &str,
        except: PaymentMethodId,
    ) -> Result<bool, StoreError> {
        // The condition of the index is repeated, so that the database takes it.
        const SQL: &str = "SELECT 1 FROM payment_method WHERE tenant = ?1 \
            AND external_payment_method_id = ?2 AND external_payment_method_id IS NOT NULL \
            AND active = 1 AND gateway = ?3 AND id <> ?4 LIMIT 1";
        self.read(|reader| {
            let parameters = [no.into(), external_id.into(), gateway.into(), except.into()];
            Ok(reader.query_one(SQL, &parameters, |cells| cells.int())?.is_some())
        })
    }

    fn search_payment_methods(
        &self,
        no: TenantNo,
        text: &str,
        GatewayPage { gateway, page }: GatewayPage<'_>,
    ) -> Result<Paged<MethodView>, StoreError> {
        self.snapshot(|reader| {
            let of = active_of(gateway);
            let key = window::like("external_key", 3);
            let sql = format!(
                "{of} AND id = ?4 UNION {of} AND account_id = ?4 \
                 UNION {of} AND {key} ORDER BY 1 LIMIT ?5"
            );
            let (pattern, id) = (window::containing(text), Uuid::try_parse(text).ok());
            let gateway = gateway.unwrap_or_default().into();
            let parameters = [no.into(), gateway, (&pattern).into(), id.into(), MATCHES_MAX.into()];
            found(reader, no, (&sql, &parameters), page)
        })
    }
}

static BY_ID: LazyLock<String> =
    LazyLock::new(|| select("payment_method", "WHERE m.tenant = ?1 AND m.id = ?2"));

/// `SELECT` of payment methods out of `from`, each with its account's default; `rest` follows.
fn select(from: &str, rest: &str) -> String {
    let methods = tables::PAYMENT_METHOD.select_list("m.");
    format!(
        "SELECT {methods}, a.payment_method_id FROM {from} m \
         JOIN account a ON a.tenant = m.tenant AND a.id = m.account_id {rest}"
    )
}

/// `SELECT` of the ids of the active payment methods of a gateway, or of all.
fn active_of(gateway: Option<&str>) -> String {
    let of_gateway = of_gateway(gateway);
    format!("SELECT id FROM payment_method WHERE tenant = ?1{of_gateway} AND active = 1")
}

/// The payment methods that a search finds.
fn found(
    reader: &Reader,
    no: TenantNo,
    search: (&str, &[Value<'_>]),
    page: Page,
) -> Result<Paged<MethodView>, StoreError> {
    let all = window::total(reader, no, Counted::PaymentMethods, None)?;
    window::find(reader, search, page, all, |id| by_id(reader, no, PaymentMethodId::new(id)))
}

fn by_key(reader: &Reader, key: &Key<'_>) -> Result<Option<MethodView>, StoreError> {
    let Some((id, external_key)) = key.named(reader)? else { return Ok(None) };
    let found = by_id(reader, key.tenant, PaymentMethodId::new(id))?;
    Ok(found.filter(|it| it.method.external_key.as_deref() == external_key))
}

fn view(cells: &mut Cells<'_>) -> Result<MethodView, StoreError> {
    let method = tables::PAYMENT_METHOD.row(cells)?;
    let default: Option<PaymentMethodId> = cells.opt_entity()?;
    let is_default = default == Some(method.id);
    Ok(MethodView { method, is_default })
}

pub(super) fn by_id(
    reader: &Reader,
    no: TenantNo,
    id: PaymentMethodId,
) -> Result<Option<MethodView>, StoreError> {
    reader.query_one(&BY_ID, &[no.into(), id.into()], view)
}
