//! The global allocator: jemalloc.

/// Used by SQLite too. Memory moves between threads here (one reads a request, another writes it),
/// which costs a tenth of the server's time with the system's allocator. Large blocks, such as the
/// 19 MiB of a password hash, return to the system when they are freed, and the rest ten seconds
/// later on a background thread of the allocator.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;
