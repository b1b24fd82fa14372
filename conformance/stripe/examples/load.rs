//! How many payments per second of processor time the fake makes: `load TARGET PID PAYMENTS CONNECTIONS`.
//!
//! TARGET is `127.0.0.1:PORT`; PID is the fake's, whose processor time is read from `/proc`.

use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Instant;

type Failure = Box<dyn Error + Send + Sync>;

const KEY: &str = "Authorization: Bearer sk_test_load";
const FORM: &str = "Content-Type: application/x-www-form-urlencoded";
/// `USER_HZ`, the unit of `/proc/PID/stat`.
const TICKS_PER_S: f64 = 100.0;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [target, pid, payments, connections] = arguments.as_slice() else {
        return Err("TARGET PID PAYMENTS CONNECTIONS".into());
    };
    let (payments, connections): (usize, usize) = (payments.parse()?, connections.parse()?);
    let (started, cpu) = (Instant::now(), cpu_s(pid)?);
    let threads: Vec<_> = (0..connections)
        .map(|number| {
            let target = target.clone();
            std::thread::spawn(move || pay(&target, number, payments / connections))
        })
        .collect();
    for thread in threads {
        thread.join().map_err(|_| "a connection panicked")??;
    }
    let (wall, cpu) = (started.elapsed().as_secs_f64(), cpu_s(pid)? - cpu);
    let payments = payments as f64;
    println!(
        "{payments} payments in {wall:.2} s ({:.0}/s), {cpu:.2} s of the fake's processor time ({:.0}/s)",
        payments / wall,
        payments / cpu
    );
    Ok(())
}

/// A customer with a card, then one payment after the other.
fn pay(target: &str, number: usize, payments: usize) -> Result<(), Failure> {
    let stream = TcpStream::connect(target)?;
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream);
    let customer = id(&post(&mut reader, "/v1/customers", "", "")?, "cus_")?;
    let method = id(
        &post(
            &mut reader,
            "/v1/payment_methods/pm_card_visa/attach",
            "",
            &format!("customer={customer}"),
        )?,
        "pm_1",
    )?;
    for n in 0..payments {
        let body = format!(
            "amount=1000&currency=usd&customer={customer}&payment_method={method}&confirm=true&off_session=true\
             &payment_method_types[]=card&metadata[payment]={number}-{n}&metadata[transaction]={n}&metadata[tenant]=t"
        );
        let key = format!("Idempotency-Key: {number}-{n}-create\r\n");
        let answer = post(&mut reader, "/v1/payment_intents", &key, &body)?;
        if !answer.contains("\"status\":\"succeeded\"") {
            return Err(answer.into());
        }
    }
    Ok(())
}

fn post(
    connection: &mut BufReader<TcpStream>,
    path: &str,
    headers: &str,
    body: &str,
) -> Result<String, Failure> {
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: fake\r\n{KEY}\r\n{FORM}\r\n{headers}Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    connection.get_mut().write_all(request.as_bytes())?;
    let (mut line, mut bytes) = (String::new(), 0);
    loop {
        line.clear();
        if connection.read_line(&mut line)? == 0 {
            return Err("the connection was closed".into());
        }
        if let Some(length) = line.strip_prefix("content-length: ") {
            bytes = length.trim().parse()?;
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut answer = vec![0; bytes];
    connection.read_exact(&mut answer)?;
    Ok(String::from_utf8(answer)?)
}

fn id(answer: &str, prefix: &str) -> Result<String, Failure> {
    let from = answer.find(&format!("\"id\":\"{prefix}")).ok_or_else(|| answer.to_owned())? + 6;
    Ok(answer[from..].split('"').next().unwrap_or_default().to_owned())
}

fn cpu_s(pid: &str) -> Result<f64, Failure> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let fields: Vec<&str> =
        stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks: f64 = fields[11].parse::<f64>()? + fields[12].parse::<f64>()?;
    Ok(ticks / TICKS_PER_S)
}
