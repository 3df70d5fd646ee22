#include "compiler/formats/deepspeed/native/read/optimizer/zero0_values.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <map>
#include <optional>

#include "compiler/support/error.h"
#include "compiler/support/floats.h"

namespace ucp::deepspeed {
namespace {

constexpr std::int64_t kMostCompared = 4096;  // Elements of one parameter.

class Namer {
 public:
  Namer(const SourceArchives& archives, const WholeOptimizer& optimizer,
        const std::vector<std::pair<std::string, TensorPlace>>& candidates)
      : archives_(archives), optimizer_(optimizer) {
    for (const auto& [name, place] : candidates) candidates_.push_back({name, place, {}, std::nullopt});
  }

  llvm::Expected<NamedByValues> Run() {
    UCP_RETURN_IF_ERROR(ReadCandidates());
    for (std::size_t g = 0; g < optimizer_.groups.size() && named_.why_not.empty(); ++g) {
      named_.groups.emplace_back();
      found_.emplace_back();
      for (const SteppedTensor& tensor : optimizer_.groups[g].tensors) {
        UCP_RETURN_IF_ERROR(NameMaster(g, tensor.master));
      }
    }
    if (named_.why_not.empty()) FindTies();
    if (!named_.why_not.empty()) named_.groups.clear();
    return std::move(named_);
  }

  // Of one flat group: whether all candidates lie in it in their order.
  llvm::Expected<bool> AreBehindEachOther() {
    UCP_RETURN_IF_ERROR(ReadCandidates());
    const TensorPlace& master = optimizer_.groups.front().tensors.front().master;
    if (master.dtype != DType::kFloat32 || !master.strides.empty()) return false;
    std::int64_t at = 0;
    for (const Candidate& candidate : candidates_) {
      if (candidate.place.elements > master.elements - at) return false;
      UCP_ASSIGN_OR_RETURN(const std::vector<float> values, Read<float>(master, at, std::ssize(candidate.values)));
      if (!IsRoundingOf(candidate, values)) return false;
      at += candidate.place.elements;
    }
    return at == master.elements;
  }

 private:
  struct Candidate {
    std::string name;
    TensorPlace place;
    std::vector<std::uint16_t> values;  // The first ones.
    std::optional<std::size_t> group;   // In which it is.
  };

  static std::uint16_t Round(DType dtype, float value) {
    return dtype == DType::kBFloat16 ? RoundToBFloat16(value) : RoundToFloat16(value);
  }

  llvm::Error ReadCandidates() {
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      Candidate& candidate = candidates_[i];
      const TensorPlace& place = candidate.place;
      const bool is_half = place.dtype == DType::kBFloat16 || place.dtype == DType::kFloat16;
      // A tensor that is in several records has the place of the first.
      const std::int64_t there = std::min({place.elements, place.record_elements - place.offset, kMostCompared});
      if (!is_half || there <= 0 || !place.strides.empty()) continue;
      UCP_ASSIGN_OR_RETURN(candidate.values, Read<std::uint16_t>(place, 0, there));
      by_first_value_[{place.dtype, candidate.values.front()}].push_back(i);
    }
    return llvm::Error::success();
  }

  template <typename T>
  llvm::Expected<std::vector<T>> Read(const TensorPlace& place, std::int64_t first, std::int64_t count) const {
    UCP_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, archives_.ReadElements(place, first, count));
    std::vector<T> values(static_cast<std::size_t>(count));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }

  // A flat master has parameters behind each other, any other is one.
  llvm::Error NameMaster(std::size_t g, const TensorPlace& master) {
    const bool is_flat = optimizer_.form == WholeForm::kFlatGroups;
    if (master.dtype != DType::kFloat32 || !master.strides.empty() || master.elements == 0) {
      named_.why_not = fmt::format("a master of group {} tells nothing (it is empty, transposed or not float32)", g);
    }
    for (std::int64_t at = 0; at < master.elements && named_.why_not.empty();) {
      const std::int64_t there = std::min(master.elements - at, kMostCompared);
      UCP_ASSIGN_OR_RETURN(const std::vector<float> values, Read<float>(master, at, there));
      Candidate* found = Find(values, master.elements - at, is_flat ? nullptr : &master.sizes);
      if (found == nullptr) {
        const std::string place =
            is_flat ? fmt::format(" from element {} on", at) : fmt::format(", of [{}]", fmt::join(master.sizes, ", "));
        if (named_.why_not.empty()) {
          named_.why_not = fmt::format("no parameter has the values of a master of group {}{}", g, place);
        }
        break;
      }
      found->group = g;
      found_.back().push_back(found - candidates_.data());
      named_.groups.back().push_back({found->name, found->place.sizes});
      at += found->place.elements;
    }
    return llvm::Error::success();
  }

  // The first candidate that is not named yet and has these values. Null if there is none, or if there are two of
  // different lengths, which `why_not` then says.
  Candidate* Find(const std::vector<float>& values, std::int64_t most, const std::vector<std::int64_t>* sizes) {
    Candidate* found = nullptr;
    for (DType dtype : {DType::kBFloat16, DType::kFloat16}) {
      const auto alike = by_first_value_.find({dtype, Round(dtype, values.front())});
      for (std::size_t i : alike == by_first_value_.end() ? std::vector<std::size_t>() : alike->second) {
        Candidate& candidate = candidates_[i];
        const bool fits = sizes != nullptr ? candidate.place.sizes == *sizes : candidate.place.elements <= most;
        if (candidate.group || !fits || !IsRoundingOf(candidate, values)) continue;
        if (found == nullptr) {
          found = &candidate;
        } else if (found->place.elements != candidate.place.elements) {
          named_.why_not = fmt::format("`{}` and `{}` begin with the same values", found->name, candidate.name);
          return nullptr;
        }
      }
    }
    return found;
  }

  static bool IsRoundingOf(const Candidate& candidate, const std::vector<float>& values) {
    if (candidate.values.size() > values.size()) return false;
    return std::equal(
        candidate.values.begin(), candidate.values.end(), values.begin(),
        [&](std::uint16_t weight, float master) { return weight == Round(candidate.place.dtype, master); });
  }

  // Candidates with the same values could be each other, unless one group has all of them and is in the module's order.
  void FindTies() {
    for (const auto& [first_value, alike] : by_first_value_) {
      for (std::size_t i : alike) {
        for (std::size_t j : alike) {
          const Candidate& a = candidates_[i];
          const Candidate& b = candidates_[j];
          const bool is_tie = i != j && a.group && a.place.elements == b.place.elements && a.values == b.values &&
                              (optimizer_.form == WholeForm::kFlatGroups || a.place.sizes == b.place.sizes);
          if (!is_tie || (a.group == b.group && std::ranges::is_sorted(found_[*a.group]))) continue;
          named_.why_not = fmt::format(
              "`{}` and `{}` have the same values, and group {} {}", a.name, b.name, *a.group,
              a.group == b.group ? "does not have its parameters in the module's order" : "has one of them");
          return;
        }
      }
    }
  }

  const SourceArchives& archives_;
  const WholeOptimizer& optimizer_;
  std::vector<Candidate> candidates_;
  std::map<std::pair<DType, std::uint16_t>, std::vector<std::size_t>> by_first_value_;
  NamedByValues named_;
  std::vector<std::vector<std::ptrdiff_t>> found_;  // The candidates of each group.
};

}  // namespace

llvm::Expected<NamedByValues> NameByValues(const SourceArchives& archives, const WholeOptimizer& optimizer,
                                           const std::vector<std::pair<std::string, TensorPlace>>& candidates) {
  return Namer(archives, optimizer, candidates).Run();
}

llvm::Expected<bool> AreBehindEachOther(const SourceArchives& archives, const WholeOptimizer& optimizer,
                                        const std::vector<std::pair<std::string, TensorPlace>>& candidates) {
  if (optimizer.form != WholeForm::kFlatGroups || optimizer.groups.size() != 1) return false;
  return Namer(archives, optimizer, candidates).AreBehindEachOther();
}

}  // namespace ucp::deepspeed
