// Memory of a job as the sink of a run: the host's, or a device's.
//
//   L1  Memory of a wanted record in which no element comes is zero, or has the ready-made bytes.
//   L2  Elements that several ranks want are read by one of them, and given to the others (share_reads.h).
//   L3  Chunk by chunk and over all threads: elements that are stored as they are wanted are read straight into their
//       place; those that are cut smaller than that, added or cast go through a buffer.
//   L4  Elements for a device are read straight into a slot of a ring instead, and the slot is sent off (to_device.h).
//
// If the source has every wanted record as it is (as_stored.h), each is read as it is stored.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <span>
#include <vector>

#include "compiler/plan/steps.h"
#include "runtime/engine/buffers.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/sink.h"
#include "runtime/load/as_stored.h"
#include "runtime/load/contents.h"
#include "runtime/load/places.h"
#include "runtime/load/to_device.h"
#include "runtime/load_plan/load_plan.h"

namespace ucp {

class MemorySink : public Sink {
 public:
  // All must outlive this. `reads_as_stored`: elements that are stored as they are wanted need not be made by the
  // plan's steps.
  MemorySink(const LoadPlan& load, const Places& places, const DeviceRings& rings, const BufferSizes& sizes,
             bool reads_as_stored);

  SinkSize Size() const override;
  [[nodiscard]] llvm::Error Prepare(Engine& engine) override;
  [[nodiscard]] llvm::Error Fill(Engine& engine) override;

  bool is_as_stored() const { return is_as_stored_; }
  std::uint64_t bytes_received() const { return bytes_received_; }  // From other ranks.
  std::uint64_t exchange_bytes() const { return exchange_bytes_; }  // Buffers for what is on its way between ranks.

 private:
  [[nodiscard]] llvm::Error FillAlone(Engine& engine, const std::vector<Content>& contents) const;
  [[nodiscard]] llvm::Error FillHost(Engine& engine, const std::vector<Content>& contents) const;
  [[nodiscard]] llvm::Error Make(Engine& engine, unsigned thread, const TargetRange& range,
                                 std::span<std::byte> place) const;

  const LoadPlan& load_;
  const Plan& plan_;
  const Places& places_;
  const DeviceRings& rings_;
  const BufferSizes sizes_;
  const bool reads_as_stored_;
  const std::vector<TargetRange> ranges_;
  const AsStored stored_;
  bool is_as_stored_ = false;
  RanksOfRecords wanted_by_;
  std::uint64_t bytes_received_ = 0;
  std::uint64_t exchange_bytes_ = 0;
};

}  // namespace ucp
