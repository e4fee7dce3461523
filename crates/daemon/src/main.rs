//! The `consort` program. What it does is in the library beside it.

fn main() -> std::process::ExitCode {
    consort_daemon::main()
}
