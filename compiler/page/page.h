// Self-contained HTML pages: a list of tensors that can be filtered, a map of all of them, and one of them in full. The
// page and its scripts are page.html and the scripts beside it; here they get their data.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ucp {

enum class PageKind { kExplain, kInspect };

// The beginning of such a page. A file that begins so may be overwritten by another page of this kind.
std::string_view PageBegins(PageKind kind);

// `data` is JSON. Whatever names and texts hold, they reach the page as text only, and its policy lets nothing run but
// its own script and nothing be loaded at all.
std::string MakePage(PageKind kind, std::string data);

// Distinct values of one kind, numbered as they come.
class Numbering {
 public:
  std::int64_t NumberOf(const std::string& key) {
    return numbers_.emplace(key, static_cast<std::int64_t>(numbers_.size())).first->second;
  }
  std::vector<std::string> InOrder() const;

 private:
  std::map<std::string, std::int64_t> numbers_;
};

// Names come from files that anyone may have written; JSON is UTF-8.
std::string Utf8(const std::string& text);

}  // namespace ucp
