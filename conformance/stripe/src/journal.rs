//! The journal: a line for each request that changed something, durable before it is answered.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::sync::mpsc;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::account::Row;
use crate::idempotency::StoredKey;

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Line {
    pub account: String,
    pub livemode: bool,
    /// The count of ids, so that none is given twice.
    pub ids: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<Row>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stored: Option<StoredKey>,
    /// How far the fake's clock is from the machine's, where it was moved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_offset_ms: Option<i64>,
    /// Events that an endpoint took: `ENDPOINT EVENT`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub delivered: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revoked_key: Option<String>,
}

/// Lines are numbered from 1 in each run.
pub struct Journal {
    lines: Option<mpsc::Sender<Vec<u8>>>,
    appended: u64,
    durable: watch::Receiver<u64>,
}

impl Journal {
    /// Keeps nothing.
    pub fn none() -> Journal {
        Journal { lines: None, appended: 0, durable: watch::channel(0).1 }
    }

    /// Reads what is there, and goes on behind the last whole line.
    pub fn open(
        path: &Path,
        is_synced: bool,
        mut apply: impl FnMut(Line),
    ) -> std::io::Result<Journal> {
        let file = OpenOptions::new().create(true).read(true).append(true).open(path)?;
        let mut reader = BufReader::new(&file);
        let (mut line, mut whole) = (Vec::new(), 0);
        while reader.read_until(b'\n', &mut line)? > 0 && line.ends_with(b"\n") {
            apply(serde_json::from_slice(&line)?);
            whole += line.len() as u64;
            line.clear();
        }
        // What a kill left of a line was not answered.
        file.set_len(whole)?;
        let (lines, received) = mpsc::channel();
        let (durable_at, durable) = watch::channel(0);
        std::thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || write(file, is_synced, &received, &durable_at))?;
        Ok(Journal { lines: Some(lines), appended: 0, durable })
    }

    /// Returns the line's number.
    pub fn append(&mut self, line: &Line) -> u64 {
        if let Some(lines) = &self.lines {
            let mut bytes = serde_json::to_vec(line).expect("rows are JSON");
            bytes.push(b'\n');
            lines.send(bytes).expect("the journal's thread ends with the process");
            self.appended += 1;
        }
        self.appended
    }

    pub fn appended(&self) -> u64 {
        self.appended
    }

    pub fn is_durable(&self, line: u64) -> bool {
        *self.durable.borrow() >= line
    }

    pub fn durable(&self) -> watch::Receiver<u64> {
        self.durable.clone()
    }
}

/// Writes all that waits at once, and syncs it once. A journal that cannot be written ends the process:
/// no answer may be sent that is not in it.
fn write(
    mut file: File,
    is_synced: bool,
    lines: &mpsc::Receiver<Vec<u8>>,
    durable: &watch::Sender<u64>,
) {
    let mut written = 0;
    while let Ok(mut batch) = lines.recv() {
        written += 1;
        while let Ok(line) = lines.try_recv() {
            batch.extend_from_slice(&line);
            written += 1;
        }
        let done =
            file.write_all(&batch).and_then(|()| if is_synced { file.sync_data() } else { Ok(()) });
        if let Err(error) = done {
            eprintln!("failed to write the journal: {error}; the fake ends");
            std::process::exit(1);
        }
        durable.send_replace(written);
    }
}
