//! Measures packing and unpacking per second of CPU time:
//! `cargo run --release -p iso8583 --features bench --example iso8583_bench -- [SECONDS]`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seconds: f64 = std::env::args().nth(1).map_or(Ok(1.0), |it| it.parse())?;
    println!("{}", iso8583::bench::run(seconds)?.to_json());
    Ok(())
}
