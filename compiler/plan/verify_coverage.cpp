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
                   field.offset + 4 <= std::prev(behind)->end;
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

}  // namespace

llvm::Error VerifyTargetBytes(const Plan& plan) {
  std::vector<WrittenBytes> written = AllWrittenBytes(plan);
  UCP_RETURN_IF_ERROR(CheckTiling(plan, written));
  return CheckCrcFields(plan, written);
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
