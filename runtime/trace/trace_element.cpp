// The copies are found first, read by read and state by state. Then each is held against the one that is taken for its
// state and term; a weight, against its master. The written element follows from those that are taken, by the
// executor's own arithmetic.
#include "runtime/trace/trace_element.h"

#include <map>

#include "compiler/support/check.h"
#include "compiler/support/error.h"
#include "runtime/elements/arithmetic.h"
#include "runtime/elements/cast.h"
#include "runtime/elements/finish_sum.h"
#include "runtime/elements/rounding.h"

namespace ucp {
namespace {

constexpr std::size_t kLargestItem = 16;

class Tracer {
 public:
  Tracer(ReadableFileSystem& files, const std::string& root, const Plan& plan, TensorId tensor, const Index& index)
      : files_(files), root_(root), plan_(plan), tensor_(tensor), index_(index) {}

  llvm::Error FindCopies() {
    for (const PlanRead& read : plan_.reads) {
      if (read.tensor != tensor_) continue;
      for (const StateBuffer& entry : plan_.source.buffer_set(read.states)) {
        const std::optional<ElementPlace> place = PlaceInSource(plan_, read, entry.buffer, index_);
        if (!place) continue;
        ElementCopy copy{*place, read.role, read.term, read.is_overruled, read.reason, {}, Agreement::kNotAsked};
        UCP_ASSIGN_OR_RETURN(copy.bytes, Read(*place));
        copies_[entry.state].push_back(std::move(copy));
      }
    }
    return llvm::Error::success();
  }

  void Judge() {
    for (auto& [state, copies] : copies_) {
      for (ElementCopy& copy : copies) copy.agreement = JudgementOf(state, copy);
    }
  }

  std::vector<TracedState> states() const {
    std::vector<TracedState> states;
    for (const auto& [state, copies] : copies_) states.push_back({state, copies});
    return states;
  }

  std::vector<WrittenElement> Written() const {
    std::vector<WrittenElement> written;
    for (const PlanWrite& write : plan_.writes) {
      for (const StateBuffer& entry : plan_.target.buffer_set(write.states)) {
        const std::optional<ElementPlace> place = PlaceInTarget(plan_, write, tensor_, entry.buffer, index_);
        if (!place) continue;
        const std::string from = FeedOf(entry.state);
        written.push_back({entry.state, from, Taken(from, 0)->place.dtype, *place, ValueOf(from, place->dtype)});
      }
    }
    return written;
  }

 private:
  llvm::Expected<std::vector<std::byte>> Read(const ElementPlace& place) const {
    std::vector<std::byte> bytes(static_cast<std::size_t>(ItemBytes(place.dtype)));
    UCP_ASSIGN_OR_RETURN(std::unique_ptr<ReadableFile> file, files_.OpenForReading(JoinPath(root_, place.file)));
    UCP_RETURN_IF_ERROR(file->ReadAt(place.offset, bytes));
    return bytes;
  }

  const ElementCopy* Taken(const std::string& state, std::int64_t term) const {
    auto found = copies_.find(state);
    if (found == copies_.end()) return nullptr;
    for (const ElementCopy& copy : found->second) {
      if (copy.role == ReadRole::kCopy && copy.term == term) return &copy;
    }
    return nullptr;
  }

  Agreement JudgementOf(const std::string& state, const ElementCopy& copy) const {
    switch (copy.role) {
      case ReadRole::kCopy:
        return Agreement::kIsTaken;
      case ReadRole::kCompare: {
        const ElementCopy* taken = Taken(state, copy.term);
        if (taken == nullptr) return Agreement::kNotAsked;
        return taken->bytes == copy.bytes ? Agreement::kAgrees : Agreement::kDiffers;
      }
      case ReadRole::kCheckRounding: {
        const ElementCopy* master = Taken(kMasterState, copy.term);
        const bool can_check =
            master != nullptr && master->place.dtype == DType::kFloat32 && CanCheckRounding(copy.place.dtype);
        if (!can_check) return Agreement::kNotAsked;
        return IsRoundingOf(master->bytes.data(), copy.place.dtype, copy.bytes.data()) ? Agreement::kAgrees
                                                                                       : Agreement::kDiffers;
      }
      case ReadRole::kUnused:
        return Agreement::kNotAsked;
    }
    UCP_UNREACHABLE();
  }

  // As state_feeds.h has it: what the model computes with is made from the master, where there is one.
  std::string FeedOf(const std::string& state) const {
    return state == kWeightState && Taken(kMasterState, 0) != nullptr ? kMasterState : state;
  }

  std::vector<std::byte> ValueOf(const std::string& state, DType dtype) const {
    const Arithmetic& arithmetic = plan_.tensor(tensor_).arithmetic;
    const ElementCopy* first = Taken(state, 0);
    const DType from = first->place.dtype;
    std::vector<std::byte> value = first->bytes;
    if (arithmetic.terms > 1) {
      value.assign(value.size(), std::byte{0});
      for (std::int64_t term = 0; term < arithmetic.terms; ++term) Add(from, value, Taken(state, term)->bytes);
    }
    FinishSum(arithmetic, from, value);
    value.resize(kLargestItem);
    Cast(value, 1, from, dtype, FollowsOffset(state) ? arithmetic.offset : 0);
    value.resize(static_cast<std::size_t>(ItemBytes(dtype)));
    return value;
  }

  ReadableFileSystem& files_;
  const std::string& root_;
  const Plan& plan_;
  const TensorId tensor_;
  const Index& index_;
  std::map<std::string, std::vector<ElementCopy>> copies_;  // By state.
};

}  // namespace

llvm::Expected<ElementTrace> TraceElement(ReadableFileSystem& files, const std::string& root, const Plan& plan,
                                          TensorId tensor, const Index& index) {
  Tracer tracer(files, root, plan, tensor, index);
  UCP_RETURN_IF_ERROR(tracer.FindCopies());
  tracer.Judge();
  return ElementTrace{tracer.states(), tracer.Written()};
}

}  // namespace ucp
