// A line of the list begins with `7f00a000-7f00c000 rw-p`. Neighbours that can both be written are one stretch here, so
// that each stretch of the caller's lies in one of them or is refused.
#include "runtime/load/given_memory.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/support/error.h"

namespace ucp {
namespace {

struct Mapped {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
};

bool TakeAddress(std::string_view& line, char behind, std::uintptr_t& address) {
  const auto [rest, error] = std::from_chars(line.data(), line.data() + line.size(), address, 16);
  if (error != std::errc() || rest == line.data() + line.size() || *rest != behind) return false;
  line.remove_prefix(static_cast<std::size_t>(rest - line.data()) + 1);
  return true;
}

// In order; empty where there is no list.
std::vector<Mapped> WritableStretches() {
  std::vector<Mapped> stretches;
  std::ifstream list("/proc/self/maps");
  std::string text;
  while (std::getline(list, text)) {
    std::string_view line = text;
    Mapped mapped;
    if (!TakeAddress(line, '-', mapped.begin) || !TakeAddress(line, ' ', mapped.end)) return {};
    if (!line.starts_with("rw")) continue;
    // The list is read in pieces, and stretches that were merged in between begin below the end of the last one.
    if (!stretches.empty() && mapped.begin <= stretches.back().end) {
      stretches.back().end = std::max(stretches.back().end, mapped.end);
    } else {
      stretches.push_back(mapped);
    }
  }
  if (list.bad()) return {};
  return stretches;
}

// Null where all of them can be written.
const WantedRecord* FirstReadOnly(std::span<const WantedRecord> wanted) {
  const std::vector<Mapped> writable = WritableStretches();
  if (writable.empty()) return nullptr;
  for (const WantedRecord& record : wanted) {
    if (record.device != nullptr || record.memory.empty()) continue;
    const auto begin = reinterpret_cast<std::uintptr_t>(record.memory.data());
    auto behind = std::upper_bound(writable.begin(), writable.end(), begin,
                                   [](std::uintptr_t address, const Mapped& mapped) { return address < mapped.begin; });
    if (behind == writable.begin() || (behind - 1)->end < begin + record.memory.size()) return &record;
  }
  return nullptr;
}

// Null where no two of them share a byte. Addresses of devices are apart from one another, and from the host's.
std::pair<const WantedRecord*, const WantedRecord*> FirstOverlap(std::span<const WantedRecord> wanted) {
  auto begin_of = [](const WantedRecord* record) { return reinterpret_cast<std::uintptr_t>(record->memory.data()); };
  std::vector<const WantedRecord*> in_order;
  for (const WantedRecord& record : wanted) {
    if (!record.memory.empty()) in_order.push_back(&record);
  }
  std::sort(in_order.begin(), in_order.end(),
            [&](const WantedRecord* a, const WantedRecord* b) { return begin_of(a) < begin_of(b); });
  const auto first = std::adjacent_find(in_order.begin(), in_order.end(), [&](const auto* a, const auto* b) {
    return begin_of(b) < begin_of(a) + a->memory.size();
  });
  if (first == in_order.end()) return {};
  return {first[0], first[1]};
}

using NameOf = llvm::function_ref<std::string(RecordId)>;

llvm::Error CheckEach(std::span<const WantedRecord> wanted, std::size_t records,
                      llvm::function_ref<std::uint64_t(RecordId)> bytes_of, NameOf name_of) {
  std::vector<bool> is_wanted(records, false);
  for (const WantedRecord& record : wanted) {
    if (record.record.index() >= records) {
      return Fail(ErrorCode::kUsage, "record {} is wanted, and there are {}", record.record, records);
    }
    if (record.memory.size() != bytes_of(record.record)) {
      return Fail(ErrorCode::kUsage, "{} has {} bytes, and its memory {}", name_of(record.record),
                  bytes_of(record.record), record.memory.size());
    }
    if (is_wanted[record.record.index()]) {
      return Fail(ErrorCode::kUsage, "{} is wanted twice", name_of(record.record));
    }
    is_wanted[record.record.index()] = true;
  }
  return llvm::Error::success();
}

}  // namespace

llvm::Error CheckWanted(std::span<const WantedRecord> wanted, std::size_t records,
                        llvm::function_ref<std::uint64_t(RecordId)> bytes_of, NameOf name_of) {
  UCP_RETURN_IF_ERROR(CheckEach(wanted, records, bytes_of, name_of));
  if (const WantedRecord* read_only = FirstReadOnly(wanted)) {
    return Fail(ErrorCode::kUsage,
                "the memory for {} cannot be written: the process has mapped it for reading alone, or not at all",
                name_of(read_only->record));
  }
  const auto [one, other] = FirstOverlap(wanted);
  if (one == nullptr) return llvm::Error::success();
  return Fail(ErrorCode::kUsage, "the memory for {} shares a part with that for {}: give each of them its own",
              name_of(one->record), name_of(other->record));
}

}  // namespace ucp
