// An explanation as one self-contained HTML page: a table of all tensors that can be filtered, and for one of them who
// holds which box, source beside target. The page is explain_page.html with the script explain_page.js; here they get
// their data.
#pragma once

#include <string>

#include "compiler/explain/explain.h"

namespace ucp {

// The beginning of the page. A file that begins so may be overwritten by another page.
inline constexpr const char* kPageBegins = "<!doctype html>\n<!-- ucpc explain -->\n";

// Whatever names and texts hold, they reach the page as text only, and its policy lets nothing run but its own script
// and nothing be loaded at all.
std::string ExplainAsPage(const Explanation& explanation);

}  // namespace ucp
