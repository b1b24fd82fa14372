//! Sign-up on an engine with a temporary store.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use domain::command::TenantCommand;
use domain::payment::Actor;
use domain::tenant::CreateTenant;
use domain::{Command, Request, TenantNo};
use engine::access::ClientAddress;
use engine::{Answer, Clock, Engine, Options, Parts, Running};
use secrets::{KEY_BYTES, RootKey};
use sign_up::SignUp;
use sign_up::limits;
use sign_up::passwords::{self, Cost, Hasher};
use sign_up::service::{
    NewCustomer, RegistrationForm, RequestContext, Settings, validate_registration,
};

const HOUR: Duration = Duration::from_secs(3_600);
const TIMEOUT: Duration = Duration::from_secs(30);

pub struct World {
    pub sign_up: SignUp,
    running: Running,
    directory: PathBuf,
}

impl World {
    /// Without a tenant.
    pub fn start(limits: limits::Settings) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("faregate-signup-plain-{}-{number}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        let store = store::open_dir(&directory, &store::Options::default()).unwrap();
        let queries = store.queries(2).unwrap();
        let domain = domain::Settings::without_gateways(domain::Timestamp::DAY_US, 1_000);
        let parts = Parts {
            store,
            queries: Arc::new(queries),
            gateways: BTreeMap::new(),
            clock: Clock::new(true),
            settings: domain,
            options: Options { readers: 2, ..Options::default() },
        };
        let (engine, running) = Engine::start(parts).unwrap();
        let cheap = passwords::Options {
            threads: 1,
            queue_wait_max: TIMEOUT,
            cost: Cost::new(64, 1, 1).unwrap(),
            ..passwords::Options::default()
        };
        let key = RootKey::new([7; KEY_BYTES]);
        let hasher = Hasher::new(cheap).unwrap();
        let sign_up = SignUp::new(engine, hasher, &key, settings(limits));
        Self { sign_up, running, directory }
    }

    /// The same sign-up, which refuses to hash passwords.
    pub fn without_hashes(&self) -> SignUp {
        let none = passwords::Options {
            threads: 1,
            queue_jobs_max: 0,
            cost: Cost::new(64, 1, 1).unwrap(),
            ..passwords::Options::default()
        };
        let (engine, key) = (self.sign_up.engine().clone(), RootKey::new([7; KEY_BYTES]));
        SignUp::new(engine, Hasher::new(none).unwrap(), &key, self.sign_up.settings().clone())
    }

    pub async fn stop(self) {
        self.running.stop(TIMEOUT).await;
        drop(self.sign_up);
        std::fs::remove_dir_all(self.directory).unwrap();
    }

    pub async fn tenant(&self, key: &str) -> TenantNo {
        let create = CreateTenant {
            id: None,
            external_key: None,
            api_key: key.to_owned(),
            secret_hash: String::new(),
        };
        let engine = self.sign_up.engine();
        let id = engine.mint();
        let actor = Actor::new("admin", "test", id.0);
        let command = Command::Tenant(TenantCommand::Create(create));
        let request = Request { id, tenant: TenantNo::SYSTEM, actor, idempotency: None, command };
        let answer = engine.submit(request).await.unwrap();
        assert!(matches!(answer, Answer::Replied(_)), "{answer:?}");
        let key = key.to_owned();
        let found = engine.read(move |queries| queries.tenant_by_api_key(&key)).await;
        found.unwrap().unwrap().no
    }

    pub fn context(&self, tenant: TenantNo, from: &str, is_exempt: bool) -> RequestContext {
        let id = self.sign_up.engine().mint();
        let from = ClientAddress(from.parse().unwrap());
        RequestContext { tenant, id, idempotency_key: None, from, is_exempt, is_of_tenant: false }
    }
}

pub fn form(email: &str) -> RegistrationForm {
    RegistrationForm {
        email: email.to_owned(),
        password: "Zq8,lrvbx".to_owned(),
        first_name: "Ana".to_owned(),
        last_name: "Diaz".to_owned(),
        ..RegistrationForm::default()
    }
}

pub fn new_customer(email: &str) -> NewCustomer {
    validate_registration(&form(email)).unwrap_or_else(|wrong| panic!("{wrong:?}"))
}

fn settings(limits: limits::Settings) -> Settings {
    Settings {
        tenant: "test".to_owned(),
        verify_within: HOUR,
        reset_within: HOUR,
        session: HOUR,
        session_remembered: HOUR,
        refresh: HOUR,
        refresh_grace: Duration::from_secs(10),
        session_max: 24 * HOUR,
        issuer: "Test".to_owned(),
        currency: "USD".to_owned(),
        trust_internal: false,
        erasure_needs_password: true,
        limits,
    }
}
