// The driver of leafd.hpp for clients/conformance: a line for a line (docs/clients.md, Conformance).
// The happy path: read a command, do it by leafd.hpp alone, answer. What the library refuses is
// answered with "error"; a command that is none ends the driver with 2.
#include "leafd.hpp"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <mutex>
#include <sstream>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

using Words = std::vector<std::string>;
using Clock = std::chrono::steady_clock;

static std::unique_ptr<leafdpp::Client> client;
static leafdpp::Settings settings; // of the last open
static leafdpp::Deadline deadline; // of the command

// One that was closed is kept, since asking for it anew would open it again.
static std::map<std::string, leafdpp::Segment> segments;
static std::map<std::string, leafdpp::Strict> stricts;
static std::map<std::string, leafdpp::Texts> texts_of;
static std::map<std::string, leafdpp::Snowflake> snowflakes;

static leafdpp::Segment &segment_of(const std::string &tag)
{
    auto found = segments.find(tag);
    return found != segments.end() ? found->second
                                   : segments.emplace(tag, client->segment(tag)).first->second;
}

static leafdpp::Strict &strict_of(const std::string &tag)
{
    auto found = stricts.find(tag);
    return found != stricts.end() ? found->second
                                  : stricts.emplace(tag, client->strict(tag)).first->second;
}

static leafdpp::Texts &text_source_of(const std::string &tag)
{
    auto found = texts_of.find(tag);
    return found != texts_of.end() ? found->second
                                   : texts_of.emplace(tag, client->texts(tag)).first->second;
}

static leafdpp::Snowflake &snowflake_of()
{
    auto found = snowflakes.find("-");
    return found != snowflakes.end() ? found->second
                                     : snowflakes.emplace("-", client->snowflake()).first->second;
}

static std::mutex events_lock;
static std::map<std::string, unsigned> events;

// Ids as ranges, joined where they follow each other.
class Ids
{
  public:
    void add(std::uint64_t first, std::uint64_t last)
    {
        if (!ranges_.empty() && ranges_.back().last + 1 == first) {
            ranges_.back().last = last;
        } else {
            ranges_.push_back({first, last, 1});
        }
    }
    void add(const Ids &others)
    {
        for (const leafdpp::Range &range : others.ranges_) {
            add(range.first, range.last);
        }
    }
    std::string text() const
    {
        std::string text;
        for (const leafdpp::Range &range : ranges_) {
            text += ' ' + std::to_string(range.first) + '-' + std::to_string(range.last);
        }
        return text;
    }

  private:
    std::vector<leafdpp::Range> ranges_;
};

static long number(const std::string &word)
{
    return std::strtol(word.c_str(), nullptr, 10);
}

static std::size_t count_of(const std::string &word)
{
    return static_cast<std::size_t>(number(word));
}

static leafdpp::Key key_of(const Words &words)
{
    return words.size() > 3 ? leafdpp::Key(words[3]) : std::nullopt;
}

static std::string open(const Words &words)
{
    settings.assign(words.begin() + 1, words.end());
    segments.clear();
    stricts.clear();
    texts_of.clear();
    snowflakes.clear();
    client.reset();
    client = std::make_unique<leafdpp::Client>(settings, [](const leafdpp::Event &event) {
        std::lock_guard<std::mutex> guard(events_lock);
        events[event.kind]++;
    });
    return "ok";
}

// Take so many ids of a source, one by one.
static Ids take_segment(const std::string &tag, long count)
{
    Ids ids;
    leafdpp::Segment &segment = segment_of(tag);
    for (long i = 0; i < count; i++) {
        std::uint64_t id = deadline ? segment.take(1, deadline).front() : segment.next();
        ids.add(id, id);
    }
    return ids;
}

static Ids take_strict(const std::string &tag, long count)
{
    Ids ids;
    leafdpp::Strict &strict = strict_of(tag);
    for (long i = 0; i < count; i++) {
        std::uint64_t id = strict.next(deadline);
        ids.add(id, id);
    }
    return ids;
}

static Ids take_snowflake(long count)
{
    Ids ids;
    leafdpp::Snowflake &snowflake = snowflake_of();
    for (long i = 0; i < count; i++) {
        std::uint64_t id = snowflake.next(deadline);
        ids.add(id, id);
    }
    return ids;
}

static std::string range(const Words &words)
{
    leafdpp::Range found = segment_of(words[1]).range(count_of(words[2]), deadline);
    Ids ids;
    ids.add(found.first, found.last);
    return "ids" + ids.text() +
           (found.increment != 1 ? " step " + std::to_string(found.increment) : "");
}

static std::string strict(const Words &words)
{
    leafdpp::StrictRange found =
        strict_of(words[1]).take(count_of(words[2]), key_of(words), deadline);
    Ids ids;
    if (found.increment == 1) {
        ids.add(found.first, found.last);
    } else {
        for (std::uint64_t id = found.first; id <= found.last; id += found.increment) {
            ids.add(id, id);
        }
    }
    return "ids" + ids.text() + (found.replayed ? " replayed" : "");
}

static std::string texts(const Words &words)
{
    leafdpp::TextIds found =
        text_source_of(words[1]).take(count_of(words[2]), key_of(words), deadline);
    std::string answer = found.replayed ? "texts replayed" : "texts new";
    for (const std::string &text : found.texts) {
        answer += ' ' + text;
    }
    return answer;
}

static std::string textid(const Words &words)
{
    return "textid " + std::to_string(text_source_of(words[1]).decode(words[2], deadline));
}

// What each of so many threads does; the first exception of one of them is thrown here.
static void in_threads(long count, const std::function<void(std::size_t)> &body)
{
    std::vector<std::thread> threads;
    std::vector<std::exception_ptr> failed(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < failed.size(); i++) {
        threads.emplace_back([&, i] {
            try {
                body(i);
            } catch (...) {
                failed[i] = std::current_exception();
            }
        });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    for (const std::exception_ptr &exception : failed) {
        if (exception) {
            std::rethrow_exception(exception);
        }
    }
}

static std::string threads(const Words &words)
{
    std::vector<Ids> each(count_of(words[1]));
    std::vector<char> fell(each.size());
    leafdpp::Segment &segment = segment_of(words[2]);
    in_threads(number(words[1]), [&](std::size_t at) {
        std::uint64_t before = 0;
        for (long i = 0; i < number(words[3]); i++) {
            std::uint64_t id = segment.next();
            fell[at] = fell[at] || (i > 0 && id <= before);
            before = id;
            each[at].add(id, id);
        }
    });
    if (std::count(fell.begin(), fell.end(), 0) != number(words[1])) {
        return "fault the ids of a thread do not rise";
    }
    Ids ids;
    for (const Ids &some : each) {
        ids.add(some);
    }
    return "ids" + ids.text();
}

// Ids of a child, by a pipe, then the parent's.
static std::string forked(const std::function<Ids()> &take)
{
    int ends[2];
    if (pipe(ends) != 0) {
        std::abort();
    }
    pid_t child = fork();
    if (child == 0) {
        std::string text = take().text();
        client->close();
        std::size_t done = 0;
        for (ssize_t wrote = 0; done < text.size() && wrote >= 0;
             done += static_cast<std::size_t>(std::max<ssize_t>(wrote, 0))) {
            wrote = write(ends[1], text.data() + done, text.size() - done);
        }
        _exit(done == text.size() ? 0 : 3);
    }
    close(ends[1]);
    std::string theirs;
    char part[4096];
    ssize_t got;
    while ((got = read(ends[0], part, sizeof part)) > 0) {
        theirs.append(part, static_cast<std::size_t>(got));
    }
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    if (status != 0) {
        return "fault the child ended with " + std::to_string(status);
    }
    return "ids" + theirs + take().text();
}

static std::string loop(const Words &words)
{
    Ids ids;
    std::vector<std::int64_t> took;
    leafdpp::Segment &segment = segment_of(words[1]);
    Clock::time_point now = Clock::now(), until = now + std::chrono::seconds(number(words[2]));
    while (now < until) {
        std::uint64_t id = segment.next();
        Clock::time_point after = Clock::now();
        took.push_back((after - now).count());
        ids.add(id, id);
        now = Clock::now();
    }
    std::sort(took.begin(), took.end());
    std::int64_t p9999 = took[took.size() - 1 - took.size() / 10000];
    return "loop " + std::to_string(took.size()) + ' ' + std::to_string(took.back()) + ' ' +
           std::to_string(p9999) + " ids" + ids.text();
}

static std::string mix(const Words &words)
{
    Ids ids[3];
    Clock::time_point until = Clock::now() + std::chrono::seconds(number(words[3]));
    while (Clock::now() < until) {
        ids[0].add(take_segment(words[1], 1));
        ids[1].add(take_strict(words[2], 1));
        ids[2].add(take_snowflake(1));
    }
    return "mix ids" + ids[0].text() + " ;" + ids[1].text() + " ;" + ids[2].text();
}

// Nanoseconds for each of count pieces of work.
static std::string bench(long count, const std::function<void()> &body)
{
    Clock::time_point began = Clock::now();
    body();
    std::chrono::duration<double, std::nano> took = Clock::now() - began;
    return "bench " + std::to_string(took.count() / static_cast<double>(count));
}

static void take(leafdpp::Segment &segment, long count)
{
    for (long i = 0; i < count; i++) {
        segment.next();
    }
}

static std::string bench_one(const Words &words)
{
    leafdpp::Segment &segment = segment_of(words[1]);
    take(segment, number(words[2]) / 10 + 1);
    return bench(number(words[2]), [&] { take(segment, number(words[2])); });
}

// A source each, and so a client each: all threads of one client share the source of a tag.
static std::string bench_threads(const Words &words)
{
    std::vector<leafdpp::Segment> each;
    for (long i = 0; i < number(words[1]); i++) {
        each.push_back(leafdpp::Client(settings).segment(words[2]));
    }
    return bench(number(words[1]) * number(words[3]), [&] {
        in_threads(number(words[1]), [&](std::size_t at) { take(each[at], number(words[3])); });
    });
}

static std::string decode(const Words &words)
{
    leafdpp::Parts parts = snowflake_of().decode(static_cast<std::uint64_t>(number(words[1])));
    auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(parts.time.time_since_epoch());
    return "decode " + std::to_string(ms.count()) + ' ' + std::to_string(parts.worker_id) + ' ' +
           std::to_string(parts.sequence);
}

static std::string at(const Words &words)
{
    std::chrono::system_clock::time_point time{std::chrono::milliseconds(number(words[1]))};
    return "at " + std::to_string(snowflake_of().at(time));
}

static std::string stats(const Words &)
{
    leafdpp::Stats s = client->stats();
    std::ostringstream text;
    text << "stats ids_segment=" << s.ids_segment << " ids_strict=" << s.ids_strict
         << " ids_snowflake=" << s.ids_snowflake << " requests=" << s.requests
         << " retries=" << s.retries << " failovers=" << s.failovers << " errors=" << s.errors
         << " waits=" << s.waits << " burnt=" << s.burnt << " clock_waits=" << s.clock_waits
         << " renewals=" << s.renewals << " hedges=" << s.hedges;
    return text.str();
}

static std::string stats_text(const Words &)
{
    std::string text = client->stats_text();
    std::replace(text.begin(), text.end(), '\n', '|');
    return "statstext " + text;
}

static std::string told_events(const Words &)
{
    std::lock_guard<std::mutex> guard(events_lock);
    std::string text = "events";
    for (const auto &[kind, count] : events) {
        text += ' ' + kind + ' ' + std::to_string(count);
    }
    events.clear();
    return text;
}

static std::string close_source(const Words &words)
{
    if (words[1] == "segment") {
        segment_of(words[2]).close();
    } else if (words[1] == "strict") {
        strict_of(words[2]).close();
    } else if (words[1] == "texts") {
        text_source_of(words[2]).close();
    } else {
        snowflake_of().close();
    }
    return "ok";
}

static std::string close_client(const Words &)
{
    client->close();
    return "ok";
}

static const std::map<std::string, std::pair<std::size_t, std::string (*)(const Words &)>>
    commands = {
        {"open", {1, open}},
        {"segment",
         {3, [](const Words &w) { return "ids" + take_segment(w[1], number(w[2])).text(); }}},
        {"range", {3, range}},
        {"strict", {3, strict}},
        {"texts", {3, texts}},
        {"textid", {3, textid}},
        {"strict1",
         {3, [](const Words &w) { return "ids" + take_strict(w[1], number(w[2])).text(); }}},
        {"snowflake",
         {2, [](const Words &w) { return "ids" + take_snowflake(number(w[1])).text(); }}},
        {"threads", {4, threads}},
        {"fork",
         {3,
          [](const Words &w) { return forked([&] { return take_segment(w[1], number(w[2])); }); }}},
        {"forksnow",
         {2, [](const Words &w) { return forked([&] { return take_snowflake(number(w[1])); }); }}},
        {"loop", {3, loop}},
        {"mix", {4, mix}},
        {"bench", {3, bench_one}},
        {"benchthreads", {4, bench_threads}},
        {"decode", {2, decode}},
        {"at", {2, at}},
        {"stats", {1, stats}},
        {"statstext", {1, stats_text}},
        {"events", {1, told_events}},
        {"close_source", {3, close_source}},
        {"close", {1, close_client}},
};

static std::string answer(Words words)
{
    static const std::string name = "deadline_ms=";
    deadline.reset();
    if (words[0] != "open" && words.back().compare(0, name.size(), name) == 0) {
        deadline = std::chrono::milliseconds(number(words.back().substr(name.size())));
        words.pop_back();
    }
    auto command = commands.find(words[0]);
    if (command == commands.end() || words.size() < command->second.first ||
        (!client && words[0] != "open")) {
        std::cerr << "driver: that is no command\n";
        std::exit(2);
    }
    try {
        return command->second.second(words);
    } catch (const leafdpp::Error &error) {
        std::string text = error.code() + ' ' + std::to_string(error.status()) + ' ' + error.what();
        std::replace_if(
            text.begin(), text.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
        return "error " + text;
    }
}

int main()
{
    for (std::string line; std::getline(std::cin, line);) {
        std::istringstream stream(line);
        Words words;
        for (std::string word; stream >> word;) {
            words.push_back(word);
        }
        std::cout << answer(words.empty() ? Words{""} : words) << std::endl;
    }
}
