//! The global allocator: the server's, so that a load generator costs no more than it must.

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;
