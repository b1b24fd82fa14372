//! Reads of what accounts used.

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use domain::entitlement::usage::{Reservation, Usage};
use domain::{AccountId, ReservationId, Seq, TenantNo};
use engine::ports::{Checked, Page, StoreError, UsageQueries};

use super::entitlements::SELECT_ENTITLEMENTS;
use super::{SqlQueries, window};
use crate::driver::Value;
use crate::load::usage::{SELECT_NEWEST, SELECT_RESERVATION};
use crate::tables::{self, FEATURE_USAGE};

static SELECT_PAGE: LazyLock<String> = LazyLock::new(|| {
    let of_feature = "WHERE tenant = ?1 AND account_id = ?4 AND feature = ?5";
    let newest_first = "ORDER BY period_end_us DESC, resets DESC LIMIT ?2 OFFSET ?3";
    FEATURE_USAGE.select(&format!("{of_feature} {newest_first}"))
});

/// The accounts whose usage changed, by the rows of their changes.
const SELECT_CHANGED: &str = "SELECT seq, account_id FROM feature_usage \
                              WHERE seq > ?1 AND seq < ?2 ORDER BY seq LIMIT ?3";

impl UsageQueries for SqlQueries {
    fn usage_now(
        &self,
        no: TenantNo,
        account: AccountId,
        features: &[&str],
    ) -> Result<Vec<Usage>, StoreError> {
        let keys: Vec<[Value<'_>; 3]> =
            features.iter().map(|it| [no.into(), account.into(), (*it).into()]).collect();
        let mut found = vec![];
        self.read(|reader| {
            found.clear();
            reader.for_keys(&SELECT_NEWEST, &keys, |_, cells| {
                found.push(tables::FEATURE_USAGE.row(cells)?);
                Ok(())
            })
        })?;
        Ok(found)
    }

    fn checked(
        &self,
        asked: &[(TenantNo, AccountId, String)],
    ) -> Result<Vec<Arc<Checked>>, StoreError> {
        // One read: what is used goes with what was granted, and a file is locked once.
        self.snapshot(|reader| {
            let none =
                || Checked { is_feature: false, zone: None, entitlements: None, usage: vec![] };
            let mut found: Vec<Checked> = asked.iter().map(|_| none()).collect();
            let features: BTreeSet<(TenantNo, &str)> =
                asked.iter().map(|(no, _, feature)| (*no, feature.as_str())).collect();
            let keys: Vec<[Value<'_>; 2]> =
                features.iter().map(|(no, key)| [(*no).into(), (*key).into()]).collect();
            let features: Vec<(TenantNo, &str)> = features.into_iter().collect();
            reader.for_keys(
                "SELECT version FROM feature WHERE tenant = ?1 AND key = ?2",
                &keys,
                |at, _| {
                    let same = asked.iter().map(|(no, _, key)| (*no, key.as_str()) == features[at]);
                    let same = found.iter_mut().zip(same).filter(|(_, is_same)| *is_same);
                    same.for_each(|(it, _)| it.is_feature = true);
                    Ok(())
                },
            )?;
            let keys: Vec<[Value<'_>; 2]> =
                asked.iter().map(|(no, account, _)| [(*no).into(), (*account).into()]).collect();
            reader.for_keys(
                "SELECT time_zone FROM account WHERE tenant = ?1 AND id = ?2",
                &keys,
                |at, cells| {
                    found[at].zone = Some(cells.string()?);
                    Ok(())
                },
            )?;
            reader.for_keys(&SELECT_ENTITLEMENTS, &keys, |at, cells| {
                found[at].entitlements = Some(tables::ENTITLEMENTS.row(cells)?);
                Ok(())
            })?;
            let keys: Vec<[Value<'_>; 3]> = asked
                .iter()
                .map(|(no, account, feature)| [(*no).into(), (*account).into(), feature.into()])
                .collect();
            reader.for_keys(&SELECT_NEWEST, &keys, |at, cells| {
                found[at].usage.push(tables::FEATURE_USAGE.row(cells)?);
                Ok(())
            })?;
            Ok(found.into_iter().map(Arc::new).collect())
        })
    }

    fn usage(
        &self,
        no: TenantNo,
        account: AccountId,
        feature: &str,
        page: Page,
    ) -> Result<Vec<Usage>, StoreError> {
        let [limit, offset] = window::limit_offset(page);
        let parameters = [no.into(), limit, offset, account.into(), feature.into()];
        self.read(|reader| {
            reader.query(&SELECT_PAGE, &parameters, |cells| tables::FEATURE_USAGE.row(cells))
        })
    }

    fn usage_changed(&self, after: Seq, limit: usize) -> Result<Vec<(Seq, AccountId)>, StoreError> {
        let end = after.partition().end();
        let parameters = [after.into(), end.into(), window::limit(limit as u64)];
        self.read(|reader| {
            reader.query(SELECT_CHANGED, &parameters, |cells| Ok((cells.seq()?, cells.entity()?)))
        })
    }

    fn reservation(
        &self,
        no: TenantNo,
        account: AccountId,
        id: ReservationId,
    ) -> Result<Option<Reservation>, StoreError> {
        let key = [no.into(), account.into(), id.into()];
        self.read(|reader| {
            reader
                .query_one(&SELECT_RESERVATION, &key, |cells| tables::USAGE_RESERVATION.row(cells))
        })
    }
}
