//! `faregate iso8583`: messages on the command line, and a responder with its load client.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Output, Stdio};

use serde_json::{Value, json};

use crate::process::{TIMEOUT, TempDir, faregate, run};

/// Runs a command with something on standard input.
fn fed(arguments: &[&str], input: &[u8]) -> Output {
    let mut command = faregate(&[&["iso8583"], arguments].concat());
    let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = pipes.spawn().unwrap();
    // What refuses its arguments does not read.
    drop(child.stdin.take().unwrap().write_all(input));
    child.wait_with_output().unwrap()
}

fn said(output: &Output) -> String {
    let code = output.status.code().unwrap();
    let [output, errors] =
        [&output.stdout, &output.stderr].map(|it| String::from_utf8(it.clone()).unwrap());
    if code == 0 { output } else { format!("{code}: {output}{errors}") }
}

/// Runs a command without standard input.
fn check(arguments: &[&str], expected: &str) {
    let output = run(&[&["iso8583"], arguments].concat());
    assert_eq!(said(&output), expected, "{arguments:?}");
}

const PURCHASE: &str = "\
    {\"0\":\"0200\",\"2\":\"4761739001010119\",\"3\":\"000000\",\"11\":\"000001\",\
    \"52\":{\"bin\":\"1122334455667788\"}}\n";
const PURCHASE_HEX: &str = "0200602000000000100016476173900101011900000000000111\
                            22334455667788\n";

#[test]
fn fields_become_bytes_and_come_back() {
    let iso87b = ["--packager", "iso87b"];
    let encoded = fed(&[&["encode"], &iso87b[..]].concat(), PURCHASE.as_bytes());
    assert_eq!(said(&encoded), PURCHASE_HEX);
    let revealed = [&["decode", "--json", "--reveal"], &iso87b[..]].concat();
    assert_eq!(said(&fed(&revealed, PURCHASE_HEX.as_bytes())), PURCHASE);
    let binary = fed(&[&["encode", "--binary"], &iso87b[..]].concat(), PURCHASE.as_bytes());
    assert_eq!(said(&fed(&revealed, &binary.stdout)), PURCHASE);
    let fields = ["encode", "0=0200", "2=4761739001010119", "3=0", "11=1", "52:=1122334455667788"];
    check(&[&fields, &iso87b[..]].concat(), PURCHASE_HEX);
    check(
        &[&["encode", "--json", PURCHASE.trim()], &iso87b[..]].concat(),
        &format!("{{\"bytes\":33,\"hex\":\"{}\"}}\n", PURCHASE_HEX.trim()),
    );
}

#[test]
fn a_file_is_not_taken_for_a_message() {
    let dir = TempDir::new();
    let file = dir.path().join("messages.hex");
    std::fs::write(&file, PURCHASE_HEX).unwrap();
    let file = file.to_str().unwrap();
    let advice = format!(
        "2: faregate: {file} is a file: its messages are read from standard input, by < {file}\n"
    );
    check(&["decode", file, "--packager", "iso87b"], &advice);
}

/// A number of 15 digits, padded on the left, for a format that is padded on the right.
#[test]
fn a_card_number_with_the_other_padding_is_warned_of() {
    let warning = "field 2: the check digit of the card number (Luhn) is wrong, and right with \
                   `pad = \"left\"`";
    let read_by = |validation: &[&str], number: &str| {
        let message = format!("02004000000000000000{number}");
        let decode = ["iso8583", "decode", "--packager", "iso87b", &message];
        let output = run(&[&decode[..], validation].concat());
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(!errors.contains("7828224631") && !errors.contains("7144963539"), "{errors}");
        (output.status.code(), errors)
    };
    let read = |number: &str| read_by(&[], number);
    // Its last half byte is no padding, which is refused.
    let refused = "150378282246310005";
    let (code, errors) = read(refused);
    assert!(code == Some(1) && errors.contains(warning), "{errors}");
    assert_eq!(read_by(&["--validation", "strict"], refused), (code, errors));
    let lenient = read_by(&["--lenient"], refused);
    assert_eq!(lenient, (Some(0), format!("warning: {warning}\n")));
    assert_eq!(read_by(&["--validation", "lenient"], refused), lenient);
    // Its last half byte could be one: it is the number of another card.
    assert_eq!(read("150371449635390040"), (Some(0), format!("warning: {warning}\n")));
    assert_eq!(read("153714496353900400"), (Some(0), String::new()));
}

#[test]
fn card_data_is_masked_without_reveal() {
    let decode = ["decode", PURCHASE_HEX.trim(), "--packager", "iso87b"];
    let masked = "0 0200\n2 476173******0119\n3 000000\n11 000001\n52 <8 bytes>\n";
    check(&decode, masked);
    check(
        &[&decode[..], &["--json"]].concat(),
        "{\"0\":\"0200\",\"2\":{\"masked\":\"476173******0119\"},\"3\":\"000000\",\
         \"11\":\"000001\",\"52\":{\"masked\":\"<8 bytes>\"}}\n",
    );
    let revealed = "0 0200\n2 4761739001010119\n3 000000\n11 000001\n52 1122334455667788\n";
    check(&[&decode[..], &["--reveal"]].concat(), revealed);
    let dump = run(&[&["iso8583"], &decode[..], &["--dump"]].concat());
    let dump = said(&dump);
    assert!(dump.contains("000A  16 47 61 73 ** ** ** 01 19"), "{dump}");
    assert!(dump.ends_with(masked), "{dump}");
    let masked = r#"{"0":"0200","2":{"masked":"476173******0119"}}"#;
    check(&["encode", masked], "2: faregate: field 2 is masked: decode with --reveal\n");
}

#[test]
fn frames() {
    let encode = ["encode", "--packager", "iso87b", "0=0800", "11=1"];
    let nac = ["--channel", "nac:header=6000010002"];
    let frame = "00126000010002080000200000000000000000";
    let encoded = said(&run(&[&["iso8583"], &encode[..], &nac].concat()));
    assert_eq!(encoded, format!("{frame}01\n").replace("000000000001", "000000000001"));
    let two = format!("{}0000{}", encoded.trim(), encoded.trim());
    let decode = ["decode", "--packager", "iso87b", &two];
    let one = "channel header 6000010002\n0 0800\n11 000001\n";
    check(&[&decode[..], &nac].concat(), &format!("{one}keep-alive\n{one}"));
    let cut = &encoded.trim()[..30];
    check(
        &["decode", "--packager", "iso87b", cut, "--channel", "nac:header=6000010002"],
        "1: faregate: in the frame at byte 0: the message is cut off, 15 bytes after its beginning\n",
    );
}

#[test]
fn invalid_messages_and_arguments_are_reported() {
    check(
        &["decode", "3030"],
        "1: faregate: field 0 at byte 0: 4 bytes are needed, 2 are left; read as iso87a, \
         `--packager` names another format\n",
    );
    check(
        &["decode", "--input", "hex", "xy"],
        "2: faregate: hexadecimal digits in pairs were expected\n",
    );
    let dump =
        run(&["iso8583", "decode", "--dump", "--packager", "iso87b", "02001000000000000000AB"]);
    assert!(
        said(&dump).contains(
            "**                                               *                 not read"
        )
    );
    check(
        &["encode", "0=0200", "3=12x"],
        "1: faregate: field 3 at byte 2: a digit was expected, byte 78 was found\n",
    );
    check(&["encode", "0"], "2: faregate: argument 1: FIELD=VALUE or FIELD:=HEX was expected\n");
    let colon = said(&run(&["iso8583", "encode", "0=0200", "2:4761739001010119"]));
    assert_eq!(colon, "2: faregate: argument 2: FIELD=VALUE or FIELD:=HEX was expected\n");
    check(&["encode", "52:=1"], "2: faregate: argument 1: hex was expected\n");
    check(&["encode", "{\"0\":1}"], "2: faregate: field 0 is neither a text nor an object\n");
    let unknown = said(&run(&["iso8583", "decode", "--packager", "nobody", "30"]));
    assert!(
        unknown.starts_with("2: faregate: there is no packager `nobody`: one of iso87a,"),
        "{unknown}"
    );
    let missing = said(&run(&["iso8583", "decode", "--packager", "missing.toml", "30"]));
    assert!(missing.starts_with("2: faregate: cannot read missing.toml"), "{missing}");
    let channel = said(&run(&["iso8583", "decode", "--channel", "carrier-pigeon", "30"]));
    assert!(channel.contains("there is no channel `carrier-pigeon`"), "{channel}");
}

/// The bytes of an argument or of standard input are never guessed from half of a byte.
#[test]
fn hexadecimal_digits_are_in_pairs_without_0x() {
    let odd = "2: faregate: the message has 3 hexadecimal digits, but two of them make a byte; \
               for bytes as they are, use `--input binary`\n";
    let prefixed = "2: faregate: the message begins with `0x`; give the hexadecimal digits without \
                    it, or for bytes as they are, use `--input binary`\n";
    for notation in ["auto", "hex"] {
        check(&["decode", "--input", notation, "020"], odd);
        check(&["decode", "--input", notation, "02 0"], odd);
        check(&["decode", "--input", notation, "0x0200"], prefixed);
        check(&["decode", "--input", notation, "0X020"], prefixed);
        assert_eq!(said(&fed(&["decode", "--input", notation], b"020\n")), odd);
    }
    let read = "1: faregate: field 0 at byte 0: 4 bytes are needed, 3 are left; read as iso87a, \
                `--packager` names another format\n";
    check(&["decode", "--input", "binary", "020"], read);
    let raw = b"020020000000000000000000010x";
    let trailing = "1: faregate: message at byte 26: the end was expected, 2 more bytes were found; \
                    read as iso87a, `--packager` names another format\n";
    assert_eq!(said(&fed(&["decode"], raw)), trailing);
}

/// A packager file of jPOS with these fields besides the message type and the bitmap.
fn jpos_file(dir: &TempDir, attributes: &str, fields: &str) -> String {
    let field = |id, class, length| {
        format!("<isofield id='{id}' class='org.jpos.iso.{class}' length='{length}' name=''/>")
    };
    let usual = [field(0, "IFA_NUMERIC", 4), field(1, "IFB_BITMAP", 16)].concat();
    let usual = usual + &field(11, "IFA_NUMERIC", 6) + &field(39, "IF_CHAR", 2);
    let file = dir.path().join("packager.xml");
    std::fs::write(&file, format!("<isopackager {attributes}>{usual}{fields}</isopackager>"))
        .unwrap();
    file.to_str().unwrap().to_owned()
}

const WITH_HEADER: &str = "0102030405303230300020000000000000303030303432";

#[test]
fn headers_of_messages_are_kept_and_written_back() {
    let dir = TempDir::new();
    let file = jpos_file(&dir, "headerLength='5'", "");
    let encode = ["encode", "--packager", &file];
    let encoded = format!("{WITH_HEADER}\n");
    check(&[&encode[..], &["0=0200", "header=0102030405", "11=42"]].concat(), &encoded);
    let json = "{\"header\":\"0102030405\",\"0\":\"0200\",\"11\":\"000042\"}";
    check(&["decode", "--json", "--packager", &file, WITH_HEADER], &format!("{json}\n"));
    check(&[&encode[..], &[json]].concat(), &encoded);
    for (header, expected) in [
        ("header=0102", "1: faregate: message: a header of 5 bytes was expected, 2 were found"),
        ("header=01020", "2: faregate: argument 3: hex was expected"),
        ("channel_header=xy", "2: faregate: argument 3: hex was expected"),
    ] {
        let arguments = [&encode[..], &["0=0200", "11=42", header]].concat();
        check(&arguments, &format!("{expected}\n"));
    }
    // The answer has the header of its request.
    let responder = Responder::start(&["--packager", &file, "--channel", "nac"]);
    let mut stream = responder.connect();
    let request =
        message(&["0=0200", "header=0102030405", "11=42", "--packager", &file, "--channel", "nac"]);
    stream.write_all(&request).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let answer = rest(&mut stream);
    let decode = ["decode", "--packager", &file, "--channel", "nac"];
    assert_eq!(said(&fed(&decode, &answer)), "header 0102030405\n0 0210\n11 000042\n39 00\n");
}

#[test]
fn the_load_is_sent_with_headers() {
    let dir = TempDir::new();
    let file = jpos_file(&dir, "headerLength='5'", "");
    let arguments = ["--packager", &file, "--channel", "nac"];
    let responder = Responder::start(&arguments);
    let moment = ["--duration", "300ms", "--warm-up", "50ms", "--no-echo"];
    let load = load(responder.address, &[&arguments[..], &moment].concat());
    let report: Value = serde_json::from_str(&said(&load)).unwrap();
    assert_eq!(report["errors"], 0, "{report}");
    assert!(report["messages"].as_u64().unwrap() > 0, "{report}");
}

#[test]
fn the_third_bitmap_is_the_field_that_carries_it() {
    let dir = TempDir::new();
    let fields = "<isofield id='65' class='IFB_BITMAP' length='8' name=''/>\
        <isofield id='130' class='IFA_NUMERIC' length='2' name=''/>";
    let file = jpos_file(&dir, "thirdBitmapField='65'", fields);
    let hex = "303230308020000000000000800000000000000030303030343240000000000000003334";
    let packager = ["--packager", &file];
    check(&[&["encode", "0=0200", "11=42", "130=34"], &packager[..]].concat(), &format!("{hex}\n"));
    let shown = "0 0200\n11 000042\n65 4000000000000000\n130 34\n";
    check(&[&["decode", hex], &packager[..]].concat(), shown);
    check(&[&["decode", hex, "--reveal"], &packager[..]].concat(), shown);
    let json = "{\"0\":\"0200\",\"11\":\"000042\",\"65\":{\"bitmap\":\"4000000000000000\"},\
                \"130\":\"34\"}";
    check(&[&["decode", hex, "--json"], &packager[..]].concat(), &format!("{json}\n"));
    check(&[&["encode", json], &packager[..]].concat(), &format!("{hex}\n"));
    let dump = said(&run(&[&["iso8583", "decode", "--dump", hex], &packager[..]].concat()));
    let line =
        "001A  40 00 00 00 00 00 00 00                          @.......          65 bitmap\n";
    assert!(dump.contains(line), "{dump}");
}

#[test]
fn formats_are_listed_and_can_be_described_anew() {
    let listed = said(&run(&["iso8583", "packagers"]));
    assert!(listed.lines().any(|line| line.starts_with("iso87b ")), "{listed}");
    let described = said(&run(&["iso8583", "packagers", "--show", "iso87b"]));
    let dir = TempDir::new();
    let file = dir.path().join("mine.toml");
    std::fs::write(&file, described).unwrap();
    let encode = ["encode", PURCHASE.trim(), "--packager", file.to_str().unwrap()];
    check(&encode, PURCHASE_HEX);
    std::fs::write(&file, "fields = 3").unwrap();
    let refused = said(&run(&[&["iso8583"], &encode[..]].concat()));
    assert!(refused.contains("mine.toml is no packager"), "{refused}");
}

#[test]
fn vectors_are_checked() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/vectors/iso8583");
    let files: Vec<_> = folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.len() >= 16);
    let names = files.iter().map(|file| file.to_str().unwrap());
    let arguments: Vec<&str> = ["iso8583", "vectors"].into_iter().chain(names).collect();
    let output = run(&arguments);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(said(&output).matches(" 0 failed").count(), files.len());
    let dir = TempDir::new();
    let file = dir.path().join("wrong.json");
    let table = r#"{"0":{"class":"IFB_NUMERIC","len":4},"1":{"class":"IFB_BITMAP","len":16},
        "3":{"class":"IFB_NUMERIC","len":6}}"#;
    let case = r#"{"id":"a","fields":{"0":"0200","3":"1"},"packed":"02002000000000000000000002"}"#;
    std::fs::write(&file, format!(r#"{{"table":{table},"vectors":[{case}]}}"#)).unwrap();
    let output = said(&run(&["iso8583", "vectors", file.to_str().unwrap()]));
    assert!(output.starts_with("1: ") && output.contains("failed: a pack: should be"), "{output}");
    std::fs::write(&file, "{}").unwrap();
    let output = said(&run(&["iso8583", "vectors", file.to_str().unwrap()]));
    assert!(output.starts_with("2: ") && output.contains("no vectors in it"), "{output}");
}

#[test]
fn packing_is_measured() {
    let output = run(&["iso8583", "bench", "--json", "--seconds", "0.01"]);
    let report: Value = serde_json::from_str(&said(&output)).unwrap();
    for message in ["heavy", "0200", "0210"] {
        for operation in ["pack", "unpack", "pack_unpack", "update_pack_unpack"] {
            assert!(report[message][operation].as_f64().unwrap() > 0.0, "{report}");
        }
    }
    check(&["bench", "--seconds", "0"], "2: faregate: --seconds takes 0.01 to 60\n");
}

/// A running `faregate iso8583 serve`.
struct Responder {
    child: Child,
    address: SocketAddr,
}

impl Responder {
    fn start(arguments: &[&str]) -> Self {
        let mut command = faregate(&["iso8583", "serve", "--listen", "127.0.0.1:0"]);
        let command = command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").unwrap().parse().unwrap();
        Self { child, address }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The bytes of a message, framed.
fn message(arguments: &[&str]) -> Vec<u8> {
    let output = run(&[&["iso8583", "encode", "--binary"], arguments].concat());
    assert!(output.status.success(), "{}", said(&output));
    output.stdout
}

/// The bytes that the peer sends until it closes the connection.
fn rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = vec![];
    if let Err(error) = stream.read_to_end(&mut bytes) {
        // It closes without having read everything.
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}");
    }
    bytes
}

#[test]
fn requests_are_answered() {
    let nac = ["--packager", "iso87b", "--channel", "nac:header=6012345678"];
    let responder = Responder::start(&nac);
    let mut stream = responder.connect();
    let sale = ["0=0200", "2=4761739001010119", "4=100", "11=123456", "14=2912", "41=TERM0001"];
    let echo = ["0=0800", "11=2", "70=301"];
    let answer = ["0=0210", "11=9"];
    for fields in [&sale[..], &answer, &echo] {
        stream.write_all(&message(&[&nac[..], fields].concat())).unwrap();
    }
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let answers = rest(&mut stream);
    let decoded = said(&fed(&[&["decode", "--json", "--reveal"], &nac[..]].concat(), &answers));
    let decoded: Vec<Value> = decoded.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    let expected = [
        json!({"channel_header": "6056781234", "0": "0210", "2": "4761739001010119",
            "4": "000000000100", "11": "123456", "38": "123456", "39": "00", "41": "TERM0001"}),
        json!({"channel_header": "6056781234", "0": "0810", "11": "000002", "39": "00",
            "70": "301"}),
    ];
    assert_eq!(decoded, expected);
}

#[test]
fn requests_in_xml_are_answered() {
    let xml = ["--packager", "xml", "--channel", "xml"];
    let responder = Responder::start(&xml);
    let mut stream = responder.connect();
    stream.write_all(&message(&[&xml[..], &["0=0800", "11=000001"]].concat())).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let answer = String::from_utf8(rest(&mut stream)).unwrap();
    assert!(answer.contains("<field id=\"0\" value=\"0810\"/>"), "{answer}");
    assert!(answer.contains("<field id=\"39\" value=\"00\"/>"), "{answer}");
}

/// A malformed frame closes its connection after the messages before it were answered; other connections go on.
#[test]
fn malformed_frame_closes_the_connection() {
    let ascii = ["--packager", "iso87a", "--channel", "ascii:max-packet-length=200"];
    let responder = Responder::start(&[&ascii[..], &["--connections-max", "2"]].concat());
    let good = message(&[&ascii[..], &["0=0800", "11=000001"]].concat());
    let mut other = responder.connect();
    for bad in [&b"00X5"[..], b"0300", b"00040800"] {
        let mut stream = responder.connect();
        stream.write_all(&[&good, bad].concat()).unwrap();
        let answers = rest(&mut stream);
        assert!(answers.starts_with(b"00280810") && answers.len() == 32, "{answers:?}");
    }
    let _second = responder.connect();
    other.write_all(&good).unwrap();
    let mut answer = [0; 32];
    other.read_exact(&mut answer).unwrap();
    let mut third = responder.connect();
    drop(third.write_all(&good));
    assert_eq!(rest(&mut third), b"");
}

#[test]
fn an_idle_connection_is_closed() {
    let responder = Responder::start(&["--idle", "1"]);
    assert_eq!(rest(&mut responder.connect()), b"");
}

/// Runs the load client.
fn load(address: SocketAddr, arguments: &[&str]) -> Output {
    let address = address.to_string();
    let usual = ["bench", "iso8583", "--connect", &address, "--json", "--strict"];
    run(&[&usual[..], arguments].concat())
}

#[test]
fn the_load_is_answered_and_checked() {
    let moment = ["--duration", "300ms", "--warm-up", "50ms"];
    for (packager, channel) in
        [("iso87a", "ascii"), ("iso87b", "nac"), ("iso93a", "pad"), ("xml", "xml")]
    {
        let format = ["--packager", packager, "--channel", channel];
        let responder = Responder::start(&format);
        for in_flight in ["1", "64"] {
            let report = load(
                responder.address,
                &[&format[..], &moment, &["--in-flight", in_flight]].concat(),
            );
            let report: Value = serde_json::from_str(&said(&report)).unwrap();
            assert_eq!(report["errors"], 0, "{report}");
            for key in
                ["messages", "per_second", "p50_us", "p99_us", "cpu_seconds", "request_bytes"]
            {
                assert!(report[key].as_f64().unwrap() > 0.0, "{key}: {report}");
            }
            assert!(report["echo"]["per_second"].as_f64().unwrap() > 0.0, "{report}");
        }
    }
}

/// A server that answers otherwise, or not, is found out.
#[test]
fn wrong_responses_are_errors() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let answers = ["0=0210 11=000000 39=05", "0=0810 11=000001 39=00", "0=0210 11=000001 39=00"];
    let frames = answers.map(|fields| {
        let fields: Vec<&str> = fields.split(' ').collect();
        message(&[&["--channel", "ascii"], &fields[..]].concat())
    });
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        for frame in frames {
            let mut length = [0; 4];
            stream.read_exact(&mut length).unwrap();
            let length: usize = str::from_utf8(&length).unwrap().parse().unwrap();
            stream.read_exact(&mut vec![0; length]).unwrap();
            stream.write_all(&frame).unwrap();
        }
        // Held open until the client gives up.
        rest(&mut stream);
    });
    let output = said(&load(
        address,
        &["--no-echo", "--timeout", "1s", "--warm-up", "0", "--duration", "30s"],
    ));
    server.join().unwrap();
    let report = output.strip_prefix("1: ").expect(&output);
    let kinds = serde_json::from_str::<Value>(report).unwrap()["error_kinds"].clone();
    let expected = json!({"no answer in time": 1, "not approved": 1,
        "unexpected message type": 1, "unexpected trace number": 1});
    assert_eq!(kinds, expected, "{output}");
    let refused = said(&load(address, &["--no-echo"]));
    assert!(refused.contains("cannot connect to 127.0.0.1"), "{refused}");
}
