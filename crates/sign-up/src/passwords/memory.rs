//! The memory of a hash, in large pages where the system has them.

use argon2::Block;

/// Allocates blocks.
///
/// A hash accesses all of its memory at random, so that with pages of 4 KiB half of the accesses
/// miss the TLB; pages of 2 MiB save a tenth of its time.
pub(super) fn blocks(count: usize) -> Vec<Block> {
    let mut blocks = Vec::with_capacity(count);
    // Before it is touched: pages that exist already stay small.
    prefer_large_pages(&mut blocks);
    blocks.resize(count, Block::new());
    blocks
}

/// Without large pages (`/sys/kernel/mm/transparent_hugepage/enabled` is `never`) hashes are only
/// slower.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "advice about memory is given by its address")]
fn prefer_large_pages(blocks: &mut Vec<Block>) {
    use rustix::mm::{Advice, madvise};
    // The size of a huge page on x86-64, and on AArch64 with pages of 4 KiB.
    const PAGE_BYTES: usize = 2 * 1024 * 1024;
    let memory = blocks.spare_capacity_mut();
    let (start, bytes) = (memory.as_mut_ptr().cast::<u8>(), std::mem::size_of_val(memory));
    // Only whole pages: other allocations share the first and the last one.
    let skipped = start.align_offset(PAGE_BYTES);
    let Some(whole) = bytes.checked_sub(skipped).map(|rest| rest / PAGE_BYTES * PAGE_BYTES) else {
        return;
    };
    if whole == 0 {
        return;
    }
    let start = start.wrapping_add(skipped);
    // SAFETY: the range lies within memory that is borrowed here, and this advice changes neither
    // its contents nor the permitted accesses.
    let advised = unsafe { madvise(start.cast(), whole, Advice::LinuxHugepage) };
    if let Err(error) = advised {
        tracing::debug!(%error, "large pages are not available; passwords are hashed in small pages");
    }
}

#[cfg(not(target_os = "linux"))]
const fn prefer_large_pages(_: &mut Vec<Block>) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_zeroed_and_have_the_requested_count() {
        for count in [0, 1, 64, 5000, 19 * 1024] {
            let blocks = blocks(count);
            assert_eq!(blocks.len(), count);
            assert!(blocks.iter().all(|it| it.as_ref().iter().all(|word| *word == 0)));
        }
    }
}
