// The page of `ucpc explain --html` without its data, embedded when the program is built.
#pragma once

#include <string_view>

namespace ucp {

extern const std::string_view kExplainPage;    // explain_page.html, with {{policy}}, {{data}} and {{script}}.
extern const std::string_view kExplainScript;  // explain_map.js and explain_page.js

}  // namespace ucp
