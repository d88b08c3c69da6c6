//! Says where libleafd is: in LEAFD_LIB_DIR, or where pkg-config finds it.
use std::{env, process::Command};

fn main() {
    println!("cargo:rerun-if-env-changed=LEAFD_LIB_DIR");
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
    if let Ok(dir) = env::var("LEAFD_LIB_DIR") {
        println!("cargo:rustc-link-search=native={dir}");
        return;
    }
    let said = Command::new("pkg-config").args(["--variable=libdir", "libleafd"]).output();
    match said {
        Ok(said) if said.status.success() => println!(
            "cargo:rustc-link-search=native={}",
            String::from_utf8_lossy(&said.stdout).trim()
        ),
        _ => println!(
            "cargo:warning=pkg-config finds no libleafd: set LEAFD_LIB_DIR to where libleafd.so is"
        ),
    }
}
