// The pages of docs/diagnostics, one for each kind of diagnostic, as they were when the program was built.
#pragma once

#include <string_view>

namespace ucp {

// Returns the page in Markdown, or nothing if there is no such kind. A test sees to it that every kind has a page.
std::string_view DiagnosticPage(std::string_view kind);

}  // namespace ucp
