//! A bounded queue of lines, and the thread that writes them.

use std::io::{self, ErrorKind, Write};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing_subscriber::fmt::MakeWriter;

/// Lines that wait to be written; more are dropped.
const LINES_MAX: usize = 8_192;

/// Bytes of the lines that wait; a line that exceeds them is dropped.
const BYTES_MAX: usize = 8 * 1_024 * 1_024;

/// How often lost lines are reported.
const NOTICE_EVERY: Duration = Duration::from_secs(1);

/// The pause before a write is repeated that the output, set to answer at once, did not take.
const RETRY_PAUSE: Duration = Duration::from_millis(10);

/// The text about so many lost lines, with a line break at its end.
pub type Notice = fn(u64) -> String;

/// Why a line is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Lines came faster than they were written.
    QueueFull,
    /// The output took it not, or not whole.
    WriteFailed,
    /// One of its values cannot be shown.
    Unformatted,
}

impl Loss {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::QueueFull, Self::WriteFailed, Self::Unformatted];

    /// The name in metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Self::QueueFull => "queue_full",
            Self::WriteFailed => "write_failed",
            Self::Unformatted => "unformatted",
        }
    }
}

/// A log; clones share it.
#[derive(Clone)]
pub struct LogQueue {
    lines: SyncSender<Box<[u8]>>,
    shared: Arc<Shared>,
}

/// The counters that threads which log share with the thread that writes.
#[derive(Default)]
struct Shared {
    /// Bytes of the lines that wait.
    waiting_bytes: AtomicUsize,
    /// Lines that were queued.
    queued: AtomicU64,
    /// Lines of these that were written, or could not be.
    done: Mutex<u64>,
    progressed: Condvar,
    lost: [AtomicU64; Loss::ALL.len()],
    /// Lost lines that a notice has reported.
    reported: AtomicU64,
}

impl Shared {
    fn lose(&self, loss: Loss) {
        self.lost[loss as usize].fetch_add(1, Ordering::Relaxed);
    }

    fn lost(&self) -> u64 {
        self.lost.iter().map(|it| it.load(Ordering::Relaxed)).sum()
    }

    /// Lost lines that no notice has reported.
    fn unreported(&self) -> u64 {
        self.lost().saturating_sub(self.reported.load(Ordering::Relaxed))
    }
}

impl LogQueue {
    /// Starts the thread, which writes to `output`.
    ///
    /// # Errors
    /// Where the system gives no thread.
    pub fn start(output: impl Write + Send + 'static, notice: Notice) -> io::Result<Self> {
        let (lines, queued) = sync_channel(LINES_MAX);
        let shared = Arc::<Shared>::default();
        let writer = LineWriter {
            output,
            notice,
            shared: Arc::clone(&shared),
            is_mid_line: false,
            noticed_at: None,
        };
        let thread = std::thread::Builder::new().name("log".to_owned());
        thread.spawn(move || writer.run(&queued))?;
        Ok(Self { lines, shared })
    }

    /// Queues a line, with its line break, or drops it.
    pub fn push(&self, line: &[u8]) {
        let length = line.len();
        let before = self.shared.waiting_bytes.fetch_add(length, Ordering::Relaxed);
        if before + length <= BYTES_MAX && self.lines.try_send(line.into()).is_ok() {
            self.shared.queued.fetch_add(1, Ordering::Relaxed);
        } else {
            self.shared.waiting_bytes.fetch_sub(length, Ordering::Relaxed);
            self.lose(Loss::QueueFull);
        }
    }

    /// Counts a line that is lost.
    pub fn lose(&self, loss: Loss) {
        self.shared.lose(loss);
    }

    /// Lines that were lost for this reason.
    pub fn lost(&self, loss: Loss) -> u64 {
        self.shared.lost[loss as usize].load(Ordering::Relaxed)
    }

    /// Whether lines are lost now.
    pub fn is_losing(&self) -> bool {
        self.shared.unreported() > 0
    }

    /// Waits until the lines that are queued now are written, at most so long.
    pub fn flush(&self, within: Duration) {
        let target = self.shared.queued.load(Ordering::Relaxed);
        let done = self.shared.done.lock().unwrap_or_else(PoisonError::into_inner);
        let is_behind = |done: &mut u64| *done < target;
        drop(self.shared.progressed.wait_timeout_while(done, within, is_behind));
    }
}

impl<'a> MakeWriter<'a> for LogQueue {
    type Writer = &'a Self;

    fn make_writer(&'a self) -> Self::Writer {
        self
    }
}

impl Write for &LogQueue {
    /// Takes a whole line.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The thread's part.
struct LineWriter<W> {
    output: W,
    notice: Notice,
    shared: Arc<Shared>,
    /// Whether a part of a line was written last.
    is_mid_line: bool,
    /// When a notice was last tried.
    noticed_at: Option<Instant>,
}

impl<W: Write> LineWriter<W> {
    /// Writes what is queued until nobody can queue anything more.
    fn run(mut self, queued: &Receiver<Box<[u8]>>) {
        loop {
            let next = match self.shared.unreported() {
                0 => queued.recv().map_err(|_| RecvTimeoutError::Disconnected),
                _ => queued.recv_timeout(NOTICE_EVERY),
            };
            if next == Err(RecvTimeoutError::Disconnected) {
                return;
            }
            self.report();
            if let Ok(line) = next {
                self.shared.waiting_bytes.fetch_sub(line.len(), Ordering::Relaxed);
                if self.write_whole(&line).is_err() {
                    self.shared.lose(Loss::WriteFailed);
                }
                *self.shared.done.lock().unwrap_or_else(PoisonError::into_inner) += 1;
                self.shared.progressed.notify_all();
            }
        }
    }

    /// Writes how many lines were lost since the last notice.
    fn report(&mut self) {
        let unreported = self.shared.unreported();
        let is_due = self.noticed_at.is_none_or(|at| at.elapsed() >= NOTICE_EVERY);
        if unreported == 0 || !is_due {
            return;
        }
        self.noticed_at = Some(Instant::now());
        let notice = (self.notice)(unreported);
        if self.write_whole(notice.as_bytes()).is_ok() {
            self.shared.reported.fetch_add(unreported, Ordering::Relaxed);
        }
    }

    /// Writes a line, on a line of its own.
    fn write_whole(&mut self, line: &[u8]) -> io::Result<()> {
        if self.is_mid_line {
            self.write_all(b"\n")?;
        }
        self.write_all(line)
    }

    fn write_all(&mut self, mut rest: &[u8]) -> io::Result<()> {
        while !rest.is_empty() {
            match self.output.write(rest) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(length) => {
                    rest = &rest[length..];
                    self.is_mid_line = !rest.is_empty();
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // Another program has set the terminal or the pipe to answer at once.
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    std::thread::sleep(RETRY_PAUSE);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::mpsc;

    use super::*;

    /// An output whose lines a test reads.
    pub struct Lines(pub mpsc::Sender<String>);

    impl Write for Lines {
        fn write(&mut self, text: &[u8]) -> io::Result<usize> {
            self.0.send(String::from_utf8(text.to_vec()).unwrap()).unwrap();
            Ok(text.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A log with a short notice.
    pub fn start(output: impl Write + Send + 'static) -> LogQueue {
        LogQueue::start(output, |lines| format!("{lines} lost\n")).unwrap()
    }

    /// An output that does what the test says next: how much it takes, or an error. It takes all once the test
    /// has said everything.
    struct Told {
        next: mpsc::Receiver<io::Result<usize>>,
        taken: mpsc::Sender<String>,
    }

    impl Write for Told {
        fn write(&mut self, text: &[u8]) -> io::Result<usize> {
            let length = self.next.recv().unwrap_or(Ok(usize::MAX))?.min(text.len());
            drop(self.taken.send(String::from_utf8_lossy(&text[..length]).into_owned()));
            Ok(length)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn told() -> (LogQueue, mpsc::Sender<io::Result<usize>>, mpsc::Receiver<String>) {
        let ((tell, next), (taken, lines)) = (mpsc::channel(), mpsc::channel());
        (start(Told { next, taken }), tell, lines)
    }

    #[test]
    fn a_stalled_output_costs_lines_and_no_time() {
        let (queue, tell, lines) = told();
        let pushed = LINES_MAX + 101;
        for _ in 0..pushed {
            queue.push(b"line\n");
        }
        // The thread has one of them in its hands, or not yet.
        let lost = queue.lost(Loss::QueueFull);
        assert!((100..=101).contains(&lost), "{lost}");
        queue.flush(Duration::ZERO);
        drop(tell);
        let (mut written, mut reported) = (0, 0);
        while written + reported < pushed {
            let line = lines.recv().unwrap();
            match line.strip_suffix(" lost\n") {
                Some(count) => reported += count.parse::<usize>().unwrap(),
                None => written += 1,
            }
        }
        assert_eq!(reported as u64, lost);
    }

    #[test]
    fn lines_have_a_bound_of_bytes() {
        let (queue, _tell, _lines) = told();
        let line = vec![b'x'; BYTES_MAX / 4];
        // The thread has taken one.
        for _ in 0..7 {
            queue.push(&line);
        }
        assert!(queue.lost(Loss::QueueFull) >= 2);
    }

    #[test]
    fn what_could_not_be_written_is_reported_once_it_can_be() {
        let (queue, tell, lines) = told();
        queue.push(b"first\n");
        queue.push(b"second\n");
        tell.send(Ok(3)).unwrap();
        tell.send(Err(ErrorKind::StorageFull.into())).unwrap();
        assert_eq!(lines.recv().unwrap(), "fir");
        // The rest of that line's place is a line break; then the notice, then what waits.
        for _ in 0..3 {
            tell.send(Ok(usize::MAX)).unwrap();
        }
        let rest: Vec<String> = lines.iter().take(3).collect();
        assert_eq!(rest, ["\n", "1 lost\n", "second\n"]);
        assert_eq!(queue.lost(Loss::WriteFailed), 1);
        queue.flush(Duration::from_secs(30));
        assert!(!queue.is_losing());
    }

    #[test]
    fn an_output_that_answers_at_once_is_tried_again() {
        let (queue, tell, lines) = told();
        queue.push(b"line\n");
        tell.send(Err(ErrorKind::WouldBlock.into())).unwrap();
        tell.send(Err(ErrorKind::Interrupted.into())).unwrap();
        tell.send(Ok(usize::MAX)).unwrap();
        assert_eq!(lines.recv().unwrap(), "line\n");
        queue.flush(Duration::from_secs(30));
        assert!(!queue.is_losing());
    }
}
