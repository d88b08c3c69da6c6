//! The driver of this crate for clients/conformance: a line for a line (docs/clients.md,
//! Conformance). The happy path: read a command, do it by the crate alone, answer. What the library
//! refuses is answered with "error"; a command that is none ends the driver with 2.
use leafd::{Client, Error, Result, Segment};
use std::io::{BufRead, Write};
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

struct Driver {
    client: Option<Client>,
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
        self.client = Some(Client::open(&self.settings)?);
        Ok("ok".into())
    }

    fn client(&self) -> &Client {
        self.client.as_ref().expect("open comes first")
    }

    fn segment(&self, tag: &str, count: &str) -> Result<Ids> {
        let segment = self.client().segment(tag)?;
        taken(count, || match self.deadline {
            Some(_) => segment.take(1, self.deadline).map(|ids| ids[0]),
            None => segment.next(),
        })
    }

    fn strict1(&self, tag: &str, count: &str) -> Result<Ids> {
        let strict = self.client().strict(tag)?;
        taken(count, || strict.next(self.deadline))
    }

    fn snowflake(&self, count: &str) -> Result<Ids> {
        let snowflake = self.client().snowflake(None)?;
        taken(count, || snowflake.next(self.deadline))
    }

    fn strict(&self, tag: &str, count: &str, key: Option<&str>) -> Result<String> {
        let got = self.client().strict(tag)?.take(number(count), key, self.deadline)?;
        let replayed = if got.replayed { " replayed" } else { "" };
        Ok(format!("ids {}-{}{replayed}", got.ids.start(), got.ids.end()))
    }

    fn texts(&self, tag: &str, count: &str, key: Option<&str>) -> Result<String> {
        let got = self.client().texts(tag)?.take(number(count), key, self.deadline)?;
        let replayed = if got.replayed { "replayed" } else { "new" };
        Ok(format!("texts {replayed} {}", got.texts.join(" ")))
    }

    fn threads(&self, threads: &str, tag: &str, count: &str) -> Result<String> {
        let segment = self.client().segment(tag)?;
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
        let segment = self.client().segment(tag)?;
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
        let segment = self.client().segment(tag)?;
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
        let parts = self.client().snowflake(None)?.decode(number(id) as u64)?;
        Ok(format!("decode {} {} {}", parts.time.as_millis(), parts.worker_id, parts.sequence))
    }

    /// From the text for Prometheus, so that both are seen: "leafd_client_NAME_total VALUE".
    fn stats(&self) -> Result<String> {
        let text = self.client().stats_text();
        // The others are gauges.
        let rows = text.lines().filter(|line| !line.starts_with('#') && line.contains("_total "));
        let found: Vec<String> =
            rows.map(|row| row.replace("leafd_client_", "").replace("_total ", "=")).collect();
        let requests = format!("requests={}", self.client().stats().requests);
        if !found.contains(&requests) {
            return Ok(format!("fault no {requests}"));
        }
        Ok(format!("stats {}", found.join(" ")))
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
            ["range", tag, count] => self
                .client()
                .segment(tag)
                .and_then(|segment| segment.range(number(count), self.deadline))
                .map(|range| format!("ids {}-{}", range.start(), range.end())),
            ["strict", tag, count] => self.strict(tag, count, None),
            ["strict", tag, count, key] => self.strict(tag, count, Some(key)),
            ["texts", tag, count] => self.texts(tag, count, None),
            ["texts", tag, count, key] => self.texts(tag, count, Some(key)),
            ["textid", tag, text] => self
                .client()
                .texts(tag)
                .and_then(|texts| texts.decode(text, self.deadline))
                .map(|id| format!("textid {id}")),
            ["threads", threads, tag, count] => self.threads(threads, tag, count),
            ["fork", ..] | ["forksnow", ..] => Ok("unsupported".into()),
            ["loop", tag, seconds] => self.repeat(tag, seconds),
            ["mix", tag, strict_tag, seconds] => self.mix(tag, strict_tag, seconds),
            ["bench", tag, count] => self.bench(tag, count),
            ["benchthreads", threads, tag, count] => self.benchthreads(threads, tag, count),
            ["decode", id] => self.decode(id),
            ["stats"] => self.stats(),
            ["statstext"] => Ok(format!("statstext {}", self.client().stats_text().replace('\n', "|"))),
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
    let mut driver = Driver { client: None, settings: Vec::new(), deadline: None };
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
