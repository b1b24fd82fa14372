//! Searches compare the letters of all scripts without case, on each database.

use domain::{Person, TenantNo};
use engine::ports::{AccountQueries as _, Page};
use store::{Options, SqlStore};

use crate::commits::two_tenants;
use crate::home::Home;
use crate::workload::{create_account, person};

const ALL: Page = Page { offset: 0, limit: u64::MAX };

/// A search on this store, whichever database it has.
pub fn a_search_folds_the_letters_of_all_scripts(open: impl Fn() -> SqlStore) {
    let mut workload = two_tenants(open(), 7);
    for name in ["ИВАНОВ Пётр", "Ada"] {
        let person = Person { email: Some(format!("{name}@Österreich.example")), ..person(name) };
        workload.accepted(TenantNo(1), create_account(None, person));
    }
    drop(workload);
    let queries = open().queries(1).unwrap();
    let found = |text: &str| queries.search_accounts(TenantNo(1), text, ALL).unwrap().matching;
    assert_eq!((found("иванов"), found("ÖSTERREICH"), found("ada@"), found("петр")), (1, 2, 1, 0));
    let named = |text: &str| queries.accounts_named(TenantNo(1), text, ALL).unwrap().matching;
    assert_eq!((named("ADA@ÖSTERREICH.example"), named("иванов")), (1, 0));
}

#[test]
fn a_search_of_the_embedded_database_folds_the_letters_of_all_scripts() {
    let home = Home::new();
    a_search_folds_the_letters_of_all_scripts(|| home.open(&Options::DEFAULT));
}
