//! The room on the disk of the data directory: measured with every probe, as metrics and a warning.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

/// Free bytes below which the disk counts as full.
const FREE_BYTES_MIN: u64 = 1024 * 1024;

/// The share of the disk, one in this many, below which free space is short.
const FREE_SHARE_MIN: u64 = 10;

/// The disk of a data directory.
pub struct Disk {
    data_dir: PathBuf,
    is_short: AtomicBool,
}

/// The bytes of a disk.
#[derive(Clone, Copy)]
struct Space {
    free: u64,
    total: u64,
}

impl Space {
    const fn is_full(self) -> bool {
        self.free < FREE_BYTES_MIN
    }

    const fn is_short(self) -> bool {
        self.free < self.total / FREE_SHARE_MIN
    }
}

impl Disk {
    pub const fn new(data_dir: PathBuf) -> Self {
        Self { data_dir, is_short: AtomicBool::new(false) }
    }

    /// Measures it, and warns once when free space becomes short. Returns whether the disk is full;
    /// not if it cannot be measured.
    pub fn measure(&self) -> bool {
        let Ok(disk) = rustix::fs::statvfs(&self.data_dir) else { return false };
        let bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
        let space = Space { free: bytes(disk.f_bavail), total: bytes(disk.f_blocks) };
        #[expect(clippy::cast_precision_loss, reason = "metrics")]
        {
            metrics::gauge!("faregate_disk_free_bytes").set(space.free as f64);
            metrics::gauge!("faregate_disk_size_bytes").set(space.total as f64);
        }
        let was_short = self.is_short.swap(space.is_short(), Ordering::Relaxed);
        if space.is_short() && !was_short {
            tracing::warn!(
                free_bytes = space.free,
                size_bytes = space.total,
                data_dir = %self.data_dir.display(),
                "the disk is nearly full; once it is full, writes are refused and reads are served"
            );
        }
        space.is_full()
    }
}

/// Publishes whether writes are refused because the disk is full.
pub fn gauge_degraded(is_full: bool) {
    metrics::gauge!("faregate_degraded", "reason" => "disk_full").set(f64::from(u8::from(is_full)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_short_of_space_before_it_is_full() {
        const MIB: u64 = 1024 * 1024;
        let states = |free| {
            let space = Space { free, total: 100 * MIB };
            (space.is_short(), space.is_full())
        };
        assert_eq!(states(10 * MIB), (false, false));
        assert_eq!(states(10 * MIB - 1), (true, false));
        assert_eq!(states(MIB), (true, false));
        assert_eq!(states(MIB - 1), (true, true));
    }
}
