// Cuts out of a plan the part that one rank of a job needs to fill some records: so that of a plan for a thousand ranks
// each is given its own part.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "compiler/plan/geometry_index.h"
#include "compiler/plan/plan.h"

namespace ucp {

// A part has its own ids, in the order of those of the whole plan. It is for filling memory: entries that only writing
// files needs are left out of it, and VerifyPlan() is for the whole.
struct PlanPart {
  Plan plan;                      // Without ready-made bytes.
  std::vector<RecordId> records;  // Of the target, by RecordId of the part: what it is in the whole plan.
  std::vector<FileId> files;      // Likewise.
};

// The ready-made bytes of some files of a part, as the part's plan has them.
struct ReadyMadePart {
  std::vector<std::string> blobs;
  std::vector<BlobPlacement> placements;
};

class PlanCutter {
 public:
  // The plan must be verified and outlive this. Linear in its tables.
  explicit PlanCutter(const Plan& plan);

  // Returns the shards that some of these records of the target hold, and all others of the same elements, on any rank:
  // shared elements are seen in each part. By their places in Plan::writes, ascending.
  std::vector<std::size_t> WritesOf(std::span<const RecordId> wanted) const;

  // Returns the part of a plan that fills these shards, with all of these records and files of the target. Its cost
  // depends on the part alone.
  PlanPart Cut(std::span<const std::size_t> writes, std::span<const RecordId> records,
               std::span<const FileId> files) const;

  // Returns the ready-made bytes of files that the part has; ids are those of the whole plan.
  ReadyMadePart ReadyMade(const PlanPart& part, std::span<const FileId> files) const;

 private:
  using Rows = std::pair<std::size_t, std::size_t>;  // [first, end) of a table.

  struct Part;

  void Keep(const PlanWrite& write, Part& part) const;
  void AddTensors(const Part& part, std::span<const std::size_t> writes, Plan& plan) const;

  const Plan& plan_;
  std::vector<std::vector<std::uint32_t>> writes_of_record_;
  std::vector<Rows> reads_of_tensor_;
  std::map<std::vector<WrittenPiece>, std::vector<std::size_t>> writes_of_kind_;
  std::vector<std::vector<std::uint32_t>> placements_of_file_;
  GeometryIndex geometries_;
};

}  // namespace ucp
