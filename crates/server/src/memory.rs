//! Memory: which allocator.

/// Serves SQLite too. Memory goes from thread to thread here (a request is read on one and written
/// on another), which costs the system's allocator a tenth of the server's time. Large blocks, such
/// as the 19 MiB of a password's hash, go back to the system as soon as they are freed, and the rest
/// ten seconds later, by a thread of the allocator's own.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;
