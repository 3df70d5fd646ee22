// Where in memory the records of a load go.
#pragma once

#include <llvm/Support/Error.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "compiler/plan/plan.h"
#include "compiler/plan/steps.h"
#include "runtime/load/load.h"

namespace ucp {

class Places {
 public:
  // Refuses memory of another size than its record's, and a record that is wanted twice (kUsage). The plan must outlive
  // this.
  static llvm::Expected<Places> Make(const Plan& plan, std::span<const WantedRecord> wanted);

  bool Holds(RecordId record) const { return is_wanted_[record.index()]; }
  std::span<std::byte> Of(RecordId record) const { return memory_[record.index()]; }
  // Of a range of a record that is wanted.
  std::span<std::byte> Of(const TargetRange& range) const;

  // What the plan writes to the wanted records, by file and place.
  std::vector<TargetRange> Ranges() const;
  // Everything else in them: ready-made bytes, and zeros.
  void FillBetween(const std::vector<TargetRange>& ranges) const;

 private:
  explicit Places(const Plan& plan)
      : plan_(&plan), is_wanted_(plan.target.records.size(), false), memory_(plan.target.records.size()) {}

  void PlaceBlobs() const;

  const Plan* plan_;
  std::vector<bool> is_wanted_;               // By RecordId.
  std::vector<std::span<std::byte>> memory_;  // By RecordId.
};

}  // namespace ucp
