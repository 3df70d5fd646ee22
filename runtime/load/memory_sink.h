// Memory of a job as the sink of a run: the host's, or a device's.
//
//   L1  Memory of a wanted record in which no element comes is zero, or has the ready-made bytes.
//   L2  Elements that several ranks want are read by one of them, and given to the others (share_reads.h): from device
//       to device if each rank's memory is that of one device and NCCL can join them, else from host to host.
//   L3  Chunk by chunk and over all threads: elements that are stored as they are wanted are read straight into their
//       place; those that are cut smaller than that, added or cast go through a buffer.
//   L4  Elements for a device are read straight into a slot of a ring instead, and the slot is sent off (to_device.h).
//
// If the source has every wanted record as it is (as_stored.h), each is read as it is stored.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "compiler/plan/steps.h"
#include "runtime/comm/nccl_ranks.h"
#include "runtime/engine/buffers.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/sink.h"
#include "runtime/load/as_stored.h"
#include "runtime/load/contents.h"
#include "runtime/load/places.h"
#include "runtime/load/to_device.h"
#include "runtime/load_plan/load_plan.h"

namespace ucp {

struct MemorySinkOptions {
  bool reads_as_stored = false;  // Elements that are stored as they are wanted need not be made by the plan's steps.
  double peer_seconds = 0;       // As in LoadOptions.
};

class MemorySink : public Sink {
 public:
  // All must outlive this.
  MemorySink(const LoadPlan& load, const Places& places, DeviceRings& rings, const BufferSizes& sizes,
             const MemorySinkOptions& options);

  SinkSize Size() const override;
  [[nodiscard]] llvm::Error Prepare(Engine& engine) override;
  [[nodiscard]] llvm::Error Fill(Engine& engine) override;

  bool is_as_stored() const { return is_as_stored_; }
  std::uint64_t bytes_received() const { return bytes_received_; }      // From other ranks.
  std::uint64_t bytes_from_peers() const { return bytes_from_peers_; }  // As in LoadReport.
  const std::string& why_by_hosts() const { return why_by_hosts_; }
  std::uint64_t exchange_bytes() const { return exchange_bytes_; }  // Buffers for what is on its way between ranks.

 private:
  NcclOffer Offer(Communicator& ranks, const std::vector<SharedContents>& contents) const;
  [[nodiscard]] llvm::Error FillShared(Engine& engine, const std::vector<SharedContents>& contents);
  [[nodiscard]] llvm::Error FillAlone(Engine& engine, const std::vector<Content>& contents) const;
  [[nodiscard]] llvm::Error FillHost(Engine& engine, const std::vector<Content>& contents) const;
  [[nodiscard]] llvm::Error Make(Engine& engine, unsigned thread, const TargetRange& range,
                                 std::span<std::byte> place) const;

  const LoadPlan& load_;
  const Plan& plan_;
  const Places& places_;
  DeviceRings& rings_;
  const BufferSizes sizes_;
  const MemorySinkOptions options_;
  const std::vector<TargetRange> ranges_;
  const AsStored stored_;
  bool is_as_stored_ = false;
  RanksOfRecords wanted_by_;
  std::uint64_t bytes_received_ = 0;
  std::uint64_t bytes_from_peers_ = 0;
  std::string why_by_hosts_;
  std::uint64_t exchange_bytes_ = 0;
};

}  // namespace ucp
