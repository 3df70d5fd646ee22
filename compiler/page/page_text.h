// The page and its scripts without data, embedded when the programs are built.
#pragma once

#include <string_view>

namespace ucp {

extern const std::string_view kPage;           // page.html, with {{program}}, {{policy}}, {{data}} and {{script}}.
extern const std::string_view kExplainScript;  // Of list.js, map.js, explain_map.js and explain.js.
extern const std::string_view kInspectScript;  // Of list.js, map.js and inspect.js.

}  // namespace ucp
