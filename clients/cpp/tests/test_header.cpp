// What leafd.hpp adds to libleafd: ownership, exceptions, and what it refuses by itself. What takes
// a node is in clients/conformance. Exit code 0, or 1 with a line for each check that failed.
#include "leafd.hpp"

#include <functional>
#include <iostream>
#include <mutex>
#include <thread>
#include <type_traits>

leafdpp::Settings nowhere(); // of other.cpp

using leafdpp::Error;

static_assert(std::is_copy_constructible_v<leafdpp::Client>);
static_assert(std::is_nothrow_move_constructible_v<leafdpp::Segment>);
static_assert(!std::is_default_constructible_v<leafdpp::Strict>);
static_assert(std::is_base_of_v<std::exception, Error>);

static int failures;

static void check(bool right, const std::string &what)
{
    if (!right) {
        std::cerr << "test_header: " << what << '\n';
        failures++;
    }
}

// The call fails with this code, and this word is in the message.
static void refused(const std::string &code, const std::string &word,
                    const std::function<void()> &call)
{
    try {
        call();
        check(false, "no " + code + ": " + word);
    } catch (const Error &error) {
        bool right = error.code() == code && error.status() == 0 &&
                     std::string(error.what()).find(word) != std::string::npos;
        check(right, code + ", " + word + ": " + error.code() + " " + error.what());
    }
}

static void test_settings()
{
    refused("bad_setting", "deadline_ms=0", [] {
        leafdpp::Client({"endpoints=http://a", "deadline_ms=0"});
    });
    refused("bad_setting", "colour", [] { leafdpp::Client({"colour=red"}); });
    // C would end the text there, and the setting would be another.
    refused("bad_setting", "NUL",
            [] { leafdpp::Client({std::string("endpoints=http://a\0,http://b", 28)}); });
}

static void test_errors()
{
    leafdpp::Client client(nowhere());
    refused("unreachable", "no node", [&] { client.segment("orders").next(); });
    refused("unreachable", "no node", [&] { client.snowflake("mine").next(); });
    try {
        client.strict("orders").take(2, "order-4711");
        check(false, "strict ids from nowhere");
    } catch (const Error &error) {
        check(error.retryable() && error.key() == "order-4711", "the key to come again with");
    }
    client.close();
    client.close();
    refused("closed", "closed", [&] { client.segment("orders"); });
}

static void test_arguments()
{
    leafdpp::Client client(nowhere());
    auto segment = client.segment("orders");
    auto texts = client.texts("orders");
    refused("bad_setting", "NUL", [&] { client.segment(std::string("orders\0x", 8)); });
    refused("bad_setting", "NUL", [&] { texts.decode(std::string("A\0", 2)); });
    refused("bad_setting", "NUL", [&] { texts.take(1, std::string("k\0", 2)); });
    refused("bad_setting", "128 bytes", [&] { client.snowflake(""); });
    // In 32 bits this would be one.
    std::size_t beyond = (std::size_t(1) << 32) + 1;
    refused("bad_setting", "4294967297", [&] { segment.range(beyond); });
    refused("bad_setting", "4294967297", [&] { client.strict("orders").take(beyond); });
    refused("bad_setting", "1001", [&] { texts.take(1001); });
    refused("bad_setting", "count=0", [&] { texts.take(0); });
    check(segment.take(0).empty(), "no ids");
    // For C a deadline of 0 is the client's.
    using std::chrono::milliseconds;
    for (milliseconds ms : {milliseconds(0), milliseconds(-1), milliseconds(1LL << 32)}) {
        refused("bad_setting", "deadline_ms=", [&] { segment.take(1, ms); });
        refused("bad_setting", "deadline_ms=", [&] { client.snowflake().next(ms); });
    }
    refused("bad_setting", "id=", [&] { client.snowflake().decode(1ULL << 63); });
    check(client.stats().requests == 0, "something was sent");
}

// With AddressSanitizer: what is used after it was freed is seen, and what is never freed.
static void test_ownership()
{
    std::optional<leafdpp::Segment> segment;
    {
        leafdpp::Client client(nowhere());
        segment.emplace(client.segment("orders"));
        leafdpp::Client copy = client;
        leafdpp::Client moved = std::move(client);
        refused("unreachable", "no node", [&] { moved.strict("orders").next(); });
        check(copy.stats().errors == moved.stats().errors && moved.stats().errors > 0,
              "a copy has the same counters");
    }
    refused("unreachable", "no node", [&] { segment->next(); });
}

static void test_events()
{
    std::mutex lock;
    std::vector<std::string> failovers;
    {
        leafdpp::Client client(
            {"endpoints=http://127.0.0.1:9,http://127.0.0.1:10", "deadline_ms=1000"},
            [&](const leafdpp::Event &event) {
                std::lock_guard<std::mutex> guard(lock);
                if (std::string(event.kind) == "failover") {
                    failovers.push_back(std::string(event.from) + ' ' + event.to);
                }
            });
        refused("unreachable", "no node", [&] { client.strict("orders").next(); });
    }
    check(!failovers.empty() && failovers[0].find("http://127.0.0.1:10") != std::string::npos,
          "an event of a failover, with both endpoints");
}

// The last handle is given up by a thread of libleafd's.
static void test_a_hook_that_gives_up_the_last_handle()
{
    struct Shared {
        std::mutex lock; // held until the program has given up the others
        std::optional<leafdpp::Client> kept;
    };
    auto shared = std::make_shared<Shared>();
    std::weak_ptr<Shared> alive = shared;
    {
        std::lock_guard<std::mutex> guard(shared->lock);
        leafdpp::Client client(
            {"endpoints=http://127.0.0.1:9,http://127.0.0.1:10", "deadline_ms=100"},
            [shared](const leafdpp::Event &) {
                std::lock_guard<std::mutex> inner(shared->lock);
                shared->kept.reset();
            });
        shared->kept = client;
        refused("unreachable", "no", [&] { client.segment("orders").next(); });
    }
    shared.reset();
    while (!alive.expired()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

static void test_counters()
{
    leafdpp::Client client(nowhere());
    std::string text = client.stats_text();
    check(text.find("leafd_client_ids_segment_total 0\n") != std::string::npos, text);
    check(text.back() == '\n', "the end of the text");
}

int main()
{
    test_settings();
    test_errors();
    test_arguments();
    test_ownership();
    test_events();
    test_a_hook_that_gives_up_the_last_handle();
    test_counters();
    if (failures == 0) {
        std::cout << "test_header: passed\n";
    }
    return failures == 0 ? 0 : 1;
}
