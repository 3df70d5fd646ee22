// Text from files and command lines, made safe for one line of a terminal.
#pragma once

#include <string>
#include <string_view>

namespace ucp {

// Characters that a terminal would obey and not show become escapes: control characters (`\n`, `\x1b`), bytes that are
// not UTF-8 (`\xff`), and code points that reorder or hide text (`\u{202e}`). All else stays.
std::string Printable(std::string_view text);

// JSON with those of these characters that its writers leave in texts, as JSON escapes them (`\u202e`). The end of
// `json` may be the beginning of a character, of at most 3 bytes: it is left in `json`, and all else is taken.
std::string TakePrintableJson(std::string& json);

// Does the same line by line, for text that has several: the diagnostics of a spec.
std::string PrintableLines(std::string_view text);

}  // namespace ucp
