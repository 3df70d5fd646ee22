// The contents of a torch optimizer's state_dict(), in any file: the hyper-parameters of its groups, and the states of
// every tensor that it steps. Such a tensor is a flat vector of many parameters, or one parameter.
#pragma once

#include <llvm/Support/Error.h>

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/formats/source_archives.h"

namespace ucp::deepspeed {

// A state that is not one number for each element (loose_states.h).
struct OtherState {
  std::string sentence;  // Says so, and where it was found.
  pytorch::ValuePtr value;
  std::vector<TensorPlace> tensors;  // Those in `value`, whose storages have their places here as keys.
};

struct SteppedTensor {
  TensorPlace master;
  std::map<std::string, TensorPlace> states;  // By the optimizer's own names.
  std::map<std::string, OtherState> others;
  pytorch::ValuePtr step;  // Null if there is none.
};

// Moves the states of another shape to `others`, and with them their codes of a byte or of integers, which mean nothing
// without scales. Call when the shape of this tensor's master is known: a flat vector its padding, a parameter its
// sizes.
void SetAsideOthers(const std::vector<std::int64_t>& sizes, const std::string& path, const std::string& owner,
                    SteppedTensor& tensor);

class TorchOptimizerReader {
 public:
  // The arguments must outlive this object.
  TorchOptimizerReader(SourceArchives& archives, const SourceArchive& archive)
      : archives_(archives), archive_(archive) {}

  [[nodiscard]] llvm::Error Bad(const std::string& sentence) const;
  [[nodiscard]] llvm::Error Unsupported(const std::string& found) const;

  // Returns the place of a tensor that holds `state` of `owner` ("group 2"); a contiguous vector.
  llvm::Expected<TensorPlace> PlaceOf(const pytorch::ValuePtr& tensor, const std::string& state,
                                      const std::string& owner) const;
  llvm::Expected<TensorPlace> VectorPlace(const pytorch::ValuePtr& tensor, const std::string& state,
                                          const std::string& owner) const;

  // Returns the numbers of the tensors of `param_groups` `index`.
  llvm::Expected<std::vector<std::int64_t>> NumbersOf(const pytorch::Value& group, std::size_t index) const;

  // `states` is the optimizer's dict for one tensor; null before the first step. A step that is there outranks the one
  // that `tensor` has already.
  [[nodiscard]] llvm::Error ReadStates(const pytorch::ValuePtr& states, const std::string& owner,
                                       SteppedTensor& tensor) const;

  // An optimizer cannot have kept two states in the same bytes: one of them is lost.
  using Owned = std::pair<std::string, const SteppedTensor*>;
  [[nodiscard]] llvm::Error CheckDistinctMemory(const std::vector<Owned>& tensors) const;

  // Replaces values by the parts that are kept when the file is closed; all in one go, so that shared values stay
  // shared. Null stays null.
  [[nodiscard]] llvm::Error Keep(const std::vector<pytorch::ValuePtr*>& values,
                                 std::vector<pytorch::Entry>& entries) const;

 private:
  [[nodiscard]] llvm::Error ReadState(const std::string& name, const pytorch::ValuePtr& value, const std::string& owner,
                                      SteppedTensor& tensor) const;
  llvm::Expected<OtherState> ReadOther(const pytorch::ValuePtr& value, const std::string& name) const;

  SourceArchives& archives_;
  const SourceArchive& archive_;
};

// Returns a param_group without the numbers of its parameters.
pytorch::ValuePtr WithoutParams(const pytorch::Value& group);
// Returns the entries of a dict under other keys than these.
std::vector<pytorch::Entry> EntriesWithout(const pytorch::Value& dict, std::span<const std::string_view> keys);

}  // namespace ucp::deepspeed
