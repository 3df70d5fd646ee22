// The rows of the table of constructs in docs/language.md, and which alternatives of the tree show each of them.
#pragma once

#include <string>
#include <vector>

namespace ucp::golden {

struct LanguageRow {
  std::string page;                       // "when": the row that links to docs/language/when.md.
  std::vector<std::string> alternatives;  // As CollectAlternatives names them.
};

const std::vector<LanguageRow>& LanguageRows();

// The pages that the table in the text of docs/language.md links to, in its order.
std::vector<std::string> PagesOfTable(const std::string& text);

}  // namespace ucp::golden
