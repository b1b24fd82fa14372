//! A panic while a line is formatted loses the line, and not what the line is about.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use super::queue::{LogQueue, Loss};

/// Formats as `F` does, and catches its panics.
pub struct Contained<F> {
    format: F,
    losses: LogQueue,
}

impl<F> Contained<F> {
    /// Counts the lines that cannot be formatted in this log.
    pub const fn new(format: F, losses: LogQueue) -> Self {
        Self { format, losses }
    }
}

impl<S, N, F> FormatEvent<S, N> for Contained<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let format = AssertUnwindSafe(|| self.format.format_event(context, writer, event));
        catch_unwind(format)
            .unwrap_or(Err(fmt::Error))
            .inspect_err(|_| self.losses.lose(Loss::Unformatted))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::super::queue::tests::{Lines, start};
    use super::*;

    /// A value that cannot be shown.
    struct Broken(bool);

    impl fmt::Display for Broken {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            assert!(!self.0, "it cannot be shown");
            Err(fmt::Error)
        }
    }

    #[test]
    fn a_value_that_panics_loses_its_line_alone() {
        let (written, lines) = mpsc::channel();
        let queue = start(Lines(written));
        let losses = queue.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(queue.clone())
            .log_internal_errors(false)
            .map_event_format(|it| Contained::new(it, losses))
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            tracing::error!(of = %Broken(true), "panics");
            tracing::error!(of = %Broken(false), "fails");
            tracing::error!("the next one");
        });
        // The notice of the two lines is written first.
        assert!(lines.recv().unwrap().contains("2 lost"));
        assert!(lines.recv().unwrap().contains("the next one"));
        assert_eq!(queue.lost(Loss::Unformatted), 2);
    }
}
