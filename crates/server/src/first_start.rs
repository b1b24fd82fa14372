//! The first start creates the administrator and the first tenant.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use domain::access::{CreateUser, PutRole};
use domain::command::{AccessCommand, TenantCommand};
use domain::payment::Actor;
use domain::tenant::CreateTenant;
use domain::{AccessRejection, Command, Rejection, Request, TenantNo};
use engine::access::{Access, AccessError};
use engine::{Answer, Engine, Unavailable};

/// The administrator's name.
pub const ADMIN: &str = "admin";
/// The administrator's role; it may do everything.
const ADMIN_ROLE: &str = "admin";
/// The first tenant's name.
const DEFAULT_TENANT: &str = "default";
/// Random bytes of a generated secret, which has 24 characters.
const SECRET_BYTES: usize = 18;

/// Why the first start failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The core is unavailable.
    #[error("first start: {0}")]
    Unavailable(#[from] Unavailable),
    /// A secret could not be hashed.
    #[error("first start: {0}")]
    Hash(#[from] AccessError),
    /// A command was refused.
    #[error("first start: {what} was refused: {answer:?}")]
    Refused {
        /// What the command was to create.
        what: &'static str,
        answer: Answer,
    },
}

/// The secrets that the first start generated. They are shown once and stored only as hashes.
#[derive(Clone, PartialEq, Eq)]
pub struct Made {
    /// The administrator's password; `None` if it was not generated.
    pub password: Option<String>,
    /// The first tenant's API key and secret; `None` if a tenant exists.
    pub tenant: Option<(String, String)>,
}

/// The administrator's password in `FAREGATE_ADMIN_PASSWORD`; `None` if it is not set or empty.
pub fn password() -> Option<String> {
    std::env::var("FAREGATE_ADMIN_PASSWORD").ok().filter(|it| !it.is_empty())
}

/// Prints the secrets that a first start generated, which are not stored.
pub fn announce(made: &Made) {
    if let Some(password) = &made.password {
        eprintln!("first start: user {}, password {password}", ADMIN);
    }
    if let Some((api_key, api_secret)) = &made.tenant {
        eprintln!("first start: tenant default, API key {api_key}, API secret {api_secret}");
    }
}

/// Creates the administrator and the first tenant if they do not exist; `password` is the
/// administrator's, otherwise one is generated. Secrets are announced before they are stored, so
/// that a crash cannot leave an administrator with an unknown password; the next start creates what
/// is missing. All commands are submitted at once, to be one commit.
///
/// # Errors
/// [`Error`].
pub async fn prepare(
    engine: &Engine,
    access: &Access,
    password: Option<String>,
    announce: impl FnOnce(&Made),
) -> Result<(), Error> {
    let (admin, tenants) =
        engine.read(|queries| Ok((queries.user(ADMIN)?, queries.tenant_count()?))).await?;
    let (no_admin, no_tenant) = (admin.is_none(), tenants == 0);
    if !no_admin && !no_tenant {
        return Ok(());
    }
    let made = Made {
        password: (no_admin && password.is_none()).then(random_secret),
        tenant: no_tenant.then(|| (random_secret(), random_secret())),
    };
    announce(&made);
    let password = password.or(made.password);
    let administrator = async {
        match password.filter(|_| no_admin) {
            Some(password) => make_administrator(engine, access, &password).await,
            None => Ok(()),
        }
    };
    let tenant = async {
        match &made.tenant {
            Some((api_key, api_secret)) => make_tenant(engine, access, api_key, api_secret).await,
            None => Ok(()),
        }
    };
    tokio::try_join!(administrator, tenant).map(drop)
}

async fn make_administrator(engine: &Engine, access: &Access, password: &str) -> Result<(), Error> {
    let password_hash = access.hash(password).await?;
    let name = ADMIN_ROLE.to_owned();
    let role = PutRole { name, permissions: vec!["*:*".to_owned()], create: true };
    let (username, roles) = (ADMIN.to_owned(), vec![ADMIN_ROLE.to_owned()]);
    let user = CreateUser { username, password_hash, roles };
    let role =
        make(engine, "the administrator's role", Command::Access(AccessCommand::PutRole(role)));
    let user = make(engine, "the administrator", Command::Access(AccessCommand::CreateUser(user)));
    tokio::try_join!(role, user).map(drop)
}

async fn make_tenant(
    engine: &Engine,
    access: &Access,
    api_key: &str,
    api_secret: &str,
) -> Result<(), Error> {
    let secret_hash = access.hash(api_secret).await?;
    let (external_key, api_key) = (Some(DEFAULT_TENANT.to_owned()), api_key.to_owned());
    let tenant = CreateTenant { id: None, external_key, api_key, secret_hash };
    make(engine, "the first tenant", Command::Tenant(TenantCommand::Create(tenant))).await
}

async fn make(engine: &Engine, what: &'static str, command: Command) -> Result<(), Error> {
    let id = engine.mint();
    let actor = Actor::new(ADMIN, "first start", id.0);
    let request = Request { id, tenant: TenantNo::SYSTEM, actor, idempotency: None, command };
    match engine.submit(request).await? {
        // A first start that was cut short left the role behind.
        Answer::Replied(_)
        | Answer::Refused(Rejection::Access(AccessRejection::RoleAlreadyExists { .. })) => Ok(()),
        answer @ (Answer::Refused(_) | Answer::StillRunning | Answer::AnotherRequest) => {
            Err(Error::Refused { what, answer })
        }
    }
}

/// A random secret.
fn random_secret() -> String {
    let mut bytes = [0_u8; SECRET_BYTES];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    BASE64.encode(bytes)
}
