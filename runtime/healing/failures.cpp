#include "runtime/healing/failures.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/ADT/StringRef.h>

#include <algorithm>
#include <string>

#include "compiler/support/check.h"

namespace ucp {
namespace {

constexpr FailureKind kFailureKinds[] = {
#define UCP_FAILURE(name, method, severity, words) {name, DetectionMethod::method, severity, words},
#include "runtime/healing/failures.def"
#undef UCP_FAILURE
};

bool HasOneOf(llvm::StringRef text, llvm::StringRef words) {
  llvm::SmallVector<llvm::StringRef> alternatives;
  words.split(alternatives, '|');
  return llvm::any_of(alternatives, [&](llvm::StringRef word) { return text.contains(word); });
}

}  // namespace

llvm::ArrayRef<FailureKind> FailureKinds() { return kFailureKinds; }

const FailureKind* FindFailureKind(std::string_view name) {
  const auto* found = std::ranges::find(kFailureKinds, name, &FailureKind::name);
  return found == std::end(kFailureKinds) ? nullptr : found;
}

const FailureKind& KindOfException(std::string_view type, std::string_view text) {
  const std::string lower = llvm::StringRef(std::string(type) + ": " + std::string(text)).lower();
  for (const FailureKind& kind : kFailureKinds) {
    if (kind.method == DetectionMethod::kException && HasOneOf(lower, kind.words)) return kind;
  }
  UCP_UNREACHABLE();  // The words of the last row are in every text.
}

}  // namespace ucp
