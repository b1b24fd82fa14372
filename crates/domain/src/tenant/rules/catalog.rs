//! Versions of a tenant's catalog: how they are added and withdrawn.

use std::sync::Arc;

use crate::change::TenantChange;
use crate::context::Context;
use crate::reply::Outcome;
use crate::state::State;
use crate::tenant::CATALOG;
use crate::tenant::catalog::{
    CatalogText, CatalogVersion, UploadCatalog, VERSIONS_BYTES_MAX, VERSIONS_MAX,
};
use crate::{
    Accepted, CatalogVersionId, Event, Rejection, Reply, Revision, TenantRejection, TenantValueId,
};

pub(crate) fn upload(state: &State, it: &UploadCatalog, cx: &mut Context) -> Outcome {
    let known = || state.catalog_versions(cx.tenant).values();
    let sold = || known().filter(|version| !version.is_withdrawn);
    // Another upload may have come first since the API compared them.
    if sold().any(|version| version.effective_at == it.catalog.effective_at) {
        return Err(conflict("its effective date is that of another version"));
    }
    if sold().any(|version| version.catalog.name != it.catalog.name) {
        return Err(conflict("its name is another than that of the other versions"));
    }
    if sold().count() >= VERSIONS_MAX {
        return Err(conflict("there are 100 versions already"));
    }
    let bytes = it.text.len() as u64;
    if known().map(|version| version.bytes).sum::<u64>() + bytes > VERSIONS_BYTES_MAX {
        return Err(conflict("the tenant's versions would have more than 16 MiB"));
    }
    let id = cx.mint();
    cx.change(TenantChange::CatalogText(CatalogText {
        tenant: cx.tenant,
        id,
        text: it.text.clone(),
    }));
    cx.change(TenantChange::CatalogVersion(CatalogVersion {
        tenant: cx.tenant,
        id,
        effective_at: it.catalog.effective_at,
        is_withdrawn: false,
        bytes,
        catalog: Arc::new((*it.catalog).clone()),
        revision: Revision::first(cx.seq),
    }));
    cx.event(Event::TenantConfigChanged { value: value(id), key: CATALOG.to_owned() });
    Ok(Accepted::now(Reply::Done))
}

/// Nothing more is sold. Subscriptions go on.
pub(crate) fn withdraw(state: &State, cx: &mut Context) -> Outcome {
    let sold = state.catalog_versions(cx.tenant).values().filter(|it| !it.is_withdrawn);
    let sold: Vec<CatalogVersion> = sold.cloned().collect();
    let Some(first) = sold.first().map(|it| it.id) else { return Ok(Accepted::now(Reply::Done)) };
    for version in sold {
        let revision = version.revision.next(cx.seq);
        let it = CatalogVersion { is_withdrawn: true, revision, ..version };
        cx.change(TenantChange::CatalogVersion(it));
    }
    cx.event(Event::TenantConfigDeleted { value: value(first), key: CATALOG.to_owned() });
    Ok(Accepted::now(Reply::Done))
}

/// The version as the object of its event.
const fn value(version: CatalogVersionId) -> TenantValueId {
    TenantValueId::new(version.uuid())
}

fn conflict(reason: &str) -> Rejection {
    TenantRejection::CatalogRefused { reason: reason.to_owned() }.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Catalog;
    use crate::command::TenantCommand;
    use crate::testing::Rows;
    use crate::{Command, Timestamp};

    fn upload(rows: &mut Rows, name: &str, at: i64) -> Result<(), String> {
        let catalog =
            Catalog { name: name.to_owned(), effective_at: Timestamp(at), ..Catalog::default() };
        let it = UploadCatalog { text: "<catalog/>".to_owned(), catalog: Box::new(catalog) };
        let command = Command::Tenant(TenantCommand::UploadCatalog(it));
        rows.run(command).map(drop).map_err(|it| it.to_string())
    }

    #[test]
    fn a_version_has_a_date_of_its_own_and_the_name_of_the_others() {
        let mut rows = Rows::new();
        assert_eq!(upload(&mut rows, "Gold", 1), Ok(()));
        assert_eq!(upload(&mut rows, "Gold", 2), Ok(()));
        let taken = "the catalog is refused: its effective date is that of another version";
        assert_eq!(upload(&mut rows, "Gold", 2), Err(taken.to_owned()));
        let other = "the catalog is refused: its name is another than that of the other versions";
        assert_eq!(upload(&mut rows, "Silver", 3), Err(other.to_owned()));
        rows.run(Command::Tenant(TenantCommand::WithdrawCatalog)).unwrap();
        assert_eq!(upload(&mut rows, "Silver", 2), Ok(()));
    }

    #[test]
    fn there_are_100_versions_at_most() {
        let mut rows = Rows::new();
        (0..100).for_each(|at| assert_eq!(upload(&mut rows, "Gold", at), Ok(())));
        let full = "the catalog is refused: there are 100 versions already";
        assert_eq!(upload(&mut rows, "Gold", 100), Err(full.to_owned()));
    }
}
