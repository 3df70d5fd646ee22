// A visitor as the sink of a run: it looks at every element that a plan makes, and nothing is written. Digests of a
// source are added up by the engine, so their visitor does nothing.
#pragma once

#include <llvm/Support/Error.h>

#include <cstddef>
#include <functional>
#include <span>
#include <string>

#include "compiler/files/readable_file_system.h"
#include "compiler/plan/plan.h"
#include "compiler/plan/steps.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/share_out.h"
#include "runtime/engine/sink.h"
#include "runtime/engine/work_list.h"
#include "runtime/executor/execute.h"

namespace ucp {

// The elements of a range as the target has them. Called from any thread, many at a time; `bytes` are valid during the
// call only. Empty: nobody looks.
using VisitElements = std::function<void(const TargetRange& range, std::span<const std::byte> bytes)>;

class VisitSink : public Sink {
 public:
  // `share`: the elements that this rank makes. All must outlive this.
  VisitSink(const Plan& plan, const TargetShare& share, std::uint64_t chunk_bytes, const VisitElements& visit)
      : work_(plan, chunk_bytes, {}, share), visit_(visit) {}

  SinkSize Size() const override { return {0, work_.element_bytes(), 0}; }
  [[nodiscard]] llvm::Error Prepare(Engine&) override { return llvm::Error::success(); }
  [[nodiscard]] llvm::Error Fill(Engine& engine) override;

 private:
  const WorkList work_;
  const VisitElements& visit_;
};

// Makes every element that the plan writes, once over all ranks, and shows it to `visit`. Of the options, those of a
// folder (`keep`, `progress_before`) are not used. The plan must be verified. Codes: as Execute().
llvm::Expected<EngineReport> Visit(const Plan& plan, const std::string& source_root, ReadableFileSystem& files,
                                   const ExecutionOptions& options, const VisitElements& visit = {});

}  // namespace ucp
