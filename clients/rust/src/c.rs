//! leafd.h, as far as the library calls it. What a structure has is fixed with the soname
//! (clients/c/tests/exports); the sizes are compared here.
use std::os::raw::{c_char, c_int, c_void};

#[repr(C)]
pub struct Leafd {
    _opaque: [u8; 0],
}
#[repr(C)]
pub struct Source {
    _opaque: [u8; 0],
}

#[repr(C)]
pub struct Error {
    pub code: [c_char; 40],
    pub status: c_int,
    pub retryable: bool,
    pub message: [c_char; 895],
    pub key: [c_char; 129],
}

#[repr(C)]
#[derive(Default)]
pub struct Series {
    pub first: i64,
    pub last: i64,
    pub increment: i64,
}

#[repr(C)]
#[derive(Default)]
pub struct Parts {
    pub time_ms: i64,
    pub worker_id: u32,
    pub sequence: u32,
}

#[repr(C)]
pub struct Event {
    pub kind: *const c_char,
    pub name: *const c_char,
    pub from: *const c_char,
    pub to: *const c_char,
    pub code: *const c_char,
    pub ids: u64,
    pub ms: i64,
}

pub const TEXT_BYTES: usize = 131;

const _: () = assert!(std::mem::size_of::<Error>() == 1072);
const _: () = assert!(std::mem::size_of::<Series>() == 24);
const _: () = assert!(std::mem::size_of::<Parts>() == 16);

#[link(name = "leafd")]
extern "C" {
    pub fn leafd_open(settings: *const *const c_char, error: *mut Error) -> *mut Leafd;
    pub fn leafd_close(leafd: *mut Leafd);
    pub fn leafd_free(leafd: *mut Leafd);
    pub fn leafd_on_event(
        leafd: *mut Leafd,
        hook: unsafe extern "C" fn(user: *mut c_void, event: *const Event),
        user: *mut c_void,
    );
    pub fn leafd_segment_close(segment: *mut Source);
    pub fn leafd_strict_close(strict: *mut Source);
    pub fn leafd_texts_close(texts: *mut Source);
    pub fn leafd_snowflake_close(snowflake: *mut Source);
    pub fn leafd_stats(leafd: *mut Leafd, stats: *mut crate::Stats, stats_bytes: usize);
    pub fn leafd_stats_text(leafd: *mut Leafd, text: *mut c_char, text_bytes: usize) -> usize;

    pub fn leafd_segment(l: *mut Leafd, tag: *const c_char, error: *mut Error) -> *mut Source;
    pub fn leafd_segment_next(segment: *mut Source, error: *mut Error) -> i64;
    pub fn leafd_segment_take(
        segment: *mut Source,
        count: usize,
        ids: *mut i64,
        deadline_ms: u32,
        error: *mut Error,
    ) -> c_int;
    pub fn leafd_segment_series(
        segment: *mut Source,
        count: u32,
        series: *mut Series,
        deadline_ms: u32,
        error: *mut Error,
    ) -> c_int;

    pub fn leafd_strict(l: *mut Leafd, tag: *const c_char, error: *mut Error) -> *mut Source;
    pub fn leafd_strict_series(
        strict: *mut Source,
        count: u32,
        key: *const c_char,
        series: *mut Series,
        replayed: *mut bool,
        deadline_ms: u32,
        error: *mut Error,
    ) -> c_int;

    pub fn leafd_texts(l: *mut Leafd, tag: *const c_char, error: *mut Error) -> *mut Source;
    pub fn leafd_texts_take(
        texts: *mut Source,
        count: u32,
        key: *const c_char,
        into: *mut [c_char; TEXT_BYTES],
        replayed: *mut bool,
        deadline_ms: u32,
        error: *mut Error,
    ) -> c_int;
    pub fn leafd_texts_decode(
        texts: *mut Source,
        text: *const c_char,
        deadline_ms: u32,
        error: *mut Error,
    ) -> i64;

    pub fn leafd_snowflake(l: *mut Leafd, name: *const c_char, error: *mut Error) -> *mut Source;
    pub fn leafd_snowflake_next_within(
        snowflake: *mut Source,
        deadline_ms: u32,
        error: *mut Error,
    ) -> i64;
    pub fn leafd_snowflake_at(snowflake: *mut Source, time_ms: i64, error: *mut Error) -> i64;
    pub fn leafd_snowflake_decode(
        snowflake: *mut Source,
        id: i64,
        parts: *mut Parts,
        error: *mut Error,
    ) -> c_int;
}
