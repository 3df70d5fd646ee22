// The arguments of the training script, as far as they say how the checkpoint was cut, held to what the files show.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "compiler/formats/megatron/rules/keys.h"
#include "compiler/layout/inventory.h"

namespace ucp::megatron {

class Arguments {
 public:
  // `facts` must outlive this object; they have the arguments under `args.`.
  explicit Arguments(const std::map<std::string, Fact>& facts) : facts_(facts) {}

  std::optional<std::int64_t> Number(const std::string& name) const;
  std::string Text(const std::string& name) const;  // Empty: there is none.
  bool IsSet(const std::string& name) const;        // To something that is neither None nor False.

  // Fails (kBadData) where they differ from the numbers of stages, of tensor-parallel ranks, of layers or of rows of
  // the vocabulary that the keys have.
  [[nodiscard]] llvm::Error Check(const Keys& keys) const;

  // "TP 2, PP 2, DP 2"; empty if they say none.
  std::string Degrees() const;

  // The elements with which a bucket of the first stage's first part ends; nothing if they do not end one. All other
  // buffers are one bucket.
  std::optional<std::int64_t> ElementsOfBucket() const;

 private:
  [[nodiscard]] llvm::Error CheckRanks(const ShardOfObject& seeds) const;
  [[nodiscard]] llvm::Error CheckTensor(const dcp::Entry& tensor) const;
  [[nodiscard]] llvm::Error Compare(const std::string& name, std::int64_t found, const std::string& shown_by) const;

  const std::map<std::string, Fact>& facts_;
};

}  // namespace ucp::megatron
