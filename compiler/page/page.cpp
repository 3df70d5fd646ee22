// The data is JSON in a script element that is not run. Within such an element only `<` could end it, and in JSON `<`
// stands in strings only, where it may be written as \u003c.
#include "compiler/page/page.h"

#include <fmt/format.h>
#include <llvm/ADT/ArrayRef.h>
#include <llvm/Support/Base64.h>
#include <llvm/Support/JSON.h>
#include <llvm/Support/SHA256.h>

#include "compiler/page/page_text.h"

namespace ucp {
namespace {

void ReplaceAll(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

// Only a script with exactly these bytes may run.
std::string PolicyFor(std::string_view script) {
  llvm::ArrayRef<std::uint8_t> bytes(reinterpret_cast<const std::uint8_t*>(script.data()), script.size());
  return fmt::format("default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{}'",
                     llvm::encodeBase64(llvm::SHA256::hash(bytes)));
}

}  // namespace

std::string_view PageBegins(PageKind kind) {
  return kind == PageKind::kExplain ? "<!doctype html>\n<!-- ucpc explain -->\n"
                                    : "<!doctype html>\n<!-- ucprun inspect -->\n";
}

std::string MakePage(PageKind kind, std::string data) {
  ReplaceAll(data, "<", "\\u003c");
  const bool explains = kind == PageKind::kExplain;
  const std::string_view script = explains ? kExplainScript : kInspectScript;
  const std::map<std::string_view, std::string> parts = {{"{{program}}", explains ? "ucpc explain" : "ucprun inspect"},
                                                         {"{{policy}}", PolicyFor(script)},
                                                         {"{{data}}", std::move(data)},
                                                         {"{{script}}", std::string(script)}};
  std::string page;
  std::string_view rest = kPage;
  while (!rest.empty()) {
    std::size_t begin = rest.find("{{");
    page += rest.substr(0, begin);
    if (begin == std::string_view::npos) break;
    std::size_t end = rest.find("}}", begin) + 2;
    page += parts.at(rest.substr(begin, end - begin));
    rest.remove_prefix(end);
  }
  return page;
}

std::vector<std::string> Numbering::InOrder() const {
  std::vector<std::string> keys(numbers_.size());
  for (const auto& [key, number] : numbers_) keys[static_cast<std::size_t>(number)] = key;
  return keys;
}

std::string Utf8(const std::string& text) { return llvm::json::isUTF8(text) ? text : llvm::json::fixUTF8(text); }

}  // namespace ucp
