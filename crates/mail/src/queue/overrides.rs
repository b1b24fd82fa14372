//! The templates of tenants who have their own, kept until they change.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::tenant::{MAIL_TEMPLATES, TenantValue};
use domain::{Seq, TenantNo};
use engine::ports::StoreError;
use engine::{Engine, Unavailable};

use crate::template::Templates;

/// How many tenants' templates are kept. One more, and all are read again.
const TENANTS_MAX: usize = 64;

/// Templates by tenant.
#[derive(Default)]
pub(super) struct Overrides(Mutex<HashMap<TenantNo, Kept>>);

#[derive(Clone)]
struct Kept {
    /// The generation of the core's values that it was looked at in.
    generation: i64,
    /// The journal row that wrote it, where the tenant has its own.
    written: Option<Seq>,
    templates: Arc<Templates>,
}

impl Overrides {
    /// A tenant's templates; the built-in ones, with a line in the log, if its own are invalid.
    pub(super) async fn of(
        &self,
        engine: &Engine,
        no: TenantNo,
    ) -> Result<Arc<Templates>, Unavailable> {
        // What is written meanwhile makes another generation: it is read again.
        let generation = engine.access_generation();
        let kept = self.kept().get(&no).cloned();
        if let Some(kept) = &kept
            && kept.generation == generation
        {
            return Ok(Arc::clone(&kept.templates));
        }
        let value = engine.read(move |queries| match queries.tenant_value(no, MAIL_TEMPLATES) {
            Err(error @ StoreError::Corrupt { .. }) => Ok(Err(error)),
            value => Ok(Ok(value?)),
        });
        let value = value.await?.unwrap_or_else(|error| {
            not_used(no, &error);
            None
        });
        let written = value.as_ref().map(|value| value.revision.seq);
        let templates = match kept {
            Some(kept) if kept.written == written => kept.templates,
            Some(_) | None => Arc::new(read(no, value)),
        };
        let mut all = self.kept();
        if all.len() >= TENANTS_MAX {
            all.clear();
        }
        all.insert(no, Kept { generation, written, templates: Arc::clone(&templates) });
        Ok(templates)
    }

    fn kept(&self) -> MutexGuard<'_, HashMap<TenantNo, Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read(no: TenantNo, value: Option<TenantValue>) -> Templates {
    let Some(document) = value.and_then(|value| value.value) else { return Templates::default() };
    Templates::parse(&document).unwrap_or_else(|error| {
        not_used(no, &error);
        Templates::default()
    })
}

fn not_used(no: TenantNo, error: &dyn std::fmt::Display) {
    tracing::error!(
        tenant = no.0,
        error = %error,
        "a tenant's templates of mails cannot be used: ours are used in their place"
    );
}
