//! The queue on a real broker, whose address is in `FAREGATE_TEST_KAFKA`; `conformance/run` starts one.

#[cfg(test)]
mod access;
#[cfg(test)]
mod bad_input;
#[cfg(test)]
mod dead_letters;
#[cfg(test)]
mod outages;
#[cfg(test)]
mod published;
#[cfg(test)]
mod questions;
#[cfg(test)]
mod requests;
#[cfg(test)]
mod scene;
#[cfg(test)]
mod setup;
#[cfg(test)]
mod signatures;
#[cfg(test)]
mod takeovers;
