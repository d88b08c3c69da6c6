//! Unique ids of a leafd cluster, over libleafd.
//!
//! ```no_run
//! let client = leafd::Client::open(["endpoints=http://10.0.0.1:8080,http://10.0.0.2:8080"])?;
//! let orders = client.segment("orders")?;
//! let id: u64 = orders.next()?;
//! # Ok::<(), leafd::Error>(())
//! ```
//!
//! What the library does, and what it promises, is in docs/clients.md of leafd; the settings are
//! those of `leafd_open()` in leafd.h.
//!
//! Failure modes: a call that fails gives an [`Error`], and returns within its deadline and 100 ms.
//!
//! Ownership: a client and its sources share what is below them; it is closed by
//! [`Client::close`], or with the last of them. Any thread may use all of it.
#![warn(missing_docs)]

mod c;

use std::cell::Cell;
use std::ffi::{CStr, CString};
use std::fmt;
use std::os::raw::{c_char, c_int, c_void};
use std::sync::Arc;
use std::time::Duration;

/// Why a call failed.
#[derive(Debug, Clone)]
pub struct Error {
    /// The server's ("unknown_tag"), or one of docs/clients.md.
    pub code: String,
    /// HTTP's; 0: no server answered.
    pub status: u16,
    /// What happened, for people.
    pub message: String,
    /// It would make sense to come again.
    pub retryable: bool,
    /// Of strict ids and texts: with this key the same ids can be asked for again, for a day.
    pub key: Option<String>,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "leafd: {}: {}", self.code, self.message)
    }
}

impl std::error::Error for Error {}

/// What a call gives.
pub type Result<T> = std::result::Result<T, Error>;

fn bad_setting(message: String) -> Error {
    Error { code: "bad_setting".into(), status: 0, message, retryable: false, key: None }
}

fn text(bytes: &[c_char]) -> String {
    let bytes: Vec<u8> = bytes.iter().map(|&byte| byte as u8).take_while(|&b| b != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Calls `body` with room for an error, which is made of it where `failed` says so.
fn call<T>(body: impl FnOnce(*mut c::Error) -> T, failed: impl FnOnce(&T) -> bool) -> Result<T> {
    let mut error = std::mem::MaybeUninit::<c::Error>::zeroed();
    let result = body(error.as_mut_ptr());
    if !failed(&result) {
        return Ok(result);
    }
    // SAFETY: all bytes are zero, or what the library has written, which is a bool where one is.
    let error = unsafe { error.assume_init() };
    let key = text(&error.key);
    Err(Error {
        code: text(&error.code),
        status: u16::try_from(error.status).unwrap_or(0),
        message: text(&error.message),
        retryable: error.retryable,
        key: if key.is_empty() { None } else { Some(key) },
    })
}

fn done(body: impl FnOnce(*mut c::Error) -> c_int) -> Result<()> {
    call(body, |result| *result != 0).map(|_| ())
}

fn id(body: impl FnOnce(*mut c::Error) -> i64) -> Result<u64> {
    call(body, |id| *id < 0).map(|id| id as u64)
}

/// A text for C, which would end at a 0.
fn word(text: &str, name: &str) -> Result<CString> {
    CString::new(text).map_err(|_| bad_setting(format!("{name} must not have a NUL in it")))
}

fn count_of(count: usize) -> Result<u32> {
    u32::try_from(count).map_err(|_| bad_setting(format!("count={count} is too large")))
}

/// C takes 0 for the client's own, which a deadline that has passed must not become.
fn ms_of(deadline: Option<Duration>) -> Result<u32> {
    match deadline.map(|deadline| deadline.as_millis()) {
        None => Ok(0),
        Some(ms) => u32::try_from(ms)
            .ok()
            .filter(|ms| *ms > 0)
            .ok_or_else(|| bad_setting(format!("deadline_ms={ms} must be from 1 to {}", u32::MAX))),
    }
}

/// What happened (docs/clients.md, Events). What does not belong to the kind is empty, or 0.
#[derive(Debug, Clone, Default)]
pub struct Event {
    /// Such as "failover".
    pub kind: String,
    /// Of the tag, or of the holder of the worker id.
    pub name: String,
    /// failover: the endpoint before; other_cluster: the one whose answer was ignored.
    pub from: String,
    /// failover: the endpoint from now on.
    pub to: String,
    /// refill_failed: the error's.
    pub code: String,
    /// aged, generation: how many were dropped.
    pub ids: u64,
    /// clock_back: how far.
    pub ms: i64,
}

type Hook = Box<dyn Fn(Event) + Send + Sync>;

unsafe extern "C" fn on_event(user: *mut c_void, event: *const c::Event) {
    let word = |text: *const c_char| CStr::from_ptr(text).to_string_lossy().into_owned();
    let event = &*event;
    let made = Event {
        kind: word(event.kind),
        name: word(event.name),
        from: word(event.from),
        to: word(event.to),
        code: word(event.code),
        ids: event.ids,
        ms: event.ms,
    };
    // A panic must not go through C.
    let hook = &*(user as *const Hook);
    let before = IN_HOOK.with(|running| running.replace(true));
    if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| hook(made))).is_err() {
        std::process::abort();
    }
    IN_HOOK.with(|running| running.set(before));
}

thread_local! {
    static IN_HOOK: Cell<bool> = const { Cell::new(false) };
}

/// The hook is freed after the client that calls it.
struct Handle(*mut c::Leafd, Option<Box<Hook>>);

// SAFETY: by leafd.h all functions may be called from any thread at any time, but for leafd_free(),
// which the last owner calls.
unsafe impl Send for Handle {}
unsafe impl Sync for Handle {}

impl Drop for Handle {
    fn drop(&mut self) {
        if !self.0.is_null() && IN_HOOK.with(Cell::get) {
            // A thread of the library's own, which goes on once the hook has returned. Where none can
            // be started, the client is closed, and its memory is not freed.
            let client = std::mem::replace(&mut self.0, std::ptr::null_mut());
            let rest = std::mem::ManuallyDrop::new(Handle(client, self.1.take()));
            let thread = std::thread::Builder::new();
            if thread.spawn(move || drop(std::mem::ManuallyDrop::into_inner(rest))).is_err() {
                // SAFETY: nothing frees the client any more.
                unsafe { c::leafd_close(client) }
            }
            return;
        }
        // SAFETY: nothing else has it any more, no call is under way, and null is no client.
        unsafe { c::leafd_free(self.0) }
    }
}

/// A source of libleafd. It belongs to the client, which lives as long.
#[derive(Clone)]
struct Source {
    pointer: *mut c::Source,
    _client: Arc<Handle>,
}

// SAFETY: as of Handle.
unsafe impl Send for Source {}
unsafe impl Sync for Source {}

type OpenSource = unsafe extern "C" fn(*mut c::Leafd, *const c_char, *mut c::Error) -> *mut c::Source;

/// One cluster: its addresses, token, TLS, connections and counters.
#[derive(Clone)]
pub struct Client(Arc<Handle>);

impl Client {
    /// A client with these settings, "name=value" each; without `endpoints` the environment has
    /// them.
    pub fn open<S: AsRef<str>>(settings: impl IntoIterator<Item = S>) -> Result<Client> {
        let texts = settings
            .into_iter()
            .map(|setting| word(setting.as_ref(), "a setting"))
            .collect::<Result<Vec<CString>>>()?;
        let mut words: Vec<*const c_char> = texts.iter().map(|text| text.as_ptr()).collect();
        words.push(std::ptr::null());
        // SAFETY: the texts live longer than the call, and a null ends them.
        let leafd =
            call(|error| unsafe { c::leafd_open(words.as_ptr(), error) }, |leafd| leafd.is_null())?;
        Ok(Client(Arc::new(Handle(leafd, None))))
    }

    /// As [`Client::open`], with a hook that is called at each event, in the thread that it happens
    /// in: it must return soon. A panic in it ends the process.
    pub fn open_with_events<S: AsRef<str>>(
        settings: impl IntoIterator<Item = S>,
        hook: impl Fn(Event) + Send + Sync + 'static,
    ) -> Result<Client> {
        let hook: Box<Hook> = Box::new(Box::new(hook));
        let user = &*hook as *const Hook as *mut c_void;
        let mut client = Client::open(settings)?;
        let handle = Arc::get_mut(&mut client.0).expect("nobody else has it yet");
        // SAFETY: the hook lives in the handle until after the client was freed.
        unsafe { c::leafd_on_event(handle.0, on_event, user) };
        handle.1 = Some(hook);
        Ok(client)
    }

    fn source(&self, open: OpenSource, name: Option<&str>) -> Result<Source> {
        let name = name.map(|name| word(name, "a name")).transpose()?;
        let name = name.as_ref().map_or(std::ptr::null(), |name| name.as_ptr());
        // SAFETY: the client lives, and so does the name.
        let pointer =
            call(|error| unsafe { open(self.0 .0, name, error) }, |source| source.is_null())?;
        Ok(Source { pointer, _client: self.0.clone() })
    }

    /// Ids of a tag, from ranges that were fetched ahead: the same source for the same tag.
    pub fn segment(&self, tag: &str) -> Result<Segment> {
        self.source(c::leafd_segment, Some(tag)).map(Segment)
    }

    /// Ids that rise over all nodes and clients.
    pub fn strict(&self, tag: &str) -> Result<Strict> {
        self.source(c::leafd_strict, Some(tag)).map(Strict)
    }

    /// Ids as texts, in the tag's shape.
    pub fn texts(&self, tag: &str) -> Result<Texts> {
        self.source(c::leafd_texts, Some(tag)).map(Texts)
    }

    /// Ids by time, made here with a worker id; without a name the library makes one.
    pub fn snowflake(&self, name: Option<&str>) -> Result<Snowflake> {
        self.source(c::leafd_snowflake, name).map(Snowflake)
    }

    /// Releases worker ids and ends what waits; calls fail with "closed" from then on.
    pub fn close(&self) {
        // SAFETY: the client lives.
        unsafe { c::leafd_close(self.0 .0) }
    }

    /// The counters.
    pub fn stats(&self) -> Stats {
        let mut stats = Stats::default();
        // SAFETY: the client lives, and the library writes no more than it is told.
        unsafe { c::leafd_stats(self.0 .0, &mut stats, std::mem::size_of::<Stats>()) };
        stats
    }

    /// The counters as text for Prometheus.
    pub fn stats_text(&self) -> String {
        let mut text: Vec<u8> = vec![0; 4096];
        loop {
            // SAFETY: the client lives, and the library writes no more than there is room for.
            let length =
                unsafe { c::leafd_stats_text(self.0 .0, text.as_mut_ptr().cast(), text.len()) };
            if length < text.len() {
                text.truncate(length);
                return String::from_utf8_lossy(&text).into_owned();
            }
            text.resize(length + 1, 0);
        }
    }
}

/// Numbers since the client was made (docs/clients.md, Counters).
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Stats {
    pub ids_segment: u64,
    pub ids_strict: u64,
    pub ids_snowflake: u64,
    pub requests: u64,
    pub retries: u64,
    pub failovers: u64,
    pub errors: u64,
    pub waits: u64,
    pub burnt: u64,
    pub clock_waits: u64,
    pub renewals: u64,
    pub hedges: u64,
}

/// Ids: `first`, `first + increment`, and so on up to `last`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Range {
    pub first: u64,
    pub last: u64,
    /// 1, but for tags whose ids do not follow each other.
    pub increment: u64,
}

impl Range {
    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = u64> {
        (self.first..=self.last).step_by(self.increment as usize)
    }
}

fn range_of(series: c::Series) -> Range {
    Range {
        first: series.first as u64,
        last: series.last as u64,
        increment: series.increment as u64,
    }
}

/// A source of ids of a tag: nanoseconds each.
#[derive(Clone)]
pub struct Segment(Source);

impl Segment {
    /// What it holds is burnt; calls fail with "closed", until the client is asked for it anew.
    pub fn close(&self) {
        // SAFETY: the source lives as long as its client, which it holds; so below.
        unsafe { c::leafd_segment_close(self.0.pointer) }
    }

    /// One id. It waits for the client's deadline at most, where none is held.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&self) -> Result<u64> {
        id(|error| unsafe { c::leafd_segment_next(self.0.pointer, error) })
    }

    /// `count` ids; where it fails, those that were taken already are skipped.
    pub fn take(&self, count: usize, deadline: Option<Duration>) -> Result<Vec<u64>> {
        let ms = ms_of(deadline)?;
        let mut ids = vec![0u64; count];
        let into = ids.as_mut_ptr().cast();
        done(|error| unsafe { c::leafd_segment_take(self.0.pointer, count, into, ms, error) })?;
        Ok(ids)
    }

    /// 1 to 100000 ids in one range, by a request of its own.
    pub fn range(&self, count: usize, deadline: Option<Duration>) -> Result<Range> {
        let (count, ms) = (count_of(count)?, ms_of(deadline)?);
        let mut range = c::Series::default();
        done(|error| unsafe {
            c::leafd_segment_series(self.0.pointer, count, &mut range, ms, error)
        })?;
        Ok(range_of(range))
    }
}

/// Ids of a strict call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StrictIds {
    /// Which.
    pub ids: Range,
    /// An earlier request with the key had got them.
    pub replayed: bool,
}

/// A source of strict ids: a request each.
#[derive(Clone)]
pub struct Strict(Source);

impl Strict {
    /// Calls fail with "closed", until the client is asked for it anew.
    pub fn close(&self) {
        // SAFETY: the source lives as long as its client, which it holds; so below.
        unsafe { c::leafd_strict_close(self.0.pointer) }
    }

    /// One id.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&self, deadline: Option<Duration>) -> Result<u64> {
        self.take(1, None, deadline).map(|got| got.ids.first)
    }

    /// 1 to 100000 ids. The same key gets the same ids, for a day.
    pub fn take(
        &self,
        count: usize,
        key: Option<&str>,
        deadline: Option<Duration>,
    ) -> Result<StrictIds> {
        let (count, ms) = (count_of(count)?, ms_of(deadline)?);
        let key = key.map(|key| word(key, "key")).transpose()?;
        let key = key.as_ref().map_or(std::ptr::null(), |key| key.as_ptr());
        let (mut range, mut replayed) = (c::Series::default(), false);
        done(|error| unsafe {
            c::leafd_strict_series(self.0.pointer, count, key, &mut range, &mut replayed, ms, error)
        })?;
        Ok(StrictIds { ids: range_of(range), replayed })
    }
}

/// Texts of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextIds {
    /// As the server writes them.
    pub texts: Vec<String>,
    /// An earlier request with the key had got them.
    pub replayed: bool,
}

/// A source of a tag's ids as texts: a request each.
#[derive(Clone)]
pub struct Texts(Source);

const TEXTS_MAX: usize = 1000;

impl Texts {
    /// Calls fail with "closed", until the client is asked for it anew.
    pub fn close(&self) {
        // SAFETY: the source lives as long as its client, which it holds; so below.
        unsafe { c::leafd_texts_close(self.0.pointer) }
    }

    /// One id.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&self, deadline: Option<Duration>) -> Result<String> {
        self.take(1, None, deadline).map(|mut got| got.texts.remove(0))
    }

    /// 1 to 1000 ids. A tag of mode trend takes no key.
    pub fn take(
        &self,
        count: usize,
        key: Option<&str>,
        deadline: Option<Duration>,
    ) -> Result<TextIds> {
        if count > TEXTS_MAX {
            let rule = format!("count={count} of texts must be from 1 to {TEXTS_MAX}");
            return Err(bad_setting(rule));
        }
        let ms = ms_of(deadline)?;
        let key = key.map(|key| word(key, "key")).transpose()?;
        let key = key.as_ref().map_or(std::ptr::null(), |key| key.as_ptr());
        let mut into = vec![[0; c::TEXT_BYTES]; count];
        let mut replayed = false;
        done(|error| unsafe {
            c::leafd_texts_take(
                self.0.pointer,
                count as u32,
                key,
                into.as_mut_ptr(),
                &mut replayed,
                ms,
                error,
            )
        })?;
        Ok(TextIds { texts: into.iter().map(|one| text(one)).collect(), replayed })
    }

    /// The number of a text of this tag, granted or not.
    pub fn decode(&self, text: &str, deadline: Option<Duration>) -> Result<u64> {
        let (text, ms) = (word(text, "text")?, ms_of(deadline)?);
        let text: &CStr = &text;
        id(|error| unsafe { c::leafd_texts_decode(self.0.pointer, text.as_ptr(), ms, error) })
    }
}

/// What a snowflake id is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parts {
    /// Since 1970.
    pub time: Duration,
    /// Of who made it.
    pub worker_id: u32,
    /// Within the millisecond.
    pub sequence: u32,
}

/// A source of ids by time.
#[derive(Clone)]
pub struct Snowflake(Source);

impl Snowflake {
    /// Its worker id is released; calls fail with "closed", until the client is asked for it anew.
    pub fn close(&self) {
        // SAFETY: the source lives as long as its client, which it holds; so below.
        unsafe { c::leafd_snowflake_close(self.0.pointer) }
    }

    /// One id. The first call, and the first after the worker id was lost, asks for a worker id.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&self, deadline: Option<Duration>) -> Result<u64> {
        let ms = ms_of(deadline)?;
        id(|error| unsafe { c::leafd_snowflake_next_within(self.0.pointer, ms, error) })
    }

    /// The smallest id of a time since 1970, for scans of ids by time.
    pub fn at(&self, time: Duration) -> Result<u64> {
        let ms = i64::try_from(time.as_millis())
            .map_err(|_| bad_setting(format!("time={time:?} must be at most {} ms", i64::MAX)))?;
        id(|error| unsafe { c::leafd_snowflake_at(self.0.pointer, ms, error) })
    }

    /// Takes an id apart by the cluster's layout, which comes with a worker id.
    pub fn decode(&self, id: u64) -> Result<Parts> {
        let number = i64::try_from(id)
            .map_err(|_| bad_setting(format!("id={id} must be at most {}", i64::MAX)))?;
        let mut parts = c::Parts::default();
        done(|error| unsafe {
            c::leafd_snowflake_decode(self.0.pointer, number, &mut parts, error)
        })?;
        Ok(Parts {
            time: Duration::from_millis(u64::try_from(parts.time_ms).unwrap_or(0)),
            worker_id: parts.worker_id,
            sequence: parts.sequence,
        })
    }
}
