//! Where a message begins and ends in a stream of bytes.
