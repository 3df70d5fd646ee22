#include "compiler/plan/verify_coverage.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "compiler/plan/steps.h"
#include "compiler/support/checked_math.h"
#include "compiler/support/error.h"

namespace ucp {
namespace {

struct WrittenBytes {
  FileId file;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  bool is_blob = false;

  bool operator<(const WrittenBytes& other) const {
    return std::tie(file, begin, end) < std::tie(other.file, other.begin, other.end);
  }
};

std::vector<WrittenBytes> AllWrittenBytes(const Plan& plan) {
  std::vector<WrittenBytes> written;
  for (const BlobPlacement& placement : plan.placements) {
    std::uint64_t bytes = plan.blobs[placement.blob.index()].size();
    if (bytes != 0) written.push_back({placement.file, placement.offset, placement.offset + bytes, true});
  }
  ForEachTargetRange(plan, [&](const TargetRange& range) {
    const Record& record = plan.target.record(range.record);
    auto item = static_cast<std::uint64_t>(ItemBytes(range.dtype));
    std::uint64_t begin = record.begin + static_cast<std::uint64_t>(range.record_element) * item;
    written.push_back({record.file, begin, begin + static_cast<std::uint64_t>(range.end - range.begin) * item, false});
  });
  std::sort(written.begin(), written.end());
  return written;
}

llvm::Error CheckTiling(const Plan& plan, const std::vector<WrittenBytes>& written) {
  auto at = written.begin();
  for (std::size_t f = 0; f < plan.target.files.size(); ++f) {
    const StoredFile& file = plan.target.files[f];
    std::uint64_t covered = 0;
    for (; at != written.end() && at->file.index() == f; ++at) {
      if (at->begin != covered) {
        return Fail(ErrorCode::kBadData, "the plan is not sound: byte {} of `{}` would be written {}",
                    std::min(at->begin, covered), file.path, at->begin < covered ? "twice" : "never");
      }
      covered = at->end;
    }
    if (covered != file.bytes) {
      return Fail(ErrorCode::kBadData, "the plan is not sound: {} bytes of `{}` would be written, and it has {}",
                  covered, file.path, file.bytes);
    }
  }
  return llvm::Error::success();
}

llvm::Error CheckCrcFields(const Plan& plan, const std::vector<WrittenBytes>& written) {
  std::set<std::pair<FileId, std::uint64_t>> places;
  for (const CrcField& field : plan.crc_fields) {
    const std::string& path = plan.target.files[field.file.index()].path;
    auto behind = std::upper_bound(written.begin(), written.end(), field, [](const CrcField& f, const WrittenBytes& w) {
      return std::tie(f.file, f.offset) < std::tie(w.file, w.begin);
    });
    bool in_blob = behind != written.begin() && std::prev(behind)->is_blob && std::prev(behind)->file == field.file &&
                   field.offset < std::prev(behind)->end && std::prev(behind)->end - field.offset >= 4;
    if (!in_blob || plan.target.record(field.record).file != field.file) {
      return Fail(ErrorCode::kBadData, "the plan is not sound: the checksum at byte {} of `{}` is not in a header",
                  field.offset, path);
    }
    auto next = places.insert({field.file, field.offset}).first;
    bool overlaps =
        (std::next(next) != places.end() && std::next(next)->first == field.file &&
         std::next(next)->second < field.offset + 4) ||
        (next != places.begin() && std::prev(next)->first == field.file && std::prev(next)->second + 4 > field.offset);
    if (overlaps) {
      return Fail(ErrorCode::kBadData, "the plan is not sound: two checksums overlap at byte {} of `{}`", field.offset,
                  path);
    }
  }
  return llvm::Error::success();
}

bool Meet(const Selection& a, const Selection& b) {
  auto i = a.runs().begin();
  auto j = b.runs().begin();
  while (i != a.runs().end() && j != b.runs().end()) {
    if (i->logical_begin + i->length <= j->logical_begin) {
      ++i;
    } else if (j->logical_begin + j->length <= i->logical_begin) {
      ++j;
    } else {
      return true;
    }
  }
  return false;
}

bool Meet(const ProductSet& a, const ProductSet& b) {
  for (std::size_t d = 0; d < a.dims.size(); ++d) {
    if (!Meet(a.dims[d], b.dims[d])) return false;
  }
  return a.real_elements() > 0 && b.real_elements() > 0;
}

enum class Flaw { kNone, kMissing, kTwice };

// Disjoint sets within the shape that have as many elements as the shape are a partition of it.
Flaw PartitionFlaw(const Plan& plan, const std::vector<SetId>& sets, const std::vector<std::int64_t>& shape) {
  for (std::size_t i = 0; i < sets.size(); ++i) {
    for (std::size_t j = i + 1; j < sets.size(); ++j) {
      if (Meet(plan.set(sets[i]), plan.set(sets[j]))) return Flaw::kTwice;
    }
  }
  std::int64_t held = 0;
  for (SetId set : sets) held += plan.set(set).real_elements();
  std::optional<std::int64_t> elements = 1;
  for (std::int64_t length : shape) elements = elements ? CheckedMultiply(*elements, length) : std::nullopt;
  return elements && held == *elements ? Flaw::kNone : Flaw::kMissing;
}

class PartitionChecker {
 public:
  explicit PartitionChecker(const Plan& plan) : plan_(plan) {}

  // Many tensors are cut alike, so each distinct question is answered once.
  llvm::Error Check(TensorId tensor, const std::string& state, std::vector<SetId> sets, const char* side) {
    const LogicalTensor& logical = plan_.tensor(tensor).logical;
    std::sort(sets.begin(), sets.end());
    auto [known, added] = known_.try_emplace({sets, logical.shape}, Flaw::kNone);
    if (added) known->second = PartitionFlaw(plan_, sets, logical.shape);
    if (known->second == Flaw::kNone) return llvm::Error::success();
    return Fail(ErrorCode::kBadData, "the plan is not sound: an element of tensor `{}`, state {}, {} the {}",
                logical.name, state, known->second == Flaw::kMissing ? "is in no shard of" : "is in two shards of",
                side);
  }

 private:
  const Plan& plan_;
  std::map<std::pair<std::vector<SetId>, std::vector<std::int64_t>>, Flaw> known_;
};

// What one copy takes of one space: the bytes of a file, or the elements of a buffer with several parts.
struct ReadExtent {
  std::size_t space = 0;  // A file; behind all files, a buffer.
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::size_t read = 0;
  std::string_view state;

  bool operator<(const ReadExtent& other) const {
    return std::tie(space, begin, end, read) < std::tie(other.space, other.begin, other.end, other.read);
  }
};

class SourceExtents {
 public:
  explicit SourceExtents(const Plan& plan) : plan_(plan) {}

  void Add(std::size_t r) {
    const PlanRead& read = plan_.reads[r];
    std::int64_t elements = plan_.set(read.set).local_elements();
    if (read.role != ReadRole::kCopy || !read.strides.empty() || elements == 0) return;
    for (const StateBuffer& entry : plan_.source.buffer_set(read.states)) {
      if (entry.state != kWeightState) AddState(r, entry, elements);
    }
  }

  // Sorted, so if any two overlap then two neighbours do.
  llvm::Error Check() {
    if (mixed_ != nullptr) {
      return Fail(ErrorCode::kBadData, "the plan is not sound: tensor `{}` is cut otherwise than its buffer", *mixed_);
    }
    std::sort(extents_.begin(), extents_.end());
    for (std::size_t i = 1; i < extents_.size(); ++i) {
      const ReadExtent& a = extents_[i - 1];
      const ReadExtent& b = extents_[i];
      if (a.space != b.space || a.end <= b.begin) continue;
      return Fail(ErrorCode::kBadData,
                  "the plan is not sound: `{}` of tensor `{}` and `{}` of `{}` would be read from "
                  "one place of the source",
                  a.state, Tensor(a), b.state, Tensor(b));
    }
    return llvm::Error::success();
  }

 private:
  void AddState(std::size_t r, const StateBuffer& entry, std::int64_t elements) {
    const PlanRead& read = plan_.reads[r];
    const Buffer& buffer = plan_.source.buffer(entry.buffer);
    auto parts = static_cast<std::int64_t>(buffer.parts.size());
    if (parts == 1) return AddBytes(buffer, buffer.parts[0], read.base, elements, r, entry.state);
    bool each = read.spread == Spread::kEachTensor;
    auto begin = static_cast<std::uint64_t>(read.base);
    auto length = static_cast<std::uint64_t>(each ? CeilDivide(elements, parts) : elements);
    extents_.push_back({plan_.source.files.size() + entry.buffer.index(), begin, begin + length, r, entry.state});
    auto [spread, is_new] = spreads_.try_emplace(entry.buffer, read.spread);
    if (spread->second != read.spread) mixed_ = &plan_.tensor(read.tensor).logical.name;
    if (!is_new) return;
    for (const BufferPart& part : buffer.parts) AddBytes(buffer, part, 0, part.elements, r, entry.state);
  }

  void AddBytes(const Buffer& buffer, const BufferPart& part, std::int64_t base, std::int64_t elements, std::size_t r,
                std::string_view state) {
    std::int64_t room = part.elements - base;  // More than this is not there: the steps are checked for that.
    if (room <= 0 || elements == 0) return;
    const Record& record = plan_.source.record(part.record);
    auto item = static_cast<std::uint64_t>(ItemBytes(buffer.dtype));
    std::uint64_t begin = record.begin + static_cast<std::uint64_t>(part.first_element + base) * item;
    extents_.push_back(
        {record.file.index(), begin, begin + static_cast<std::uint64_t>(std::min(room, elements)) * item, r, state});
  }

  const std::string& Tensor(const ReadExtent& extent) const {
    return plan_.tensor(plan_.reads[extent.read].tensor).logical.name;
  }

  const Plan& plan_;
  std::vector<ReadExtent> extents_;
  std::map<BufferId, Spread> spreads_;  // Of buffers with several parts.
  const std::string* mixed_ = nullptr;  // A tensor that is not spread as others in its buffer are.
};

}  // namespace

llvm::Error VerifyTargetBytes(const Plan& plan) {
  std::vector<WrittenBytes> written = AllWrittenBytes(plan);
  UCP_RETURN_IF_ERROR(CheckTiling(plan, written));
  return CheckCrcFields(plan, written);
}

llvm::Error VerifySourceExtents(const Plan& plan) {
  SourceExtents extents(plan);
  for (std::size_t r = 0; r < plan.reads.size(); ++r) extents.Add(r);
  return extents.Check();
}

llvm::Error VerifyElements(const Plan& plan) {
  std::map<std::pair<TensorId, std::string>, std::vector<SetId>> copied;
  std::map<std::pair<TensorId, std::string>, std::set<SetId>> written;
  for (const PlanRead& read : plan.reads) {
    if (read.role != ReadRole::kCopy) continue;
    for (const StateBuffer& entry : plan.source.buffer_set(read.states)) {
      copied[{read.tensor, entry.state}].push_back(read.set);
    }
  }
  for (const PlanWrite& write : plan.writes) {
    for (const StateBuffer& entry : plan.target.buffer_set(write.states)) {
      written[{write.tensor, entry.state}].insert(write.set);
    }
  }
  for (const auto& [key, sets] : written) {
    const LogicalTensor& tensor = plan.tensor(key.first).logical;
    bool known = std::any_of(tensor.states.begin(), tensor.states.end(),
                             [&](const LogicalTensor::State& state) { return state.name == key.second; });
    if (!known) {
      return Fail(ErrorCode::kBadData, "the plan is not sound: tensor `{}` is written in state {}, which it lacks",
                  tensor.name, key.second);
    }
  }
  PartitionChecker checker(plan);
  for (std::size_t t = 0; t < plan.tensors.size(); ++t) {
    for (const LogicalTensor::State& state : plan.tensors[t].logical.states) {
      std::pair<TensorId, std::string> key(TensorId(t), state.name);
      UCP_RETURN_IF_ERROR(checker.Check(TensorId(t), state.name, copied[key], "source"));
      const std::set<SetId>& sets = written[key];
      UCP_RETURN_IF_ERROR(checker.Check(TensorId(t), state.name, {sets.begin(), sets.end()}, "target"));
    }
  }
  return llvm::Error::success();
}

}  // namespace ucp
