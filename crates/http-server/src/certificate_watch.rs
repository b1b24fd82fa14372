//! The certificate that is served: read again when its files change, with its end as a metric.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use engine::periodic::{Pass, Periodic};
use tokio::task::JoinHandle;

use crate::tls::ServedCertificate;

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// Looks at the files of a certificate until it is dropped.
pub struct CertificateWatch {
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

struct Shared {
    certificate: Arc<ServedCertificate>,
    /// The last failure, which is logged once.
    failure: Mutex<String>,
}

impl CertificateWatch {
    /// Starts looking.
    #[must_use]
    pub fn start(certificate: Arc<ServedCertificate>) -> Self {
        for result in ["reloaded", "failed"] {
            metrics::counter!("faregate_tls_reloads_total", "result" => result).increment(0);
        }
        let shared = Arc::new(Shared { certificate, failure: Mutex::default() });
        shared.gauge();
        let looking = Arc::clone(&shared);
        let task = tokio::spawn(async move {
            let job = || async {
                looking.look();
                Pass::Idle
            };
            Periodic::every(LOOK_EVERY).run(std::future::pending(), job).await;
        });
        Self { shared, task }
    }

    /// Reads the files now.
    pub fn reload(&self) {
        // A failure is logged again: an operator waits for it.
        self.shared.failure().clear();
        if !self.shared.look() {
            tracing::info!("SIGHUP: the certificate was read again");
        }
    }
}

impl Drop for CertificateWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Shared {
    /// Reads the files; says whether something was logged.
    fn look(&self) -> bool {
        let count = |result| metrics::counter!("faregate_tls_reloads_total", "result" => result);
        let mut failure = self.failure();
        match self.certificate.reload() {
            Ok(is_new) => {
                failure.clear();
                if is_new {
                    self.gauge();
                    count("reloaded").increment(1);
                    let expires_at_s = self.certificate.expires_at_s();
                    tracing::info!(expires_at_s, "a new certificate is served");
                }
                is_new
            }
            Err(error) => {
                let text = error.to_string();
                let is_new = *failure != text;
                if is_new {
                    count("failed").increment(1);
                    tracing::error!(
                        error = text,
                        "the certificate cannot be read again; the old one is served, and the files are looked at again"
                    );
                    *failure = text;
                }
                is_new
            }
        }
    }

    fn gauge(&self) {
        #[expect(clippy::cast_precision_loss, reason = "a metric")]
        metrics::gauge!("faregate_tls_certificate_expiry_timestamp_seconds")
            .set(self.certificate.expires_at_s() as f64);
    }

    fn failure(&self) -> std::sync::MutexGuard<'_, String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
