// Where in memory the records of a load go: the host's, or a device's, which bytes reach through a ring of slots.
#pragma once

#include <llvm/Support/Error.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "compiler/plan/plan.h"
#include "compiler/plan/steps.h"
#include "runtime/gpu/packing.h"
#include "runtime/load/load.h"

namespace ucp {

class Places {
 public:
  // Refuses the same as CheckWanted() (given_memory.h). The plan must outlive this.
  static llvm::Expected<Places> Make(const Plan& plan, std::span<const WantedRecord> wanted);

  bool Holds(RecordId record) const { return is_wanted_[record.index()]; }
  // The memory, and whose it is: null: the host's.
  std::span<std::byte> Of(RecordId record) const { return memory_[record.index()]; }
  const Device* DeviceOf(RecordId record) const { return device_[record.index()]; }
  // Returns the memory of a range of a record that is wanted.
  std::span<std::byte> Of(const TargetRange& range) const;

  // Returns all devices that have a record. Each needs a way to it before anything is put there; this keeps it.
  std::vector<const Device*> Devices() const;
  bool HasHostMemory() const;  // Whether any record is the host's.
  void ReachBy(const Device& device, Packing& packing) { ways_[&device] = &packing; }

  // Puts bytes into a record, from byte `begin` on. Bytes for a device are there after Finish(), and so are errors. By
  // one thread at a time.
  void Put(RecordId record, std::uint64_t begin, std::span<const std::byte> bytes) const;
  [[nodiscard]] llvm::Error Finish() const;

  // The ranges that the plan writes to the wanted records, by file and place.
  std::vector<TargetRange> Ranges() const;
  // Everything else in them: ready-made bytes, and zeros. It is there when this returns.
  [[nodiscard]] llvm::Error FillBetween(const std::vector<TargetRange>& ranges) const;

 private:
  explicit Places(const Plan& plan)
      : plan_(&plan),
        is_wanted_(plan.target.records.size(), false),
        memory_(plan.target.records.size()),
        device_(plan.target.records.size(), nullptr) {}

  std::string NameOf(RecordId record) const;  // As messages have it: the tensor's, if it holds one alone.
  void Zero(RecordId record, std::uint64_t begin, std::uint64_t end) const;
  void PlaceBlobs() const;

  const Plan* plan_;
  std::vector<bool> is_wanted_;               // By RecordId.
  std::vector<std::span<std::byte>> memory_;  // By RecordId.
  std::vector<const Device*> device_;         // By RecordId.
  std::map<const Device*, Packing*> ways_;
};

}  // namespace ucp
