//! Has the linker of the shipped binary keep one of several functions with the same code: generic code has many.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|it| it == value);
    // Rust's own linker, which is the default of this target alone. Of the profiles only `dist` has this level.
    if is("TARGET", "x86_64-unknown-linux-gnu") && is("OPT_LEVEL", "3") {
        println!("cargo:rustc-link-arg-bins=-Wl,--icf=all");
    }
}
