# Shortcuts only: each is one line that README or CONTRIBUTING spells out.

default:
    @just --list

demo:
    cargo run --release -- demo

test:
    cargo test --workspace

lint:
    cargo fmt --all --check && cargo clippy --workspace --all-targets --features iso8583/tokio,iso8583/bench,iso8583/vectors -- -D warnings

ci:
    .ci/run

conformance:
    conformance/run

# Replays one seed of the simulation: `just sim 42`
sim seed:
    cargo run --release -p sim -- run --seeds 1 --from {{seed}}

crash kills="10":
    cargo run --release -p sim -- crash --kills {{kills}}

bench what="smoke":
    bench/run {{what}}
