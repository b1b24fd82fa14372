//! The memory that passwords are hashed in: in large pages, where the system has them.

use argon2::Block;

/// Makes so many blocks.
///
/// A hash jumps through all of its memory, and with pages of 4 KiB looks half of them up in the page
/// table anew: pages of 2 MiB save a tenth of its time.
pub(super) fn blocks(count: usize) -> Vec<Block> {
    let mut blocks = Vec::with_capacity(count);
    // Before it is touched: what is there already stays in small pages.
    prefer_large_pages(&mut blocks);
    blocks.resize(count, Block::new());
    blocks
}

/// Where there are none (`/sys/kernel/mm/transparent_hugepage/enabled` says `never`), hashes are slower
/// and otherwise the same.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "advice about memory is given by its address")]
fn prefer_large_pages(blocks: &mut Vec<Block>) {
    use rustix::mm::{Advice, madvise};
    // What the processor calls a huge page, on x86-64 and with pages of 4 KiB on AArch64.
    const PAGE_BYTES: usize = 2 * 1024 * 1024;
    let memory = blocks.spare_capacity_mut();
    let (start, bytes) = (memory.as_mut_ptr().cast::<u8>(), std::mem::size_of_val(memory));
    // Whole pages within: the allocator has neighbours on the others.
    let skipped = start.align_offset(PAGE_BYTES);
    let Some(whole) = bytes.checked_sub(skipped).map(|rest| rest / PAGE_BYTES * PAGE_BYTES) else {
        return;
    };
    if whole == 0 {
        return;
    }
    let start = start.wrapping_add(skipped);
    // SAFETY: the range lies within memory that is borrowed here, and this advice changes neither its
    // contents nor what may be done with it.
    let advised = unsafe { madvise(start.cast(), whole, Advice::LinuxHugepage) };
    if let Err(error) = advised {
        tracing::debug!(%error, "passwords are hashed in small pages");
    }
}

#[cfg(not(target_os = "linux"))]
const fn prefer_large_pages(_: &mut Vec<Block>) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_as_are_asked_for() {
        for count in [0, 1, 64, 5000, 19 * 1024] {
            let blocks = blocks(count);
            assert_eq!(blocks.len(), count);
            assert!(blocks.iter().all(|it| it.as_ref().iter().all(|word| *word == 0)));
        }
    }
}
