//! The first start: somebody has to be able to log in, and some tenant to exist.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use domain::access::{CreateUser, PutRole};
use domain::payment::Actor;
use domain::tenant::CreateTenant;
use domain::{Command, Rejection, Request, TenantNo};
use engine::access::{Access, AccessError};
use engine::{Answer, Engine, Unavailable};

/// The administrator's name.
pub const ADMIN: &str = "admin";
/// The administrator's role; it may do everything.
const ADMIN_ROLE: &str = "admin";
/// The first tenant's name.
const DEFAULT_TENANT: &str = "default";
/// Random bytes of a made-up secret; 24 characters when written.
const SECRET_BYTES: usize = 18;

/// Why the first start failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The core did not take it.
    #[error("first start: {0}")]
    Unavailable(#[from] Unavailable),
    /// A secret could not be hashed.
    #[error("first start: {0}")]
    Hash(#[from] AccessError),
    /// A command was refused.
    #[error("first start: {what} was refused: {answer:?}")]
    Refused {
        /// What was to be made.
        what: &'static str,
        /// The answer.
        answer: Answer,
    },
}

/// What was made on the first start: shown once, kept nowhere but as hashes.
#[derive(Clone, PartialEq, Eq)]
pub struct Made {
    /// The administrator's password, where it was made up.
    pub password: Option<String>,
    /// The first tenant's API key and secret.
    pub tenant: Option<(String, String)>,
}

/// Makes the administrator and the first tenant, where there is no administrator yet; `password` is
/// the administrator's, else one is made up. What is made up is announced before the administrator
/// exists, so that no crash leaves one whose password nobody has seen.
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
    if admin.is_some() {
        return Ok(());
    }
    let made_up = password.is_none().then(random_secret);
    let tenant = (tenants == 0).then(|| (random_secret(), random_secret()));
    let password = password.or_else(|| made_up.clone()).expect("given or made up");
    let secret = tenant.as_ref().map_or("", |(_, secret)| secret);
    let (password_hash, secret_hash) =
        tokio::try_join!(access.hash(&password), access.hash(secret))?;
    let name = ADMIN_ROLE.to_owned();
    let role = PutRole { name, permissions: vec!["*:*".to_owned()], create: true };
    make(engine, "the administrator's role", Command::PutRole(role)).await?;
    if let Some((api_key, _)) = &tenant {
        let (external_key, api_key) = (Some(DEFAULT_TENANT.to_owned()), api_key.clone());
        let tenant = CreateTenant { id: None, external_key, api_key, secret_hash };
        make(engine, "the first tenant", Command::CreateTenant(tenant)).await?;
    }
    announce(&Made { password: made_up, tenant });
    let (username, roles) = (ADMIN.to_owned(), vec![ADMIN_ROLE.to_owned()]);
    let user = CreateUser { username, password_hash, roles };
    make(engine, "the administrator", Command::CreateUser(user)).await
}

async fn make(engine: &Engine, what: &'static str, command: Command) -> Result<(), Error> {
    let id = engine.mint();
    let actor = Actor {
        user: ADMIN.to_owned(),
        created_by: "first start".to_owned(),
        reason: None,
        comments: None,
        token: id.0,
    };
    let request = Request { id, tenant: TenantNo::SYSTEM, actor, idempotency: None, command };
    match engine.submit(request).await? {
        // A first start that was cut short left the role behind.
        Answer::Replied(_) | Answer::Refused(Rejection::RoleAlreadyExists { .. }) => Ok(()),
        answer @ (Answer::Refused(_) | Answer::StillRunning | Answer::AnotherRequest) => {
            Err(Error::Refused { what, answer })
        }
    }
}

/// A secret that nobody can guess.
fn random_secret() -> String {
    let mut bytes = [0_u8; SECRET_BYTES];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    BASE64.encode(bytes)
}
