//! The driver of this crate for clients/conformance: a line for a line (docs/clients.md,
//! Conformance). The happy path: read a command, do it by the crate alone, answer. What the library
//! refuses is answered with "error"; a command that is none ends the driver with 2.
use leafd::{Client, Error, Result, Segment, Snowflake, Strict, Texts};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, Write};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Ids as ranges, joined where they follow each other.
#[derive(Default)]
struct Ids(Vec<(u64, u64)>);

impl Ids {
    fn add(&mut self, first: u64, last: u64) {
        match self.0.last_mut() {
            Some(range) if range.1 + 1 == first => range.1 = last,
            _ => self.0.push((first, last)),
        }
    }

    fn text(&self) -> String {
        self.0.iter().map(|(first, last)| format!(" {first}-{last}")).collect()
    }
}

/// Sources: one that was closed is kept, since asking for it anew would open it again.
type Kept<T> = RefCell<HashMap<String, T>>;

fn kept<T: Clone>(all: &Kept<T>, name: &str, make: impl FnOnce() -> Result<T>) -> Result<T> {
    if let Some(found) = all.borrow().get(name) {
        return Ok(found.clone());
    }
    let made = make()?;
    all.borrow_mut().insert(name.to_string(), made.clone());
    Ok(made)
}

#[derive(Default)]
struct Driver {
    client: Option<Client>,
    segments: Kept<Segment>,
    stricts: Kept<Strict>,
    texts: Kept<Texts>,
    snowflakes: Kept<Snowflake>,
    events: Arc<Mutex<BTreeMap<String, u32>>>,
    settings: Vec<String>,
    deadline: Option<Duration>,
}

fn number(word: &str) -> usize {
    word.parse().unwrap_or(0)
}

/// Calls next() so many times.
fn taken(count: &str, mut next: impl FnMut() -> Result<u64>) -> Result<Ids> {
    let mut ids = Ids::default();
    for _ in 0..number(count) {
        let id = next()?;
        ids.add(id, id);
    }
    Ok(ids)
}

fn answered(ids: Result<Ids>) -> Result<String> {
    Ok(format!("ids{}", ids?.text()))
}

fn spend(segment: &Segment, count: usize) -> Result<()> {
    for _ in 0..count {
        segment.next()?;
    }
    Ok(())
}

fn bench_of(count: usize, body: impl FnOnce() -> Result<()>) -> Result<String> {
    let began = Instant::now();
    body()?;
    Ok(format!("bench {:.2}", began.elapsed().as_nanos() as f64 / count as f64))
}

impl Driver {
    fn open(&mut self, words: &[&str]) -> Result<String> {
        self.settings = words.iter().map(|word| word.to_string()).collect();
        self.client = None;
        self.segments.borrow_mut().clear();
        self.stricts.borrow_mut().clear();
        self.texts.borrow_mut().clear();
        self.snowflakes.borrow_mut().clear();
        let events = self.events.clone();
        self.client = Some(Client::open_with_events(&self.settings, move |event| {
            *events.lock().unwrap().entry(event.kind).or_insert(0) += 1;
        })?);
        Ok("ok".into())
    }

    fn client(&self) -> &Client {
        self.client.as_ref().expect("open comes first")
    }

    fn segment_of(&self, tag: &str) -> Result<Segment> {
        kept(&self.segments, tag, || self.client().segment(tag))
    }

    fn strict_of(&self, tag: &str) -> Result<Strict> {
        kept(&self.stricts, tag, || self.client().strict(tag))
    }

    fn texts_of(&self, tag: &str) -> Result<Texts> {
        kept(&self.texts, tag, || self.client().texts(tag))
    }

    fn snowflake_of(&self) -> Result<Snowflake> {
        kept(&self.snowflakes, "-", || self.client().snowflake(None))
    }

    fn close_source(&self, kind: &str, name: &str) -> Result<String> {
        match kind {
            "segment" => self.segment_of(name)?.close(),
            "strict" => self.strict_of(name)?.close(),
            "texts" => self.texts_of(name)?.close(),
            _ => self.snowflake_of()?.close(),
        }
        Ok("ok".into())
    }

    fn events(&self) -> Result<String> {
        let events = std::mem::take(&mut *self.events.lock().unwrap());
        let words: String =
            events.iter().map(|(kind, count)| format!(" {kind} {count}")).collect();
        Ok(format!("events{words}"))
    }

    fn range(&self, tag: &str, count: &str) -> Result<String> {
        let found = self.segment_of(tag)?.range(number(count), self.deadline)?;
        let step = match found.increment {
            1 => String::new(),
            step => format!(" step {step}"),
        };
        Ok(format!("ids {}-{}{step}", found.first, found.last))
    }

    fn segment(&self, tag: &str, count: &str) -> Result<Ids> {
        let segment = self.segment_of(tag)?;
        taken(count, || match self.deadline {
            Some(_) => segment.take(1, self.deadline).map(|ids| ids[0]),
            None => segment.next(),
        })
    }

    fn strict1(&self, tag: &str, count: &str) -> Result<Ids> {
        let strict = self.strict_of(tag)?;
        taken(count, || strict.next(self.deadline))
    }

    fn snowflake(&self, count: &str) -> Result<Ids> {
        let snowflake = self.snowflake_of()?;
        taken(count, || snowflake.next(self.deadline))
    }

    fn strict(&self, tag: &str, count: &str, key: Option<&str>) -> Result<String> {
        let got = self.strict_of(tag)?.take(number(count), key, self.deadline)?;
        let replayed = if got.replayed { " replayed" } else { "" };
        let mut ids = Ids::default();
        match got.ids.increment {
            1 => ids.add(got.ids.first, got.ids.last),
            _ => got.ids.iter().for_each(|id| ids.add(id, id)),
        }
        Ok(format!("ids{}{replayed}", ids.text()))
    }

    fn texts(&self, tag: &str, count: &str, key: Option<&str>) -> Result<String> {
        let got = self.texts_of(tag)?.take(number(count), key, self.deadline)?;
        let replayed = if got.replayed { "replayed" } else { "new" };
        Ok(format!("texts {replayed} {}", got.texts.join(" ")))
    }

    fn threads(&self, threads: &str, tag: &str, count: &str) -> Result<String> {
        let segment = self.segment_of(tag)?;
        let each = || taken(count, || segment.next());
        let found: Vec<Result<Ids>> = std::thread::scope(|scope| {
            let running: Vec<_> = (0..number(threads)).map(|_| scope.spawn(each)).collect();
            running.into_iter().map(|one| one.join().expect("no thread panics")).collect()
        });
        let mut all = Ids::default();
        for ids in found {
            let ids = ids?.0;
            if ids.windows(2).any(|pair| pair[0].1 >= pair[1].0) {
                return Ok("fault the ids of a thread do not rise".into());
            }
            ids.into_iter().for_each(|(first, last)| all.add(first, last));
        }
        answered(Ok(all))
    }

    fn repeat(&self, tag: &str, seconds: &str) -> Result<String> {
        let segment = self.segment_of(tag)?;
        let until = Instant::now() + Duration::from_secs(number(seconds) as u64);
        let (mut ids, mut took) = (Ids::default(), Vec::new());
        let mut now = Instant::now();
        while now < until {
            let id = segment.next()?;
            took.push(now.elapsed().as_nanos());
            ids.add(id, id);
            now = Instant::now();
        }
        took.sort_unstable();
        let (count, longest) = (took.len(), took[took.len() - 1]);
        let p9999 = took[count - 1 - count / 10000];
        Ok(format!("loop {count} {longest} {p9999} ids{}", ids.text()))
    }

    fn mix(&self, tag: &str, strict_tag: &str, seconds: &str) -> Result<String> {
        let until = Instant::now() + Duration::from_secs(number(seconds) as u64);
        let mut kinds = [Ids::default(), Ids::default(), Ids::default()];
        while Instant::now() < until {
            let fresh =
                [self.segment(tag, "1")?, self.strict1(strict_tag, "1")?, self.snowflake("1")?];
            for (kind, ids) in kinds.iter_mut().zip(fresh) {
                ids.0.into_iter().for_each(|(first, last)| kind.add(first, last));
            }
        }
        Ok(format!("mix ids{} ;{} ;{}", kinds[0].text(), kinds[1].text(), kinds[2].text()))
    }

    fn bench(&self, tag: &str, count: &str) -> Result<String> {
        let segment = self.segment_of(tag)?;
        spend(&segment, number(count) / 10 + 1)?;
        bench_of(number(count), || spend(&segment, number(count)))
    }

    /// A source each, and so a client each: all threads of one client share the source of a tag.
    fn benchthreads(&self, threads: &str, tag: &str, count: &str) -> Result<String> {
        let segments = (0..number(threads))
            .map(|_| Client::open(&self.settings)?.segment(tag))
            .collect::<Result<Vec<Segment>>>()?;
        bench_of(number(threads) * number(count), || {
            std::thread::scope(|scope| {
                let running: Vec<_> = segments
                    .iter()
                    .map(|segment| scope.spawn(move || spend(segment, number(count))))
                    .collect();
                running.into_iter().try_for_each(|one| one.join().expect("no thread panics"))
            })
        })
    }

    fn decode(&self, id: &str) -> Result<String> {
        let parts = self.snowflake_of()?.decode(number(id) as u64)?;
        Ok(format!("decode {} {} {}", parts.time.as_millis(), parts.worker_id, parts.sequence))
    }

    fn at(&self, time_ms: &str) -> Result<String> {
        let time = Duration::from_millis(number(time_ms) as u64);
        Ok(format!("at {}", self.snowflake_of()?.at(time)?))
    }

    fn stats(&self) -> Result<String> {
        let s = self.client().stats();
        Ok(format!(
            "stats ids_segment={} ids_strict={} ids_snowflake={} requests={} retries={} \
             failovers={} errors={} waits={} burnt={} clock_waits={} renewals={} hedges={}",
            s.ids_segment, s.ids_strict, s.ids_snowflake, s.requests, s.retries, s.failovers,
            s.errors, s.waits, s.burnt, s.clock_waits, s.renewals, s.hedges
        ))
    }

    /// None: that is no command.
    fn obey(&mut self, words: &[&str]) -> Option<Result<String>> {
        if self.client.is_none() && words[0] != "open" {
            return None;
        }
        Some(match *words {
            ["open", ref settings @ ..] => self.open(settings),
            ["segment", tag, count] => answered(self.segment(tag, count)),
            ["strict1", tag, count] => answered(self.strict1(tag, count)),
            ["snowflake", count] => answered(self.snowflake(count)),
            ["range", tag, count] => self.range(tag, count),
            ["strict", tag, count] => self.strict(tag, count, None),
            ["strict", tag, count, key] => self.strict(tag, count, Some(key)),
            ["texts", tag, count] => self.texts(tag, count, None),
            ["texts", tag, count, key] => self.texts(tag, count, Some(key)),
            ["textid", tag, text] => self
                .texts_of(tag)
                .and_then(|texts| texts.decode(text, self.deadline))
                .map(|id| format!("textid {id}")),
            ["threads", threads, tag, count] => self.threads(threads, tag, count),
            ["fork", ..] | ["forksnow", ..] => Ok("unsupported".into()),
            ["loop", tag, seconds] => self.repeat(tag, seconds),
            ["mix", tag, strict_tag, seconds] => self.mix(tag, strict_tag, seconds),
            ["bench", tag, count] => self.bench(tag, count),
            ["benchthreads", threads, tag, count] => self.benchthreads(threads, tag, count),
            ["decode", id] => self.decode(id),
            ["at", time_ms] => self.at(time_ms),
            ["stats"] => self.stats(),
            ["statstext"] => {
                Ok(format!("statstext {}", self.client().stats_text().replace('\n', "|")))
            }
            ["events"] => self.events(),
            ["close_source", kind, name] => self.close_source(kind, name),
            ["close"] => {
                self.client().close();
                Ok("ok".into())
            }
            _ => return None,
        })
    }
}

fn error_line(error: &Error) -> String {
    format!("error {} {} {}", error.code, error.status, error.message.replace(['\n', '\r'], " "))
}

fn main() -> std::io::Result<()> {
    let mut driver = Driver::default();
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let mut words: Vec<&str> = line.split(' ').filter(|word| !word.is_empty()).collect();
        driver.deadline = None;
        if words.len() > 1 && words[0] != "open" {
            if let Some(ms) = words[words.len() - 1].strip_prefix("deadline_ms=") {
                driver.deadline = Some(Duration::from_millis(number(ms) as u64));
                words.pop();
            }
        }
        let answer = if words.is_empty() { None } else { driver.obey(&words) };
        match answer {
            Some(Ok(text)) => println!("{text}"),
            Some(Err(error)) => println!("{}", error_line(&error)),
            None => {
                eprintln!("driver: that is no command");
                std::process::exit(2);
            }
        }
        std::io::stdout().flush()?;
    }
    Ok(())
}
