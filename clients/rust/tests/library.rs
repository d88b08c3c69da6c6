//! What the crate adds to libleafd: ownership, errors, and what it refuses by itself. What takes a
//! node is in clients/conformance.
use leafd::{Client, Error, Result};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn nowhere() -> Client {
    Client::open(["endpoints=http://127.0.0.1:9", "deadline_ms=1"]).unwrap()
}

/// The call fails with this code, and this word is in the message.
#[track_caller]
fn refused<T>(result: Result<T>, code: &str, word: &str) -> Error {
    let error = result.err().expect("it is refused");
    assert_eq!((error.code.as_str(), error.status), (code, 0), "{error}");
    assert!(error.message.contains(word), "{error}");
    error
}

#[test]
fn settings() {
    refused(Client::open(["endpoints=http://a", "deadline_ms=0"]), "bad_setting", "deadline_ms=0");
    refused(Client::open(["colour=red"]), "bad_setting", "colour");
    refused(Client::open(["endpoints=http://a\0,http://b"]), "bad_setting", "NUL");
}

#[test]
fn errors() {
    let client = nowhere();
    refused(client.segment("orders").unwrap().next(), "unreachable", "no node");
    refused(client.snowflake(Some("mine")).unwrap().next(None), "unreachable", "no node");
    let strict = client.strict("orders").unwrap();
    let error = refused(strict.take(2, Some("order-4711"), None), "unreachable", "no node");
    assert!(error.retryable);
    assert_eq!(error.key.as_deref(), Some("order-4711"));
    assert!(error.to_string().starts_with("leafd: unreachable: "));
    assert!(client.stats().errors > 0);
    client.close();
    client.close();
    refused(client.segment("orders").map(|_| ()), "closed", "closed");
}

#[test]
fn arguments() {
    let client = nowhere();
    let segment = client.segment("orders").unwrap();
    let strict = client.strict("orders").unwrap();
    let texts = client.texts("orders").unwrap();
    let snowflake = client.snowflake(None).unwrap();
    refused(client.segment("orders\0x").map(|_| ()), "bad_setting", "NUL");
    refused(texts.decode("A\0", None), "bad_setting", "NUL");
    refused(texts.take(1, Some("k\0"), None), "bad_setting", "NUL");
    refused(client.snowflake(Some("")).map(|_| ()), "bad_setting", "128 bytes");
    // In 32 bits this would be one.
    let beyond = (1usize << 32) + 1;
    refused(segment.range(beyond, None), "bad_setting", "4294967297");
    refused(strict.take(beyond, None, None), "bad_setting", "4294967297");
    refused(texts.take(1001, None, None), "bad_setting", "1001");
    refused(texts.take(0, None, None), "bad_setting", "count=0");
    assert_eq!(segment.take(0, None).unwrap(), []);
    // For C a deadline of 0 is the client's.
    for deadline in [Duration::ZERO, Duration::from_micros(999), Duration::from_millis(1 << 32)] {
        refused(segment.take(1, Some(deadline)), "bad_setting", "deadline_ms=");
        refused(snowflake.next(Some(deadline)), "bad_setting", "deadline_ms=");
    }
    refused(snowflake.decode(1 << 63), "bad_setting", "id=9223372036854775808");
    assert_eq!(client.stats().requests, 0);
}

#[test]
fn a_source_outlives_its_client() {
    let segment = nowhere().segment("orders").unwrap();
    let copy = segment.clone();
    drop(segment);
    let found = std::thread::spawn(move || copy.next()).join().unwrap();
    refused(found, "unreachable", "no node");
}

#[test]
fn a_hook_that_gives_up_the_last_handle() {
    let kept: Arc<Mutex<Option<Client>>> = Arc::default();
    let alive = Arc::new(());
    let (last, own) = (kept.clone(), alive.clone());
    let (start, started) = std::sync::mpsc::sync_channel::<()>(0);
    let started = Mutex::new(started);
    let settings = ["endpoints=http://127.0.0.1:9,http://127.0.0.1:10", "deadline_ms=100"];
    let client = Client::open_with_events(settings, move |_| {
        let _ = started.lock().unwrap().recv(); // the program has given up the others
        drop(last.lock().unwrap().take());
        assert!(Arc::strong_count(&own) == 2, "the hook is there until it has returned");
    })
    .unwrap();
    *kept.lock().unwrap() = Some(client.clone());
    refused(client.segment("orders").unwrap().next(), "unreachable", "no");
    drop(client);
    drop(start);
    while Arc::strong_count(&alive) > 1 {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(kept.lock().unwrap().is_none(), "a hook was called");
}

#[test]
fn counters() {
    let text = nowhere().stats_text();
    assert!(text.contains("leafd_client_ids_segment_total 0\n") && text.ends_with('\n'), "{text}");
}

#[test]
fn events() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let hook = seen.clone();
    let settings = ["endpoints=http://127.0.0.1:9,http://127.0.0.1:10", "deadline_ms=1000"];
    let client =
        Client::open_with_events(settings, move |event| hook.lock().unwrap().push(event)).unwrap();
    refused(client.strict("orders").unwrap().next(None), "unreachable", "no node");
    drop(client);
    assert_eq!(Arc::strong_count(&seen), 1, "the hook is freed with the client");
    let seen = seen.lock().unwrap();
    let failover = seen.iter().find(|event| event.kind == "failover").expect("a failover");
    assert!(failover.from.starts_with("http://127.0.0.1:"), "{failover:?}");
    assert!(failover.to.starts_with("http://127.0.0.1:") && failover.from != failover.to);
}
