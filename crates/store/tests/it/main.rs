//! The store's tests on real data: one binary, one file per area.

#[cfg(test)]
mod analytics;
#[cfg(test)]
mod audience;
#[cfg(test)]
mod backups;
#[cfg(test)]
mod balances;
#[cfg(test)]
mod billing;
#[cfg(test)]
mod blocking_states;
#[cfg(test)]
mod bounds;
#[cfg(test)]
mod chain;
#[cfg(test)]
mod changes;
#[cfg(test)]
mod claims;
#[cfg(test)]
mod commits;
#[cfg(test)]
mod control;
#[cfg(test)]
mod copies;
#[cfg(test)]
mod custom_fields;
#[cfg(test)]
mod customers;
#[cfg(test)]
mod damage;
#[cfg(test)]
mod delivery_log;
#[cfg(test)]
mod disputes;
mod entitlements;
#[cfg(test)]
mod flags;
#[cfg(test)]
mod folded;
#[cfg(test)]
mod history;
#[cfg(test)]
mod home;
#[cfg(test)]
mod insights;
#[cfg(test)]
mod method_steps;
mod order;
#[cfg(test)]
mod plans;
#[cfg(test)]
mod postgres;
#[cfg(test)]
mod queries;
#[cfg(test)]
mod refused;
#[cfg(test)]
mod scans;
#[cfg(test)]
#[cfg(test)]
mod sqlite;
#[cfg(test)]
mod tags;
mod timers;
#[cfg(test)]
mod usage;
#[cfg(test)]
mod verification;
#[cfg(test)]
mod watched;
#[cfg(test)]
mod workload;
