//! The queue on a real broker, whose address is in `FAREGATE_TEST_KAFKA`.
#![cfg(feature = "kafka_broker")]

mod bad_input;
mod letters;
mod outages;
mod published;
mod requests;
mod scene;
mod setup;
mod takeovers;
