#include "runtime/load/places.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <string>
#include <tuple>

#include "compiler/support/error.h"
#include "runtime/load/given_memory.h"

namespace ucp {
namespace {

std::uint64_t OffsetOf(const TargetRange& range) {
  return static_cast<std::uint64_t>(range.record_element * ItemBytes(range.dtype));
}

std::uint64_t BytesOf(const TargetRange& range) {
  return static_cast<std::uint64_t>((range.end - range.begin) * ItemBytes(range.dtype));
}

}  // namespace

llvm::Expected<Places> Places::Make(const Plan& plan, std::span<const WantedRecord> wanted) {
  Places places(plan);
  UCP_RETURN_IF_ERROR(CheckWanted(
      wanted, plan.target.records.size(), [&](RecordId record) { return plan.target.record(record).bytes; },
      [&](RecordId record) { return places.NameOf(record); }));
  for (const WantedRecord& record : wanted) {
    places.is_wanted_[record.record.index()] = true;
    places.memory_[record.record.index()] = record.memory;
    places.device_[record.record.index()] = record.device;
  }
  return places;
}

std::string Places::NameOf(RecordId record) const {
  std::set<std::string> tensors;
  ForEachTargetRange(*plan_, [&](const TargetRange& range) {
    if (range.record == record) tensors.insert(plan_->NameOf(plan_->writes[range.write]));
  });
  if (tensors.size() == 1) return fmt::format("tensor `{}`", *tensors.begin());
  return fmt::format("record {} of `{}`", record, plan_->target.file(record).path);
}

std::span<std::byte> Places::Of(const TargetRange& range) const {
  return Of(range.record).subspan(OffsetOf(range), BytesOf(range));
}

std::vector<const Device*> Places::Devices() const {
  std::vector<const Device*> devices;
  for (const Device* device : device_) {
    if (device != nullptr && std::find(devices.begin(), devices.end(), device) == devices.end()) {
      devices.push_back(device);
    }
  }
  return devices;
}

bool Places::HasHostMemory() const {
  for (std::size_t record = 0; record < memory_.size(); ++record) {
    if (is_wanted_[record] && device_[record] == nullptr) return true;
  }
  return false;
}

void Places::Put(RecordId record, std::uint64_t begin, std::span<const std::byte> bytes) const {
  std::byte* to = Of(record).data() + begin;
  if (const Device* device = DeviceOf(record); device != nullptr) return ways_.at(device)->Put(to, bytes);
  if (to != bytes.data()) std::memcpy(to, bytes.data(), bytes.size());
}

void Places::Zero(RecordId record, std::uint64_t begin, std::uint64_t end) const {
  const std::span<std::byte> memory = Of(record).subspan(begin, end - begin);
  if (const Device* device = DeviceOf(record); device != nullptr) return ways_.at(device)->Zero(memory);
  std::memset(memory.data(), 0, memory.size());
}

llvm::Error Places::Finish() const {
  for (const auto& [device, way] : ways_) UCP_RETURN_IF_ERROR(way->Finish());
  return llvm::Error::success();
}

std::vector<TargetRange> Places::Ranges() const {
  std::vector<TargetRange> ranges;
  ForEachTargetRange(*plan_, [&](const TargetRange& range) {
    if (range.begin != range.end && Holds(range.record)) ranges.push_back(range);
  });
  std::sort(ranges.begin(), ranges.end(), [&](const TargetRange& a, const TargetRange& b) {
    const Record& record_a = plan_->target.record(a.record);
    const Record& record_b = plan_->target.record(b.record);
    return std::tuple(record_a.file, record_a.begin, OffsetOf(a)) <
           std::tuple(record_b.file, record_b.begin, OffsetOf(b));
  });
  return ranges;
}

llvm::Error Places::FillBetween(const std::vector<TargetRange>& ranges) const {
  std::vector<std::uint64_t> filled(memory_.size(), 0);  // By RecordId: from the beginning.
  auto zero_to = [&](RecordId record, std::uint64_t end) {
    const std::uint64_t begin = filled[record.index()];
    if (begin < end) Zero(record, begin, end);
  };
  for (const TargetRange& range : ranges) {
    zero_to(range.record, OffsetOf(range));
    filled[range.record.index()] = OffsetOf(range) + BytesOf(range);
  }
  for (std::size_t record = 0; record < memory_.size(); ++record) {
    if (is_wanted_[record]) zero_to(RecordId(record), memory_[record].size());
  }
  UCP_RETURN_IF_ERROR(Finish());  // Some of the ready-made bytes come over zeros.
  PlaceBlobs();
  return Finish();
}

// A header stands between records, but single numbers that were known when the files were laid out are also records.
void Places::PlaceBlobs() const {
  std::vector<RecordId> records;
  for (std::size_t record = 0; record < memory_.size(); ++record) {
    if (!memory_[record].empty()) records.push_back(RecordId(record));
  }
  auto begin_of = [&](RecordId id) {
    const Record& record = plan_->target.record(id);
    return std::pair(record.file, record.begin);
  };
  std::sort(records.begin(), records.end(), [&](RecordId a, RecordId b) { return begin_of(a) < begin_of(b); });
  for (const BlobPlacement& placement : plan_->placements) {
    const std::string& blob = plan_->blobs[placement.blob.index()];
    const std::uint64_t blob_end = placement.offset + blob.size();
    auto next = std::partition_point(records.begin(), records.end(), [&](RecordId id) {
      const Record& record = plan_->target.record(id);
      return std::pair(record.file, record.begin + record.bytes) <= std::pair(placement.file, placement.offset);
    });
    for (; next != records.end(); ++next) {
      const Record& record = plan_->target.record(*next);
      if (record.file != placement.file || record.begin >= blob_end) break;
      const std::uint64_t from = std::max(record.begin, placement.offset);
      const std::uint64_t to = std::min(record.begin + record.bytes, blob_end);
      Put(*next, from - record.begin, std::as_bytes(std::span(blob)).subspan(from - placement.offset, to - from));
    }
  }
}

}  // namespace ucp
