//! Tests of allocations: none with reused messages and buffers, and few for any message.
//!
//! This is a binary of its own, because a global allocator applies to the whole program.
#![expect(
    unsafe_code,
    reason = "only an allocator can count, and the trait of allocators is unsafe"
)]
#![expect(clippy::unwrap_used, reason = "whatever is missing here fails the test")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use iso8583::{Error, Index, Message, Packager, Validation};
use proptest::prelude::*;

#[path = "it/tables.rs"]
mod tables;

/// The system's allocator with counters per thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
    static BYTES: Cell<usize> = const { Cell::new(0) };
}

fn count(bytes: usize) {
    ALLOCATIONS.set(ALLOCATIONS.get() + 1);
    BYTES.set(BYTES.get() + bytes);
}

// SAFETY: all calls are forwarded to the system's allocator without a change.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller fulfils the contract of this function.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The number of allocations and of allocated bytes.
fn allocated(work: impl FnOnce()) -> (usize, usize) {
    let before = (ALLOCATIONS.get(), BYTES.get());
    work();
    (ALLOCATIONS.get() - before.0, BYTES.get() - before.1)
}

/// Runs the work three times with values of different lengths, and counts the allocations of a fourth
/// run.
fn check(what: &str, mut work: impl FnMut(usize) -> Result<(), Error>) {
    for turn in [2, 0, 1] {
        work(turn).unwrap();
    }
    let (times, bytes) = allocated(|| work(1).unwrap());
    assert_eq!((times, bytes), (0, 0), "{what}");
}

const CARD_NUMBERS: [&str; 3] = ["4761739001010119", "476173900101011", "4761739001010119123"];
const TEXTS: [&str; 3] = ["one", "", "three and three more"];

#[test]
fn reused_messages_do_not_allocate() {
    for packager in [tables::mixed(), tables::mixed().with_validation(Validation::Lenient)] {
        let mut message = Message::new(&packager);
        check("building", |turn| build(&mut message, turn));
        let mut out = vec![];
        check("packing", |_| {
            out.clear();
            message.pack_into(&mut out)
        });
        check("updating", |turn| {
            message.set(4, &"123456789012"[turn..])?;
            message.set(44, TEXTS[turn])?;
            message.set([48, 3], TEXTS[turn])?;
            message.set([60, 2], &"12"[..turn])?;
            message.remove(70)?;
            message.set(70, "301")?;
            message.set(43, "Caf\u{e9}")?;
            out.clear();
            message.pack_into(&mut out)
        });
        let mut loaded = Message::new(&packager);
        check("loading", |_| loaded.load(&out));
        let (mut index, mut inner, mut value) = (Index::new(), Index::new(), vec![]);
        check("reading", |_| {
            for field in packager.unpack(&out, &mut index)?.fields() {
                value.clear();
                field.read(&mut value);
                if field.is_composite() {
                    let inside = field.nested(&mut inner)?;
                    inside.fields().for_each(|field| field.read(&mut value));
                }
            }
            Ok(())
        });
    }
}

#[test]
fn pack_values_does_not_allocate() {
    let packager = tables::mixed();
    let mut out = vec![];
    check("packing values", |turn| {
        out.clear();
        packager.pack_values(
            &[
                (0, b"0200"),
                (2, CARD_NUMBERS[turn].as_bytes()),
                (4, b"1"),
                (35, b"4761739001010119=2912"),
                (41, TEXTS[turn].get(..3).unwrap_or_default().as_bytes()),
                (43, TEXTS[turn].as_bytes()),
                (90, b"0"),
                (128, b"12345678"),
            ],
            &mut out,
        )
    });
}

#[test]
fn decoded_composite_fields_do_not_allocate() {
    let packager = tables::packager(
        "0 IFA_NUMERIC 4\n1 IFB_BITMAP 16\n48 IFE_LLLCHAR 99\n  1 IFA_LLNUM 2\n  2 IFA_LLCHAR 40\n",
    );
    let mut message = Message::new(&packager);
    let (mut index, mut inner, mut out) = (Index::new(), Index::new(), vec![]);
    check("decoding", |turn| {
        message.set(0, "0800")?;
        message.set([48, 1], &"12"[..turn.min(2)])?;
        message.set([48, 2], TEXTS[turn])?;
        out.clear();
        message.pack_into(&mut out)?;
        let view = packager.unpack(&out, &mut index)?;
        let field = view.field(48).expect("it was set");
        field.nested(&mut inner).map(drop)
    });
}

fn build(message: &mut Message, turn: usize) -> Result<(), Error> {
    message.clear();
    message.set(0, "0200")?;
    message.set(2, CARD_NUMBERS[turn])?;
    message.set(3, "1")?;
    message.set(35, "4761739001010119=29122011234")?;
    message.set_bytes(52, &[7; 8])?;
    message.set([48, 1], "12")?;
    message.set([48, 3], TEXTS[turn])?;
    message.set([60, 2], "open")?;
    message.set([62, 2], TEXTS[turn])?;
    message.set(44, TEXTS[turn])?;
    message.set(128, "87654321")
}

/// The maximum of allocated bytes for a message.
const MESSAGE_BYTES_MAX: usize = 1024 * 1024;

/// The formats of hostile messages: all built-in ones, and one with a field of each kind.
fn packagers() -> Vec<Packager> {
    let names = Packager::built_in_names().iter();
    let built_in = names.map(|name| Packager::built_in(name).expect("the name is listed"));
    built_in.chain([tables::mixed()]).collect()
}

/// A message type and a bitmap of all fields in the encodings of the formats.
fn starts() -> Vec<Vec<u8>> {
    let text = |fill: &str| format!("0200{}", fill.repeat(16)).into_bytes();
    vec![
        text("F"),
        [b"0200", [0xFF; 16].as_slice()].concat(),
        [[0x02, 0x00].as_slice(), &[0xFF; 16]].concat(),
        [[0x02, 0x00].as_slice(), &[0x7F; 8]].concat(),
        [[0xF0, 0xF2, 0xF0, 0xF0].as_slice(), &[0xC6; 32]].concat(),
        b"<isomsg><field id=\"48\"><isomsg><field id=\"1\" value=\"".to_vec(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn hostile_messages_allocate_little(
        start in prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..40),
            proptest::sample::select(starts()),
        ],
        fill in prop_oneof![Just(b'9'), Just(0x99), Just(0xFF), Just(0xF9), Just(0), any::<u8>()],
        length in 0_usize..70_000,
    ) {
        let mut bytes = start;
        bytes.resize(length.max(bytes.len()), fill);
        for packager in packagers() {
            for validation in [Validation::Strict, Validation::Lenient] {
                let packager = packager.with_validation(validation);
                let (_, read) = allocated(|| {
                    let mut index = Index::new();
                    let _ = packager.unpack(&bytes, &mut index).map(|view| view.fields().count());
                });
                prop_assert!(read < MESSAGE_BYTES_MAX, "{read} bytes by {}", packager.name());
                let mut message = Message::new(&packager);
                let (_, loaded) = allocated(|| {
                    let _ = message.load(&bytes);
                });
                prop_assert!(loaded < MESSAGE_BYTES_MAX, "{loaded} bytes by {}", packager.name());
            }
        }
    }
}
