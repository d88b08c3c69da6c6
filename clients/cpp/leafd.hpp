// libleafd for programs in C++17: this header over leafd.h, and nothing to link but libleafd.
//
// The happy path:
//
//     leafdpp::Client client({"endpoints=http://10.0.0.1:8080,http://10.0.0.2:8080"});
//     leafdpp::Segment orders = client.segment("orders");
//     std::uint64_t id = orders.next();
//
// What the library does, and what it promises, is in docs/clients.md of leafd. Settings are those
// of leafd_open().
//
// Failure modes: a call that fails throws Error, and returns within its deadline and 100 ms. Memory
// that runs out is std::bad_alloc, or an Error with the code "no_memory".
//
// Ownership: a client and its sources share what is below them. It is closed by close(), or with
// the last of them, so a source may outlive the Client that made it. All can be copied; one that was
// moved from may only be destroyed or assigned to. Given up in a hook, the last one is closed by a
// thread of its own, which frees the hook, too.
//
// Threads: all calls, from any thread. Fork: as of leafd.h.
#ifndef LEAFD_CLIENTS_CPP_LEAFD_HPP
#define LEAFD_CLIENTS_CPP_LEAFD_HPP

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <leafd.h>

// (leafd itself is a struct of C's.)
namespace leafdpp
{

// Why a call failed: the code is the server's ("unknown_tag"), or one of docs/clients.md.
class Error : public std::runtime_error
{
  public:
    explicit Error(const ::leafd_error &error)
        : std::runtime_error(error.message), code_(error.code), status_(error.status),
          retryable_(error.retryable), key_(error.key)
    {
    }
    Error(const std::string &code, const std::string &message)
        : std::runtime_error(message), code_(code)
    {
    }

    const std::string &code() const noexcept
    {
        return code_;
    }
    // HTTP's; 0: no server answered.
    int status() const noexcept
    {
        return status_;
    }
    bool retryable() const noexcept
    {
        return retryable_;
    }
    // Of strict ids and texts: with this key the same ids can be asked for again, for a day.
    const std::string &key() const noexcept
    {
        return key_;
    }

  private:
    std::string code_;
    int status_ = 0;
    bool retryable_ = false;
    std::string key_;
};

using Settings = std::vector<std::string>; // "name=value"
// Of one call; none: the client's deadline_ms.
using Deadline = std::optional<std::chrono::milliseconds>;
using Key = std::optional<std::string>;
using Stats = struct ::leafd_stats;

// first, first + increment, and so on up to last.
struct Range {
    std::uint64_t first;
    std::uint64_t last;
    std::uint64_t increment; // 1, but for tags whose ids do not follow each other
};

// What happened (docs/clients.md, Events); the texts are borrowed until the hook returns.
using Event = ::leafd_event;
// It is called in the thread that the event happens in, must return soon, and must not throw.
using Hook = std::function<void(const Event &)>;

struct StrictRange : Range {
    bool replayed; // an earlier request with the key had got them
};

struct TextIds {
    std::vector<std::string> texts;
    bool replayed;
};

// What a snowflake id is made of.
struct Parts {
    std::chrono::system_clock::time_point time;
    std::uint32_t worker_id;
    std::uint32_t sequence;
};

namespace detail
{

using Handle = std::shared_ptr<::leafd>;

// What a handle owns.
struct Core {
    explicit Core(Hook given) : hook(std::move(given))
    {
    }
    Core(const Core &) = delete;
    Core &operator=(const Core &) = delete;
    ~Core()
    {
        ::leafd_free(leafd);
    }
    static void on_event(void *user, const Event *event) noexcept
    {
        hooks++;
        static_cast<Core *>(user)->hook(*event);
        hooks--;
    }
    // The hook may give up the last handle: what calls it goes on until it has returned. Where no
    // thread can be started, the client is closed, and its memory is not freed.
    static void end(Core *core) noexcept
    {
        if (hooks == 0 || core->leafd == nullptr) {
            delete core;
            return;
        }
        try {
            std::thread([core] { delete core; }).detach();
        } catch (const std::exception &) {
            ::leafd_close(core->leafd);
        }
    }
    Hook hook;
    ::leafd *leafd = nullptr;
    static inline thread_local int hooks = 0; // that this thread runs
};

// A text for C, which would end at a 0.
inline const char *text_of(const std::string &text, const char *name)
{
    if (text.find('\0') != std::string::npos) {
        throw Error("bad_setting", std::string(name) + " must not have a NUL in it");
    }
    return text.c_str();
}

inline std::uint32_t count_of(std::size_t count)
{
    if (count > std::numeric_limits<std::uint32_t>::max()) {
        throw Error("bad_setting", "count=" + std::to_string(count) + " is too large");
    }
    return static_cast<std::uint32_t>(count);
}

// C takes 0 for the client's own, which a deadline that has passed must not become.
inline std::uint32_t ms_of(const Deadline &deadline)
{
    if (!deadline) {
        return 0;
    }
    auto ms = deadline->count();
    if (ms < 1 || ms > std::numeric_limits<std::uint32_t>::max()) {
        throw Error("bad_setting", "deadline_ms=" + std::to_string(ms) + " must be 1 or more");
    }
    return static_cast<std::uint32_t>(ms);
}

template <typename Made> Made *made(Made *source, const ::leafd_error &error)
{
    if (source == nullptr) {
        throw Error(error);
    }
    return source;
}

template <typename Pointee> class Source
{
  protected:
    Source(Handle handle, Pointee *source) : handle_(std::move(handle)), source_(source)
    {
    }
    Handle handle_;
    Pointee *source_; // the client's
};

template <typename Call> auto call(Call &&body)
{
    ::leafd_error error;
    auto result = body(&error);
    if (result < 0) {
        throw Error(error);
    }
    return result;
}

inline std::uint64_t id_of(std::int64_t id)
{
    return static_cast<std::uint64_t>(id);
}

inline Range range_of(const ::leafd_series &series)
{
    return {id_of(series.first), id_of(series.last), id_of(series.increment)};
}

} // namespace detail

// Ids of a tag, from ranges that were fetched ahead: nanoseconds each.
class Segment : detail::Source<struct ::leafd_segment>
{
  public:
    std::uint64_t next()
    {
        return detail::id_of(detail::call(
            [&](::leafd_error *error) { return ::leafd_segment_next(source_, error); }));
    }
    std::vector<std::uint64_t> take(std::size_t count, Deadline deadline = {})
    {
        std::vector<std::uint64_t> ids(count);
        std::uint32_t ms = detail::ms_of(deadline);
        detail::call([&](::leafd_error *error) {
            auto *into = reinterpret_cast<std::int64_t *>(ids.data());
            return ::leafd_segment_take(source_, count, into, ms, error);
        });
        return ids;
    }
    // 1 to 100000 ids in one range, by a request of its own.
    Range range(std::size_t count, Deadline deadline = {})
    {
        ::leafd_series found;
        std::uint32_t ms = detail::ms_of(deadline);
        detail::call([&](::leafd_error *error) {
            return ::leafd_segment_series(source_, detail::count_of(count), &found, ms, error);
        });
        return detail::range_of(found);
    }

    // What it holds is burnt; calls fail with "closed", until the client is asked for it anew.
    void close()
    {
        ::leafd_segment_close(source_);
    }

  private:
    friend class Client;
    using Source::Source;
};

// Ids that rise over all nodes and clients: a request each.
class Strict : detail::Source<struct ::leafd_strict>
{
  public:
    std::uint64_t next(Deadline deadline = {})
    {
        return take(1, {}, deadline).first;
    }
    // 1 to 100000 ids. The same key gets the same ids, for a day.
    StrictRange take(std::size_t count, const Key &key = {}, Deadline deadline = {})
    {
        ::leafd_series found;
        bool replayed = false;
        const char *word = key ? detail::text_of(*key, "key") : nullptr;
        std::uint32_t ms = detail::ms_of(deadline);
        detail::call([&](::leafd_error *error) {
            return ::leafd_strict_series(source_, detail::count_of(count), word, &found, &replayed,
                                         ms, error);
        });
        return {detail::range_of(found), replayed};
    }

    // Calls fail with "closed", until the client is asked for it anew.
    void close()
    {
        ::leafd_strict_close(source_);
    }

  private:
    friend class Client;
    using Source::Source;
};

// Ids as texts, in the tag's shape: a request each.
class Texts : detail::Source<struct ::leafd_texts>
{
  public:
    std::string next(Deadline deadline = {})
    {
        return take(1, {}, deadline).texts.front();
    }
    // 1 to 1000 ids. A tag of mode trend takes no key.
    TextIds take(std::size_t count, const Key &key = {}, Deadline deadline = {})
    {
        if (count > COUNT_MAX) {
            throw Error("bad_setting", "count=" + std::to_string(count) +
                                           " of texts must be from 1 to " +
                                           std::to_string(COUNT_MAX));
        }
        std::vector<char> into(count * LEAFD_TEXT_BYTES);
        bool replayed = false;
        const char *word = key ? detail::text_of(*key, "key") : nullptr;
        std::uint32_t ms = detail::ms_of(deadline);
        detail::call([&](::leafd_error *error) {
            auto *first = reinterpret_cast<char(*)[LEAFD_TEXT_BYTES]>(into.data());
            return ::leafd_texts_take(source_, detail::count_of(count), word, first, &replayed, ms,
                                      error);
        });
        TextIds found{{}, replayed};
        for (std::size_t i = 0; i < count; i++) {
            found.texts.emplace_back(&into[i * LEAFD_TEXT_BYTES]);
        }
        return found;
    }
    // The number of a text of this tag, granted or not.
    std::uint64_t decode(const std::string &text, Deadline deadline = {})
    {
        const char *word = detail::text_of(text, "text");
        std::uint32_t ms = detail::ms_of(deadline);
        return detail::id_of(detail::call(
            [&](::leafd_error *error) { return ::leafd_texts_decode(source_, word, ms, error); }));
    }

    // Calls fail with "closed", until the client is asked for it anew.
    void close()
    {
        ::leafd_texts_close(source_);
    }

  private:
    static constexpr std::size_t COUNT_MAX = 1000;
    friend class Client;
    using Source::Source;
};

// Ids by time, made in this process with a worker id of its own.
class Snowflake : detail::Source<struct ::leafd_snowflake>
{
  public:
    std::uint64_t next(Deadline deadline = {})
    {
        std::uint32_t ms = detail::ms_of(deadline);
        return detail::id_of(detail::call([&](::leafd_error *error) {
            return ::leafd_snowflake_next_within(source_, ms, error);
        }));
    }
    Parts decode(std::uint64_t id)
    {
        ::leafd_parts parts;
        detail::call([&](::leafd_error *error) {
            return ::leafd_snowflake_decode(source_, static_cast<std::int64_t>(id), &parts, error);
        });
        std::chrono::system_clock::time_point time{std::chrono::milliseconds(parts.time_ms)};
        return {time, parts.worker_id, parts.sequence};
    }

    // The smallest id of a time, for scans of ids by time.
    std::uint64_t at(std::chrono::system_clock::time_point time)
    {
        auto ms = std::chrono::floor<std::chrono::milliseconds>(time).time_since_epoch().count();
        return detail::id_of(detail::call(
            [&](::leafd_error *error) { return ::leafd_snowflake_at(source_, ms, error); }));
    }

    // Its worker id is released; calls fail with "closed", until the client is asked for it anew.
    void close()
    {
        ::leafd_snowflake_close(source_);
    }

  private:
    friend class Client;
    using Source::Source;
};

// One cluster: its addresses, token, TLS, connections and counters.
class Client
{
  public:
    explicit Client(const Settings &settings = {}, Hook hook = {})
    {
        std::vector<const char *> words;
        for (const std::string &text : settings) {
            words.push_back(detail::text_of(text, "a setting"));
        }
        words.push_back(nullptr);
        ::leafd_error error;
        std::shared_ptr<detail::Core> core(new detail::Core(std::move(hook)), detail::Core::end);
        core->leafd = detail::made(::leafd_open(words.data(), &error), error);
        if (core->hook) {
            ::leafd_on_event(core->leafd, detail::Core::on_event, core.get());
        }
        handle_ = {core, core->leafd};
    }

    // The same source for each tag, and for each name of a worker id; without a name the library
    // makes one. At most 4096 a client.
    Segment segment(const std::string &tag)
    {
        return make<Segment>(::leafd_segment, tag);
    }
    Strict strict(const std::string &tag)
    {
        return make<Strict>(::leafd_strict, tag);
    }
    Texts texts(const std::string &tag)
    {
        return make<Texts>(::leafd_texts, tag);
    }
    Snowflake snowflake(const std::string &name)
    {
        return make<Snowflake>(::leafd_snowflake, name);
    }
    Snowflake snowflake()
    {
        ::leafd_error error;
        return {handle_, detail::made(::leafd_snowflake(handle_.get(), nullptr, &error), error)};
    }

    // Releases worker ids and ends what waits; calls fail with "closed" from then on.
    void close()
    {
        ::leafd_close(handle_.get());
    }

    Stats stats() const
    {
        Stats stats{};
        ::leafd_stats(handle_.get(), &stats, sizeof stats);
        return stats;
    }
    // The same for Prometheus.
    std::string stats_text() const
    {
        std::string text;
        std::size_t length = ::leafd_stats_text(handle_.get(), nullptr, 0);
        while (length > text.size()) { // counters that grow meanwhile may make it longer
            text.resize(length);
            length = ::leafd_stats_text(handle_.get(), text.data(), text.size() + 1);
        }
        text.resize(length);
        return text;
    }

  private:
    template <typename Made, typename Pointee>
    Made make(Pointee *open(::leafd *, const char *, ::leafd_error *), const std::string &name)
    {
        ::leafd_error error;
        const char *word = detail::text_of(name, "name");
        return {handle_, detail::made(open(handle_.get(), word, &error), error)};
    }
    detail::Handle handle_;
};

} // namespace leafdpp
#endif
