// The cut of one tensor by a checkpoint's own metadata (layout/embedded_layout.h), as a shape expression.
#pragma once

#include <llvm/Support/Error.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/infer/decide.h"

namespace ucp {

class EmbeddedReader {
 public:
  // Compiles the patterns with RE2; nothing for null. Fails for a pattern that RE2 does not know.
  static llvm::Expected<std::optional<EmbeddedReader>> Make(const EmbeddedLayout* embedded,
                                                            std::int64_t vocabulary_grain);

  // Returns nothing if no pattern speaks of this tensor: DeepSpeed's own converter would then concatenate it along
  // dimension 0 without a word. Fails where two patterns of one kind match, or where they contradict the shapes.
  llvm::Expected<std::optional<Decision>> Read(const ObservedTensor& tensor) const;

  // Returns why the metadata itself says that it cannot describe this tensor; empty if it does not say so.
  std::string WhyUnsupported(const std::string& name) const;

  EmbeddedReader(EmbeddedReader&&) noexcept;
  EmbeddedReader& operator=(EmbeddedReader&&) noexcept;
  ~EmbeddedReader();

 private:
  struct Patterns;
  explicit EmbeddedReader(std::unique_ptr<Patterns> patterns);
  std::unique_ptr<Patterns> patterns_;
};

}  // namespace ucp
