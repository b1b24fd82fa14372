//! The first start creates the administrator and the first tenant.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use config::Config;
use domain::access::{CreateUser, PutRole};
use domain::command::{AccessCommand, TenantCommand};
use domain::payment::Actor;
use domain::tenant::CreateTenant;
use domain::{AccessRejection, Command, Rejection, Request, TenantNo};
use engine::access::{Access, AccessError};
use engine::{Answer, Engine, Reason, Unavailable};
use secrets::random;

/// The administrator's name.
pub const ADMIN: &str = "admin";
/// The administrator's role; it may do everything.
const ADMIN_ROLE: &str = "admin";
/// When a read is tried again that was refused.
const READ_AGAIN: Duration = Duration::from_millis(20);
/// The first tenant's name.
const DEFAULT_TENANT: &str = "default";

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
        /// The object that the command was to create, such as `the first tenant`.
        what: &'static str,
        answer: Answer,
    },
    /// The administrator's password can be guessed, and not only this machine can try.
    #[error(
        "the password of `admin` can be guessed ({reason}), and `listen` or `grpc.listen` is not \
         loopback: {advice}"
    )]
    WeakPassword { reason: &'static str, advice: &'static str },
    /// The file with the secrets cannot be written.
    #[error("first start: {}: {source}", path.display())]
    Credentials { path: PathBuf, source: io::Error },
}

/// The shortest password of the administrator where others than this machine can log in, in characters.
const PASSWORD_CHARS_MIN: usize = 12;

/// Passwords that everybody tries first, in lower case.
const GUESSED_FIRST: &[&str] = &[
    "password",
    "passwordpassword",
    "password1234",
    "change-me",
    "changeme",
    "change-me-please",
    "changemeplease",
    "admin",
    "administrator",
    "123456789012",
    "qwertyuiop123",
    "faregate",
    "faregatefaregate",
];

/// Refuses a given administrator's password that can be guessed where others than this machine can try it.
///
/// # Errors
/// [`Error::WeakPassword`].
pub fn check_given(config: &Config, given: &Given) -> Result<(), Error> {
    match given.password.as_deref().and_then(weakness) {
        Some(reason) if config.is_on_loopback() => tracing::warn!(
            reason,
            "the administrator's password can be guessed; off loopback the start is refused"
        ),
        Some(reason) => {
            let advice = "set FAREGATE_ADMIN_PASSWORD to another";
            return Err(Error::WeakPassword { reason, advice });
        }
        None => {}
    }
    Ok(())
}

/// Refuses the stored administrator's password as [`check_given`] does a given one.
///
/// # Errors
/// [`Error::WeakPassword`]; where it cannot be checked.
pub async fn check_stored(config: &Config, access: &Access) -> Result<(), Error> {
    if !config.is_on_loopback() && access.has_password_of(ADMIN, GUESSED_FIRST).await? {
        let advice = "start on loopback and change it: PUT /1.0/kb/security/users/admin/password";
        return Err(Error::WeakPassword { reason: "it is tried first by everybody", advice });
    }
    Ok(())
}

/// Why a password can be guessed.
fn weakness(password: &str) -> Option<&'static str> {
    if GUESSED_FIRST.contains(&password.to_lowercase().as_str()) {
        Some("it is tried first by everybody")
    } else if password.chars().count() < PASSWORD_CHARS_MIN {
        Some("it has fewer than 12 characters")
    } else {
        None
    }
}

/// The file in the data directory with the secrets that a first start generated.
pub const CREDENTIALS: &str = "first-start-credentials.txt";

/// The secrets that the environment gives to a first start; those that it does not are generated.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Given {
    /// The administrator's password.
    pub password: Option<String>,
    /// The first tenant's API key and secret.
    pub tenant: Option<(String, String)>,
}

impl Given {
    /// `FAREGATE_ADMIN_PASSWORD`, and `FAREGATE_FIRST_TENANT_API_KEY` with
    /// `FAREGATE_FIRST_TENANT_API_SECRET`; an empty one is not set.
    #[must_use]
    pub fn by_environment() -> Self {
        let read = |name: &str| std::env::var(name).ok().filter(|it| !it.is_empty());
        let key = read("FAREGATE_FIRST_TENANT_API_KEY");
        let secret = read("FAREGATE_FIRST_TENANT_API_SECRET");
        Self { password: read("FAREGATE_ADMIN_PASSWORD"), tenant: key.zip(secret) }
    }
}

/// The secrets that the first start generated. Apart from the file they are stored only as hashes.
#[derive(Clone, PartialEq, Eq)]
pub struct Made {
    /// The administrator's password; `None` if it was not generated.
    pub password: Option<String>,
    /// The first tenant's API key and secret; `None` if they were not generated.
    pub tenant: Option<(String, String)>,
}

/// Writes the secrets that a first start generated into a file that only its owner can read, and logs
/// where it is, never what it says: logs are kept and shown to others.
///
/// # Errors
/// [`Error::Credentials`].
pub fn keep(data_dir: &Path, made: &Made) -> Result<(), Error> {
    let mut text = String::new();
    if let Some(password) = &made.password {
        text.push_str(&format!("user {ADMIN}\npassword {password}\n"));
    }
    if let Some((api_key, api_secret)) = &made.tenant {
        text.push_str(&format!("API key {api_key}\nAPI secret {api_secret}\n"));
    }
    if text.is_empty() {
        return Ok(());
    }
    let path = data_dir.join(CREDENTIALS);
    // Appended: a first start that was cut short may have left what was stored.
    let written = OpenOptions::new().append(true).create(true).mode(0o600).open(&path).and_then(
        |mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        },
    );
    written.map_err(|source| Error::Credentials { path: path.clone(), source })?;
    tracing::warn!(
        file = %path.display(),
        "first start: the generated credentials are in this file; read and delete it"
    );
    Ok(())
}

/// Whether there is no administrator, and no tenant. A server that starts reads much at once: where too many reads wait,
/// this one comes again.
async fn missing(engine: &Engine) -> Result<(bool, bool), Unavailable> {
    loop {
        let read = engine
            .read(|queries| Ok((queries.user(ADMIN)?.is_none(), queries.tenant_count()? == 0)));
        match read.await {
            Err(it) if it.reason == Reason::ReadersFull => tokio::time::sleep(READ_AGAIN).await,
            read => return read,
        }
    }
}

/// Creates the administrator and the first tenant if they do not exist, with the given secrets or
/// generated ones. Generated secrets are kept by `keep` before they are stored, so that a crash cannot
/// leave an administrator with an unknown password; the next start creates what is missing. All
/// commands are submitted at once, to be one commit.
///
/// # Errors
/// [`Error`].
pub async fn prepare(
    engine: &Engine,
    access: &Access,
    given: Given,
    keep: impl FnOnce(&Made) -> Result<(), Error>,
) -> Result<(), Error> {
    let (no_admin, no_tenant) = missing(engine).await?;
    if !no_admin && !no_tenant {
        return Ok(());
    }
    let made = Made {
        password: (no_admin && given.password.is_none()).then(random::secret),
        tenant: (no_tenant && given.tenant.is_none()).then(|| (random::secret(), random::secret())),
    };
    keep(&made)?;
    let password = given.password.or(made.password);
    let first_tenant = given.tenant.or(made.tenant).filter(|_| no_tenant);
    let administrator = async {
        match password.filter(|_| no_admin) {
            Some(password) => make_administrator(engine, access, &password).await,
            None => Ok(()),
        }
    };
    let tenant = async {
        match &first_tenant {
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
