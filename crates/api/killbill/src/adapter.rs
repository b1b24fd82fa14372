//! The state of the API: the engine, the credential checks, and the settings.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use domain::Timestamp;
use engine::Engine;
use engine::access::Access;
use gateway::simulator::script::Scripts;
use secrets::Sealer;

/// The Kill Bill API. Cheap to clone; clones share their state.
#[derive(Clone)]
pub struct KillBillApi {
    inner: Arc<Inner>,
}

struct Inner {
    engine: Engine,
    access: Access,
    settings: Settings,
    opened_at: Timestamp,
}

/// Returns why a URL may not be a callback. The server provides the check, because the crate that
/// delivers notifications decides which addresses it connects to.
pub type CallbackCheck = Arc<dyn Fn(&str) -> Result<(), String> + Send + Sync>;

/// Returns figures of the process by name. The server provides them, because it reads them for `/metrics` too.
pub type ProcessFigures = Arc<dyn Fn() -> Vec<(&'static str, f64)> + Send + Sync>;

/// Whether load balancers are to send requests to this process. Clones share it; a start puts it into
/// rotation.
#[derive(Clone, Debug, Default)]
pub struct Rotation(Arc<AtomicBool>);

impl Rotation {
    #[must_use]
    pub fn is_out(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn set_out(&self, is_out: bool) {
        self.0.store(is_out, Ordering::Relaxed);
    }
}

/// The settings of the API. The engine decides whether there is a test clock.
#[derive(Clone)]
pub struct Settings {
    /// Whether clients connect over TLS: `Location` then begins with `https`.
    pub tls: bool,
    /// The beginning of `Location` instead of the request's scheme and `Host`; empty: these.
    pub public_url: String,
    /// The name of this process in `nodesInfo`.
    pub node_name: String,
    /// Checks a callback before it is registered; the returned reason follows the parameter's name.
    pub check_callback: CallbackCheck,
    /// Encrypts the configurations of plugins; without one they are not stored.
    pub sealer: Option<Arc<Sealer>>,
    /// Set by `/1.0/kb/admin/healthcheck`.
    pub rotation: Rotation,
    /// Whether this process calls gateways; a front leaves that to processors.
    pub calls_gateways: bool,
    /// The gauges of `/1.0/metrics`.
    pub process_figures: ProcessFigures,
    /// The steps that tenants configure for the simulated gateway.
    pub scripts: Scripts,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            tls: false,
            public_url: String::new(),
            node_name: "faregate".to_owned(),
            check_callback: Arc::new(|_| Ok(())),
            sealer: None,
            rotation: Rotation::default(),
            calls_gateways: true,
            process_figures: Arc::new(Vec::new),
            scripts: Scripts::default(),
        }
    }
}

impl KillBillApi {
    /// An API on `engine`, for callers known to `access`.
    #[must_use]
    pub fn new(engine: Engine, access: Access, settings: Settings) -> Self {
        let opened_at = engine.clock().real_now();
        Self { inner: Arc::new(Inner { engine, access, settings, opened_at }) }
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.inner.engine
    }

    pub(crate) fn access(&self) -> &Access {
        &self.inner.access
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.inner.settings
    }

    pub(crate) fn opened_at(&self) -> Timestamp {
        self.inner.opened_at
    }
}
