//! Where an import writes: a core, through commands that no API has.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use domain::access::{CreateUser, PutRole};
use domain::command::{AccessCommand, AccountCommand, PaymentCommand, TenantCommand};
use domain::import::{ImportPayment, ImportTagDefinition, ImportedTransaction};
use domain::payment::{Actor, PaymentFile, Transaction, TransactionStatus, TransactionType};
use domain::tenant::CreateTenant;
use domain::{
    AccountId, AmountMinor, Command, PaymentId, Rejection, Reply, Request, TenantNo, TransactionId,
};
use engine::access::Access;
use engine::partition::Answer;
use engine::ports::{Page, ROWS_BESIDE_OTHERS_MAX};
use engine::{Engine, Reason};
use import::{Found, FoundPayment};
use server::node::Node;

use super::Credentials;
use super::outcome::Outcome;
use super::report::Report;
use super::source::User;

/// Who imports, in the journal.
const USER: &str = "import";
/// How long a command waits for room.
const WAIT_MAX: Duration = Duration::from_mins(5);
/// The shortest pause before what found no room is sent again.
const PAUSE_MIN: Duration = Duration::from_millis(20);

/// A tenant of the core.
#[derive(Clone)]
pub(super) struct Target {
    engine: Engine,
    access: Access,
    tenant: TenantNo,
}

impl Target {
    /// The tenant with this key; it is made where there is none.
    pub(super) async fn open(node: &Node, credentials: &Credentials) -> anyhow::Result<Self> {
        let (engine, access) = (node.engine.clone(), node.access.clone());
        let key = credentials.key.clone();
        let find = move |queries: &dyn engine::ports::Queries| queries.tenant_by_api_key(&key);
        let mut target = Self { engine, access, tenant: TenantNo::SYSTEM };
        if target.engine.read(find.clone()).await?.is_none() {
            let secret_hash = target.access.hash(&credentials.secret).await?;
            let (api_key, external_key) = (credentials.key.clone(), Some(credentials.key.clone()));
            let new = CreateTenant { id: None, external_key, api_key, secret_hash };
            let made = target.submit(Command::Tenant(TenantCommand::Create(new)), None).await?;
            made.map_err(|refused| anyhow::anyhow!("the tenant cannot be made: {refused}"))?;
        }
        let found =
            target.engine.read(find).await?.context("the tenant was made and is not there")?;
        target.tenant = found.no;
        Ok(target)
    }

    /// Makes users and their roles; those that are there stay as they are.
    pub(super) async fn bring_users(
        &self,
        users: Vec<User>,
        report: &mut Report,
    ) -> anyhow::Result<()> {
        let system = Self { tenant: TenantNo::SYSTEM, ..self.clone() };
        for User { name, password, roles } in users {
            // Kill Bill's `admin` of `shiro.ini` has none in its database. Brought over, it would be an
            // administrator without rights, and the first start would make no other.
            if roles.is_empty() {
                report.leave_out(format!("user {name}: has no roles in the source"));
                continue;
            }
            let names = roles.iter().map(|(name, _)| name.clone()).collect();
            for (role, permissions) in roles {
                let command = PutRole { name: role.clone(), permissions, create: true };
                let command = Command::Access(AccessCommand::PutRole(command));
                if let Err(refused) = system.submit(command, None).await?
                    && !is_there(&refused)
                {
                    report.leave_out(format!("role {role}: {refused}"));
                }
            }
            let password_hash = self.access.hash(&password).await?;
            let command = CreateUser { username: name.clone(), password_hash, roles: names };
            let command = Command::Access(AccessCommand::CreateUser(command));
            if let Err(refused) = system.submit(command, None).await?
                && !is_there(&refused)
            {
                report.leave_out(format!("user {name}: {refused}"));
            }
        }
        Ok(())
    }

    pub(super) async fn bring_definitions(
        &self,
        definitions: Vec<ImportTagDefinition>,
        report: &mut Report,
    ) -> anyhow::Result<()> {
        for it in definitions {
            let id = it.id;
            let command = Command::Tenant(TenantCommand::ImportTagDefinition(it));
            if let Err(refused) = self.submit(command, None).await? {
                report.leave_out(format!("tag definition {id}: {refused}"));
            }
        }
        Ok(())
    }

    /// Brings an account with its payments, and compares what is here then with what was found.
    pub(super) async fn bring(&self, found: Found) -> anyhow::Result<Outcome> {
        let mut outcome = Outcome::of(&found);
        let id = found.account.id;
        let command = AccountCommand::Import(Box::new(found.account));
        match self.submit(Command::Account(command), found.author).await? {
            Ok(is_new) => outcome.is_new = is_new,
            Err(refused) => {
                outcome.is_refused = true;
                outcome.differences.push(format!("account {id}: {refused}"));
                return Ok(outcome);
            }
        }
        let mut expected = BTreeMap::new();
        for FoundPayment { payment, author } in found.payments {
            let id = payment.id;
            expected.insert(id, payment.clone());
            let command = PaymentCommand::Import(Box::new(payment));
            match self.submit(Command::Payment(command), author).await? {
                Ok(is_new) => outcome.new_payments += u64::from(is_new),
                Err(refused) => {
                    outcome.differences.push(format!("payment {id}: {refused}"));
                    expected.remove(&id);
                }
            }
        }
        self.compare(id, expected, &mut outcome).await?;
        Ok(outcome)
    }

    async fn compare(
        &self,
        account: AccountId,
        mut expected: BTreeMap<PaymentId, ImportPayment>,
        outcome: &mut Outcome,
    ) -> anyhow::Result<()> {
        let (tenant, mut offset) = (self.tenant, 0);
        loop {
            let page = Page { offset, limit: ROWS_BESIDE_OTHERS_MAX };
            let read = move |queries: &dyn engine::ports::Queries| {
                queries.payments_of(tenant, account, page)
            };
            // No scan, of which a tenant has few: many accounts are compared at once.
            let files = self.engine.read(read).await?;
            let count = u64::try_from(files.len()).unwrap_or(u64::MAX);
            for file in files {
                // Payments that were made here since are none of the source's.
                if let Some(expected) = expected.remove(&file.payment.id) {
                    self.compare_payment(&expected, &file, outcome);
                }
            }
            if count < ROWS_BESIDE_OTHERS_MAX {
                break;
            }
            offset += count;
        }
        outcome.differences.extend(expected.keys().map(|id| format!("payment {id}: is not here")));
        Ok(())
    }

    fn compare_payment(&self, expected: &ImportPayment, here: &PaymentFile, outcome: &mut Outcome) {
        let ids: BTreeMap<TransactionId, &Transaction> =
            here.transactions.iter().map(|it| (it.id, it)).collect();
        for it in &expected.transactions {
            let id = it.id;
            let Some(here_it) = ids.get(&id) else {
                outcome.differences.push(format!("transaction {id}: is not here"));
                continue;
            };
            outcome.found.find(here_it, here.payment.currency);
            if let Some(what) = difference(it, here_it) {
                outcome.differences.push(format!("transaction {id}: {what}"));
            }
            let gateway = &here_it.gateway;
            let why = match self.engine.settings().gateway(gateway) {
                None => "is no gateway here: nobody asks about it",
                Some(settings) if settings.needs_merchant_account => {
                    "is asked about it only when the payment is read with plugin info"
                }
                Some(_) => continue,
            };
            if here_it.status.is_open() {
                outcome.open.push(format!(
                    "transaction {id}: {:?} at {gateway}, which {why}",
                    here_it.status
                ));
            }
        }
        if ids.len() > expected.transactions.len() {
            let id = here.payment.id;
            outcome.differences.push(format!("payment {id}: has transactions that were made here"));
        }
    }

    /// Executes a command; `true` where it brought something new. Where there is no room, or it is not known
    /// whether it was executed, it is sent again: what was brought is not brought twice.
    async fn submit(
        &self,
        command: Command,
        author: Option<String>,
    ) -> anyhow::Result<Result<bool, Rejection>> {
        let id = self.engine.mint();
        let actor = Actor::new(USER, author.unwrap_or_else(|| USER.to_owned()), id.0);
        let request = Request { id, tenant: self.tenant, actor, idempotency: None, command };
        let until = Instant::now() + WAIT_MAX;
        loop {
            match self.engine.submit(request.clone()).await {
                Ok(Answer::Replied(Reply::Imported { is_new })) => return Ok(Ok(is_new)),
                Ok(Answer::Replied(_)) => return Ok(Ok(true)),
                Ok(Answer::Refused(refused)) => return Ok(Err(refused)),
                Ok(Answer::StillRunning | Answer::AnotherRequest) => {
                    anyhow::bail!("a command without a key was taken for another")
                }
                Err(unavailable) => {
                    let Some(pause) = unavailable.retry_after else {
                        return Err(unavailable.into());
                    };
                    if unavailable.reason == Reason::DiskFull || Instant::now() > until {
                        return Err(unavailable.into());
                    }
                    tokio::time::sleep(pause.max(PAUSE_MIN)).await;
                }
            }
        }
    }
}

/// Whether a user or a role was there before.
const fn is_there(refused: &Rejection) -> bool {
    use domain::AccessRejection as A;
    matches!(refused, Rejection::Access(A::UserAlreadyExists { .. } | A::RoleAlreadyExists { .. }))
}

/// The differences between a transaction of the source and the one here, as a text; `None` where there are none.
fn difference(expected: &ImportedTransaction, here: &Transaction) -> Option<String> {
    let moves = expected.kind != TransactionType::Void;
    let amount = expected.amount.filter(|_| moves);
    let processed = match (expected.status, moves) {
        (_, false) => AmountMinor::ZERO,
        (TransactionStatus::Success, true) => {
            expected.processed_amount.or(expected.amount).unwrap_or_default()
        }
        (_, true) => expected.processed_amount.unwrap_or_default(),
    };
    let pairs = [
        ("type", format!("{:?}", expected.kind), format!("{:?}", here.kind)),
        ("status", format!("{:?}", expected.status), format!("{:?}", here.status)),
        ("amount", format!("{amount:?}"), format!("{:?}", here.amount)),
        (
            "processed amount",
            processed.0.to_string(),
            here.processed_amount.unwrap_or_default().0.to_string(),
        ),
    ];
    let different = pairs.into_iter().find(|(_, expected, here)| expected != here);
    different.map(|(what, expected, here)| format!("{what} {expected} is {here} here"))
}
