// V2, file after file. The contents of one file are its blobs and, of each buffer with a part there, the elements that
// the buffer's shards have in that part:
//
//     file    | blob | shard a | shard b | blob (padding) | blob | shard a | shard b | ...
//                    '-- a part of the buffer of fp32 ---'       '-- of exp_avg --
//
// They must follow one another from the first byte to the last. Only what one file holds is in memory at a time: under
// ZeRO-3 every shard has a piece in each of thousands of files.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <tuple>

#include "compiler/support/checked_math.h"
#include "compiler/support/error.h"
#include "compiler/support/interruption.h"
#include "compiler/verifier/verify_coverage.h"

namespace ucp {
namespace {

// Bytes [begin, end) of the file that is looked at.
struct WrittenBytes {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  bool is_blob = false;

  bool operator<(const WrittenBytes& other) const { return std::tie(begin, end) < std::tie(other.begin, other.end); }
};

// A shard's place in a buffer.
struct PlacedShard {
  std::int64_t base = 0;
  std::int64_t elements = 0;
  std::int64_t reach = 0;  // The furthest end of this one and all before it.
};

struct ShardsOfBuffer {
  std::vector<PlacedShard> across;  // By their base.
  std::vector<PlacedShard> each;    // Cut on their own: these are in every part.
};

struct PartOfFile {
  FileId file;
  std::size_t buffer = 0;
  std::size_t part = 0;
};

class TargetTiling {
 public:
  explicit TargetTiling(const Plan& plan) : plan_(plan), shards_(plan.target.buffers.size()) {
    PlaceShards();
    ListParts();
    auto by_place = [](const auto& a, const auto& b) {
      return std::tie(a.file, a.offset) < std::tie(b.file, b.offset);
    };
    placements_ = plan.placements;
    std::sort(placements_.begin(), placements_.end(), by_place);
    fields_ = plan.crc_fields;
    std::sort(fields_.begin(), fields_.end(), by_place);
  }

  llvm::Error Check() {
    for (std::size_t f = 0; f < plan_.target.files.size(); ++f) {
      UCP_RETURN_IF_ERROR(CheckInterrupted());
      Gather(FileId(f));
      UCP_RETURN_IF_ERROR(CheckTiling(plan_.target.files[f]));
      UCP_RETURN_IF_ERROR(CheckCrcFields(FileId(f)));
    }
    return llvm::Error::success();
  }

 private:
  void PlaceShards() {
    for (const PlanWrite& write : plan_.writes) {
      for (const StateBuffer& entry : plan_.target.buffer_set(write.states)) {
        ShardsOfBuffer& shards = shards_[entry.buffer.index()];
        const bool is_cut_alone =
            write.spread == Spread::kEachTensor && plan_.target.buffer(entry.buffer).parts.size() > 1;
        (is_cut_alone ? shards.each : shards.across).push_back({write.base, plan_.LocalElements(write), 0});
      }
    }
    for (ShardsOfBuffer& shards : shards_) {
      auto by_base = [](const PlacedShard& a, const PlacedShard& b) { return a.base < b.base; };
      std::sort(shards.across.begin(), shards.across.end(), by_base);
      std::sort(shards.each.begin(), shards.each.end(), by_base);
      std::int64_t reach = 0;
      for (PlacedShard& shard : shards.across) shard.reach = reach = std::max(reach, shard.base + shard.elements);
    }
  }

  void ListParts() {
    for (std::size_t b = 0; b < shards_.size(); ++b) {
      if (shards_[b].across.empty() && shards_[b].each.empty()) continue;
      const Buffer& buffer = plan_.target.buffers[b];
      for (std::size_t p = 0; p < buffer.parts.size(); ++p) {
        parts_.push_back({plan_.target.record(buffer.parts[p].record).file, b, p});
      }
    }
    auto place = [&](const PartOfFile& part) {
      return std::pair(part.file, plan_.target.record(PartAt(part).record).begin);
    };
    std::sort(parts_.begin(), parts_.end(),
              [&](const PartOfFile& a, const PartOfFile& b) { return place(a) < place(b); });
  }

  const BufferPart& PartAt(const PartOfFile& part) const { return plan_.target.buffers[part.buffer].parts[part.part]; }

  // All that is written to the file. Files are asked for in order.
  void Gather(FileId file) {
    blobs_.clear();
    elements_.clear();
    written_.clear();
    for (; next_placement_ < placements_.size() && placements_[next_placement_].file == file; ++next_placement_) {
      const BlobPlacement& placement = placements_[next_placement_];
      const std::uint64_t bytes = plan_.blobs[placement.blob.index()].size();
      if (bytes != 0) blobs_.push_back({placement.offset, placement.offset + bytes, true});
    }
    for (; next_part_ < parts_.size() && parts_[next_part_].file == file; ++next_part_) AddPart(parts_[next_part_]);
    // Both are in order, but for plans that are not sound.
    if (!std::is_sorted(blobs_.begin(), blobs_.end())) std::sort(blobs_.begin(), blobs_.end());
    if (!std::is_sorted(elements_.begin(), elements_.end())) std::sort(elements_.begin(), elements_.end());
    std::merge(blobs_.begin(), blobs_.end(), elements_.begin(), elements_.end(), std::back_inserter(written_));
  }

  void AddPart(const PartOfFile& part) {
    const ShardsOfBuffer& shards = shards_[part.buffer];
    const Buffer& buffer = plan_.target.buffers[part.buffer];
    const auto parts = static_cast<std::int64_t>(buffer.parts.size());
    const auto number = static_cast<std::int64_t>(part.part);
    for (const PlacedShard& shard : shards.each) {
      const std::int64_t width = CeilDivide(shard.elements, parts);
      AddElements(part, shard.base, std::clamp<std::int64_t>(shard.elements - number * width, 0, width));
    }
    if (shards.across.empty()) return;  // The lengths of the parts are not given then.
    // A buffer of one part ends where its record does.
    const std::int64_t begin = parts == 1 ? 0 : number * buffer.part_elements;
    auto first = std::partition_point(shards.across.begin(), shards.across.end(),
                                      [&](const PlacedShard& shard) { return shard.reach <= begin; });
    for (auto shard = first; shard != shards.across.end(); ++shard) {
      if (parts > 1 && shard->base >= begin + buffer.part_elements) break;
      const std::int64_t from = std::max(shard->base, begin);
      std::int64_t to = shard->base + shard->elements;
      if (parts > 1) to = std::min(to, begin + buffer.part_elements);
      AddElements(part, from - begin, to - from);
    }
  }

  void AddElements(const PartOfFile& part, std::int64_t place, std::int64_t elements) {
    if (elements <= 0) return;
    const BufferPart& held = PartAt(part);
    const std::int64_t item_bytes = ItemBytes(plan_.target.buffers[part.buffer].dtype);
    const std::uint64_t begin =
        plan_.target.record(held.record).begin + static_cast<std::uint64_t>((held.first_element + place) * item_bytes);
    elements_.push_back({begin, begin + static_cast<std::uint64_t>(elements * item_bytes), false});
  }

  llvm::Error CheckTiling(const StoredFile& file) const {
    std::uint64_t covered = 0;
    for (const WrittenBytes& bytes : written_) {
      if (bytes.begin != covered) {
        return Fail(ErrorCode::kBadData, "the plan is not sound: byte {} of `{}` would be written {}",
                    std::min(bytes.begin, covered), file.path, bytes.begin < covered ? "twice" : "never");
      }
      covered = bytes.end;
    }
    if (covered == file.bytes) return llvm::Error::success();
    return Fail(ErrorCode::kBadData, "the plan is not sound: {} bytes of `{}` would be written, and it has {}", covered,
                file.path, file.bytes);
  }

  // Each stands in a header of the file that its record is in, and no two are in one place.
  llvm::Error CheckCrcFields(FileId file) {
    const std::string& path = plan_.target.files[file.index()].path;
    std::uint64_t behind_last = 0;
    for (; next_field_ < fields_.size() && fields_[next_field_].file == file; ++next_field_) {
      const CrcField& field = fields_[next_field_];
      auto behind = std::upper_bound(written_.begin(), written_.end(), field.offset,
                                     [](std::uint64_t offset, const WrittenBytes& w) { return offset < w.begin; });
      const bool in_blob = behind != written_.begin() && std::prev(behind)->is_blob &&
                           field.offset < std::prev(behind)->end && std::prev(behind)->end - field.offset >= 4;
      if (!in_blob || plan_.target.record(field.record).file != file) {
        return Fail(ErrorCode::kBadData, "the plan is not sound: the checksum at byte {} of `{}` is not in a header",
                    field.offset, path);
      }
      if (field.offset < behind_last) {
        return Fail(ErrorCode::kBadData, "the plan is not sound: two checksums overlap at byte {} of `{}`",
                    field.offset, path);
      }
      behind_last = field.offset + 4;
    }
    return llvm::Error::success();
  }

  const Plan& plan_;
  std::vector<ShardsOfBuffer> shards_;  // By BufferId.
  std::vector<PartOfFile> parts_;       // By file and place.
  std::vector<BlobPlacement> placements_;
  std::vector<CrcField> fields_;
  std::size_t next_part_ = 0;
  std::size_t next_placement_ = 0;
  std::size_t next_field_ = 0;
  // Of one file: its two kinds, and both together in order.
  std::vector<WrittenBytes> blobs_;
  std::vector<WrittenBytes> elements_;
  std::vector<WrittenBytes> written_;
};

}  // namespace

llvm::Error VerifyTargetBytes(const Plan& plan) { return TargetTiling(plan).Check(); }

}  // namespace ucp
