// A second file of a program with the header: what it defines is in both, and links.
#include "leafd.hpp"

leafdpp::Settings nowhere();
leafdpp::Settings nowhere()
{
    return {"endpoints=http://127.0.0.1:9", "deadline_ms=1"};
}
