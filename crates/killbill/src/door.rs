//! What the door is made of: the core it asks, the credentials it checks, and its few settings.

use std::sync::Arc;

use domain::Timestamp;
use engine::Engine;
use engine::access::Access;

/// The Kill Bill door. Cheap to clone; clones are the same door.
#[derive(Clone)]
pub struct Door {
    inner: Arc<Inner>,
}

struct Inner {
    engine: Engine,
    access: Access,
    settings: DoorSettings,
    opened_at: Timestamp,
}

/// Says why a URL may not be a callback. What delivers the notifications knows, and the door does not
/// know what that is.
pub type CallbackCheck = Arc<dyn Fn(&str) -> Result<(), String> + Send + Sync>;

/// How the door is set up. Whether there is a test clock is the engine's to say.
#[derive(Clone)]
pub struct DoorSettings {
    /// Whether clients reach the listener over TLS: `Location` then says `https`.
    pub tls: bool,
    /// This process's name in `nodesInfo`.
    pub node_name: String,
    /// Which callbacks may be registered; the reason of a refusal follows the parameter's name.
    pub check_callback: CallbackCheck,
}

impl Default for DoorSettings {
    fn default() -> Self {
        Self { tls: false, node_name: "faregate".to_owned(), check_callback: Arc::new(|_| Ok(())) }
    }
}

impl Door {
    /// A door to `engine`, for callers known to `access`.
    #[must_use]
    pub fn new(engine: Engine, access: Access, settings: DoorSettings) -> Self {
        let opened_at = engine.clock().real_now();
        Self { inner: Arc::new(Inner { engine, access, settings, opened_at }) }
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.inner.engine
    }

    pub(crate) fn access(&self) -> &Access {
        &self.inner.access
    }

    pub(crate) fn settings(&self) -> &DoorSettings {
        &self.inner.settings
    }

    pub(crate) fn opened_at(&self) -> Timestamp {
        self.inner.opened_at
    }
}
