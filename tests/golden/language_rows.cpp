#include "tests/golden/language_rows.h"

#include <string_view>

namespace ucp::golden {

const std::vector<LanguageRow>& LanguageRows() {
  static const std::vector<LanguageRow> rows = {
      {"dim", {"declaration.dim", "feature.several paths", "feature.default of a definition"}},
      {"fact", {"declaration.fact", "expression.index", "expression.length"}},
      {"when", {"item.when", "feature.else when", "feature.else", "expression.has", "comparison.in"}},
      {"mesh", {"declaration.mesh"}},
      {"shapes", {"expression.product", "expression.sum", "expression.pad"}},
      {"cut", {"cut rule.even", "feature.several axes"}},
      {"chunk", {"cut rule.chunk"}},
      {"spread", {"cut rule.spread", "feature.argument of a cut rule"}},
      {"widths", {"cut rule.widths"}},
      {"list", {"cut rule.list"}},
      {"replicate", {"cut rule.replicate"}},
      {"mean", {"feature.mean"}},
      {"scale", {"feature.scale"}},
      {"offset", {"feature.offset"}},
      {"names", {"name.alternatives", "name.capture", "name.computed", "feature.offset of a counter"}},
      {"counters", {"feature.cut of a counter", "feature.local counter"}},
      {"optional", {"feature.optional tensor", "feature.buffer"}},
      {"tie", {"item.tie"}},
      {"drop", {"item.drop"}},
      {"block", {"item.block"}},
      {"at", {"stage.first", "stage.last", "stage.number", "feature.unused stage"}},
      {"interleave", {"item.interleave"}},
      {"include", {"declaration.include"}},
      {"strategy", {"declaration.strategy"}},
      {"model", {"declaration.model", "feature.layout of a model", "feature.label of a part", "feature.assigned part"}},
  };
  return rows;
}

std::vector<std::string> PagesOfTable(const std::string& text) {
  constexpr std::string_view kLink = "](language/";
  std::vector<std::string> pages;
  for (std::size_t at = text.find("\n| ["); at != text.npos; at = text.find("\n| [", at + 1)) {
    std::size_t link = text.find(kLink, at);
    if (link == text.npos || link > text.find('\n', at + 1)) continue;
    link += kLink.size();
    pages.push_back(text.substr(link, text.find(".md)", link) - link));
  }
  return pages;
}

}  // namespace ucp::golden
