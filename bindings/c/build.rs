//! Gives the shared library the name under which programs find it again.
fn main() {
    let version = env!("CARGO_PKG_VERSION_MAJOR");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libconsort_c.so.{version}");
    println!("cargo::rerun-if-changed=build.rs");
}
