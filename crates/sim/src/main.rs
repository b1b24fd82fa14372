//! The command line of the simulation and of the crash tests.

use sim::memory::MemoryDisk;
use sim::world::{Plan, World};

fn main() {
    let seeds: u64 = std::env::args().nth(1).and_then(|s| s.parse().ok()).unwrap_or(1);
    let from: u64 = std::env::args().nth(2).and_then(|s| s.parse().ok()).unwrap_or(0);
    let steps: u32 = std::env::args().nth(3).and_then(|s| s.parse().ok()).unwrap_or(300);
    let started = std::time::Instant::now();
    let mut failed = 0;
    for seed in from..from + seeds {
        let mut plan = Plan::new(seed, steps);
        if seeds == 1 {
            plan.trace_max = 1_000_000;
        }
        let ran = if std::env::var("SQLITE").is_ok() {
            World::new(plan, sim::sqlite::SqliteDisk::new(&std::env::temp_dir().join(format!("simdb{}", std::process::id()))).unwrap()).expect("opens").run()
        } else { World::new(plan, MemoryDisk::default()).expect("opens").run() };
        match ran {
            Ok(summary) => {
                if seeds < 20 {
                    println!("{seed}: {summary:?}")
                }
            }
            Err(failure) => {
                failed += 1;
                if failed <= 3 || seeds < 20 {
                    for line in failure
                        .trace
                        .iter()
                        .rev()
                        .take(if seeds == 1 { 1_000_000 } else { 0 })
                        .rev()
                    {
                        println!("  {line}");
                    }
                }
                println!("{seed}: {}: {}", failure.wrong.check, failure.wrong.context);
                if failed >= 12 {
                    break;
                }
            }
        }
    }
    println!("{failed} failed in {:?}", started.elapsed());
}
