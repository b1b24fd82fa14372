//! Accounts out of service: a command of theirs could not be carried out, and until an operator has looked,
//! what comes next might build on something wrong.

use std::collections::BTreeSet;

use domain::{AccountId, Event, Request, TenantNo, Timestamp};

use crate::ports::{Bookkeeping, Entry, QuarantineReason, Quarantined};

/// The accounts of a partition that are out of service.
#[derive(Debug, Default)]
pub(super) struct Quarantine {
    accounts: BTreeSet<(TenantNo, AccountId)>,
    /// Those of them that no commit has written yet.
    unwritten: Vec<Quarantined>,
}

impl Quarantine {
    pub(super) fn of(accounts: BTreeSet<(TenantNo, AccountId)>) -> Self {
        Self { accounts, unwritten: vec![] }
    }

    /// Takes over what the database holds; what it does not hold yet stays.
    pub(super) fn reload(&mut self, stored: BTreeSet<(TenantNo, AccountId)>) {
        self.unwritten.retain(|it| !stored.contains(&(it.tenant, it.account)));
        self.accounts = stored;
        self.accounts.extend(self.unwritten.iter().map(|it| (it.tenant, it.account)));
    }

    pub(super) fn has(&self, tenant: TenantNo, account: Option<AccountId>) -> bool {
        account.is_some_and(|account| self.accounts.contains(&(tenant, account)))
    }

    /// Takes the account of a command out of service. `error` is for the log.
    pub(super) fn add(
        &mut self,
        (request, account): (&Request, Option<AccountId>),
        (reason, error): (QuarantineReason, Option<&str>),
        now: Timestamp,
    ) {
        let (tenant, command) = (request.tenant, request.command.name());
        tracing::error!(
            request.id = %request.id.0,
            tenant = tenant.0,
            account = ?account,
            command,
            error,
            reason = reason.label(),
            "a command cannot be carried out: it is parked and its account quarantined"
        );
        let Some(account) = account else { return };
        if self.accounts.insert((tenant, account)) {
            let (since, request, command) = (now, request.id, command.to_owned());
            self.unwritten.push(Quarantined { tenant, account, since, request, command, reason });
        }
    }

    /// The quarantined accounts that the next commit has to write.
    pub(super) fn to_write(&self) -> impl Iterator<Item = Bookkeeping> {
        self.unwritten.iter().cloned().map(Bookkeeping::Quarantined)
    }

    /// That commit is durable, with these entries.
    pub(super) fn committed(&mut self, entries: &[Entry]) {
        self.unwritten.clear();
        for entry in entries {
            for event in &entry.events {
                if let Event::AccountReleased { account } = event {
                    self.accounts.remove(&(entry.tenant, *account));
                }
            }
        }
    }
}
