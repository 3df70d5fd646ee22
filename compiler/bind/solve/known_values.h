// The known values of dims and facts so far, and which sources have been heard.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "compiler/bind/solve/solve_dims.h"
#include "compiler/bind/values/evaluate_condition.h"
#include "compiler/bind/values/evaluate_formula.h"
#include "compiler/bind/values/inventory_index.h"

namespace ucp {

// About one dim or fact.
struct Progress {
  bool wrong = false;    // A mistake was reported, and no further one follows from it.
  bool heard = false;    // The metadata was asked, or its condition does not hold.
  bool defined = false;  // Its definition was computed, or its condition does not hold.
};

class KnownValues {
 public:
  KnownValues(const CheckedSpec& spec, const InventoryIndex& found, const Settings& set, DiagnosticSink& sink);

  Values values() const { return {spec_, solved_.dims, found_.inventory().mesh, solved_.facts, &header_}; }
  const Header& header() const { return header_; }

  Progress& OfDim(std::size_t dim) { return dim_progress_[dim]; }
  Progress& OfFact(std::size_t fact) { return fact_progress_[fact]; }
  bool HasDim(std::size_t dim) const { return solved_.dims[dim].has_value(); }
  bool HasFact(std::size_t fact) const { return solved_.facts[fact].has_value(); }

  // Takes the values of the command line. Reports names that the spec does not have, and values of the wrong kind.
  void TakeSettings();

  // The first path that the checkpoint has; null does not count. A value of no use is reported, and nothing falls
  // through silently.
  void ReadDim(std::size_t dim);
  void ReadFact(std::size_t fact);
  void ReportDispute(const MetadataPath& path, const Fact& fact);  // Ranks contradict each other.

  // A second source must agree with the first; else both are shown.
  void Learn(std::size_t dim, DimValue value);
  void Learn(std::size_t fact, BoundFact value);

  SolvedValues Finish() && { return std::move(solved_); }

 private:
  void TakeSetting(const std::string& name, const FactValue& value);
  void RefuseSetting(DiagnosticKind kind, std::string message, std::string hint = {});
  void RefuseUnknownSetting(const std::string& name);
  void TakeHas(const std::string& name, const FactValue& value);

  const CheckedSpec& spec_;
  const InventoryIndex& found_;
  const Settings& set_;
  Header header_;
  DiagnosticSink& sink_;
  SolvedValues solved_;
  std::vector<Progress> dim_progress_;
  std::vector<Progress> fact_progress_;
};

}  // namespace ucp
