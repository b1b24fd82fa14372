//! Requests that differ by their trace number, and the check of their responses.

use anyhow::Context as _;
use iso8583::message_type::response_to;
use iso8583::{Index, Message, MessageView, Packager};

/// The system trace audit number has six digits.
const TRACE_NUMBERS: u32 = 1_000_000;

/// A purchase as a terminal sends it. Fields unknown to the packager are omitted.
const FIELDS: [(u16, &str); 17] = [
    (2, "4761739001010119"),
    (3, "000000"),
    (4, "000000012345"),
    (7, "1120111559"),
    (12, "111559"),
    (13, "1120"),
    (14, "2912"),
    (18, "5411"),
    (22, "051"),
    (25, "00"),
    (32, "12345678901"),
    (35, "4761739001010119=29122011234567890"),
    (37, "632511123456"),
    (41, "TERM0001"),
    (42, "MERCHANT0000001"),
    (43, "ACME STORE            MONTEVIDEO    UYUY"),
    (49, "840"),
];

/// Builds requests and checks responses.
pub struct Requests {
    packager: Packager,
    message: Message,
    index: Index,
    value: Vec<u8>,
    response: [u8; 4],
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Each slot cycles through so many trace numbers of its own.
    numbers_per_slot: u32,
}

/// A request in flight, or none.
#[derive(Clone, Copy, Default)]
struct Slot {
    next: u32,
    is_waiting: bool,
}

impl Requests {
    /// Requests of a message type, at most `in_flight` at a time.
    ///
    /// # Errors
    /// If the packager cannot carry them, or messages of the type have no response.
    pub fn new(packager: &Packager, message_type: &str, in_flight: u16) -> anyhow::Result<Self> {
        let response = response_to(message_type.as_bytes());
        let response = response.with_context(|| format!("`{message_type}` is no request"))?;
        let mut message = Message::new(packager);
        // The meaning of a header's bytes is not known here.
        message.set_header(&vec![0; packager.header_bytes()]).context("the header")?;
        message.set(0, message_type).context("the message type")?;
        message.set(11, "000000").context("the trace number")?;
        for (number, value) in FIELDS {
            // Formats differ: a field that this one lacks is omitted.
            let _is_set = message.set(number, value).is_ok();
        }
        let in_flight = u32::from(in_flight);
        Ok(Self {
            packager: packager.clone(),
            message,
            index: Index::new(),
            value: vec![],
            response,
            slots: vec![Slot::default(); in_flight as usize],
            free: (0..in_flight).collect(),
            numbers_per_slot: TRACE_NUMBERS / in_flight,
        })
    }

    /// Appends an example of a request.
    ///
    /// # Errors
    /// If it cannot be packed.
    pub fn example(&self, packed: &mut Vec<u8>) -> Result<(), iso8583::Error> {
        self.message.pack_into(packed)
    }

    /// Requests in flight.
    pub fn waiting(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Stops waiting for all requests in flight. Returns their number.
    pub fn give_up(&mut self) -> u64 {
        let mut count = 0;
        for (slot, number) in self.slots.iter_mut().zip(0..) {
            if slot.is_waiting {
                *slot = Slot { next: (slot.next + 1) % self.numbers_per_slot, is_waiting: false };
                self.free.push(number);
                count += 1;
            }
        }
        count
    }

    /// Appends the next request and returns its slot; `None`: no slot is free.
    ///
    /// # Errors
    /// If it cannot be packed.
    pub fn next(&mut self, packed: &mut Vec<u8>) -> Result<Option<usize>, iso8583::Error> {
        let Some(number) = self.free.pop() else { return Ok(None) };
        let slot = &mut self.slots[number as usize];
        slot.is_waiting = true;
        let digits = digits(number * self.numbers_per_slot + slot.next);
        self.message.set(11, str::from_utf8(&digits).unwrap_or_default())?;
        self.message.pack_into(packed)?;
        Ok(Some(number as usize))
    }

    /// Checks a response and frees its slot, which it returns.
    ///
    /// # Errors
    /// The kind of error, if it is no response to a request in flight, or no approval.
    pub fn take(&mut self, body: &[u8]) -> Result<usize, &'static str> {
        let view = self.packager.unpack(body, &mut self.index).map_err(|_| "unreadable")?;
        let value = &mut self.value;
        let is_response = read(view, 0, value) == self.response;
        let number = number(read(view, 11, value)).ok_or("no trace number")?;
        let is_approved = matches!(read(view, 39, value), b"00" | b"000" | b"0000");
        let slot = self.slots.get_mut((number / self.numbers_per_slot) as usize);
        let slot =
            slot.filter(|slot| slot.is_waiting && slot.next == number % self.numbers_per_slot);
        let slot = slot.ok_or("unexpected trace number")?;
        slot.is_waiting = false;
        slot.next = (slot.next + 1) % self.numbers_per_slot;
        self.free.push(number / self.numbers_per_slot);
        if !is_response {
            return Err("unexpected message type");
        }
        if is_approved {
            Ok((number / self.numbers_per_slot) as usize)
        } else {
            Err("not approved")
        }
    }
}

/// A field's value; empty if the field is missing.
fn read<'a>(view: MessageView<'_>, number: u16, value: &'a mut Vec<u8>) -> &'a [u8] {
    value.clear();
    if let Some(field) = view.field(number) {
        field.read(value);
    }
    value
}

fn digits(number: u32) -> [u8; 6] {
    let mut digits = [b'0'; 6];
    let mut rest = number;
    for digit in digits.iter_mut().rev() {
        *digit += (rest % 10).to_le_bytes()[0];
        rest /= 10;
    }
    digits
}

fn number(digits: &[u8]) -> Option<u32> {
    let digit = |byte: &u8| byte.is_ascii_digit().then(|| u32::from(byte & 0x0F));
    let digits: &[u8; 6] = digits.try_into().ok()?;
    digits.iter().try_fold(0, |number, byte| Some(number * 10 + digit(byte)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A response of the type with these fields.
    fn answer(packager: &Packager, message_type: &str, fields: &[(u16, &str)]) -> Vec<u8> {
        let mut message = Message::new(packager);
        message.set(0, message_type).unwrap();
        for (number, value) in fields {
            message.set(*number, value).unwrap();
        }
        message.pack().unwrap()
    }

    #[test]
    fn responses_must_match_a_request_and_approve_it() {
        let packager = Packager::built_in("iso87a").unwrap();
        let mut requests = Requests::new(&packager, "0200", 2).unwrap();
        let mut check = |message_type: &str, fields: &[(u16, &str)], expected| {
            let mut packed = vec![];
            while requests.next(&mut packed).unwrap().is_some() {}
            let answer = answer(&packager, message_type, fields);
            assert_eq!(requests.take(&answer), expected, "{message_type} {fields:?}");
        };
        check("0210", &[(11, "500000"), (39, "00")], Ok(1));
        check("0210", &[(11, "500000"), (39, "00")], Err("unexpected trace number"));
        check("0210", &[(11, "500001"), (39, "05")], Err("not approved"));
        check("0230", &[(11, "500002"), (39, "00")], Err("unexpected message type"));
        check("0210", &[(11, "000001"), (39, "00")], Err("unexpected trace number"));
        check("0210", &[(11, "000000"), (39, "00")], Ok(0));
        check("0210", &[(39, "00")], Err("no trace number"));
        assert_eq!(requests.take(b"0210"), Err("unreadable"));
        assert_eq!(requests.give_up(), 2);
        assert_eq!(requests.waiting(), 0);
    }

    #[test]
    fn requests_have_the_header_of_their_format() {
        let text = r#"
            header_bytes = 5
            [fields]
            0 = { content = "digits", length = 4 }
            1 = { content = "bitmap", length = 8 }
            11 = { content = "digits", length = 6 }
        "#;
        let packager = Packager::from_toml(text).unwrap();
        let mut requests = Requests::new(&packager, "0800", 1).unwrap();
        let mut packed = vec![];
        requests.next(&mut packed).unwrap();
        let view = packager.unpack(&packed, &mut requests.index).unwrap();
        assert_eq!((view.header(), view.text(11)), (&[0; 5][..], Some("000000".to_owned())));
    }

    #[test]
    fn requests_differ_by_their_trace_number() {
        let packager = Packager::built_in("iso87a").unwrap();
        let mut requests = Requests::new(&packager, "0800", 1).unwrap();
        let mut index = Index::new();
        for number in 0..3 {
            let mut packed = vec![];
            requests.next(&mut packed).unwrap();
            let text = format!("{number:06}");
            assert_eq!(packager.unpack(&packed, &mut index).unwrap().text(11), Some(text.clone()));
            requests.take(&answer(&packager, "0810", &[(11, &text), (39, "00")])).unwrap();
        }
        let error = Requests::new(&packager, "0810", 1).err().map(|error| error.to_string());
        assert_eq!(error.as_deref(), Some("`0810` is no request"));
    }
}
