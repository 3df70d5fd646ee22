// A conversion small enough to be checked element by element: a source cut one way, a target cut another, and a plan
// between them that is built here, table by table, without the planner. The bytes of both sides come from the rules in
// compiler/layout/storage.h, applied to one element at a time.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compiler/plan/plan.h"

namespace ucp {

struct SmallTensor {
  std::string name;
  std::vector<std::int64_t> shape;
};

// How one side is cut. Every tensor is cut along its dimension `cut_dim` (counted from its last one on if negative, and
// wrapped) into `tp` parts; with `fused` it is two halves behind one another, each cut by itself. Local tensors get
// `padding` places behind the cut dimension. Each state of all tensors of a rank is one buffer, in `dp` parts.
struct SmallCut {
  std::int64_t tp = 1;
  std::int64_t cut_dim = 0;
  bool fused = false;
  std::int64_t padding = 0;
  std::int64_t dp = 1;
  Spread spread = Spread::kAcrossBuffer;
  std::int64_t alignment = 1;  // Of where each tensor begins in its buffer.
  bool transposed = false;     // Source only, dp = 1: local tensors lie with their dimensions reversed.
  std::int64_t term = 0;       // Source only: which term of each tensor's Arithmetic it gives.
  float times = 1;             // The stored number is the element's value times this,
  float plus = 0;              // plus this.
  bool weights = false;        // Target only: what it holds is the bfloat16 weights of float32 masters.
};

class SmallConversion {
 public:
  explicit SmallConversion(std::vector<SmallTensor> tensors, std::vector<std::string> states = {"exp_avg", "fp32"})
      : tensors_(std::move(tensors)), states_(std::move(states)) {
    AddTensors();
  }

  // The value of one element: different for each tensor, state and place.
  static float Value(std::size_t tensor, const std::string& state, std::int64_t flat);

  // Adds files `prefix…` to the source, and reads of this role of them. A kCheckRounding source holds bfloat16 weights.
  void AddSource(const SmallCut& cut, ReadRole role = ReadRole::kCopy, const std::string& prefix = "source_");
  void SetTarget(const SmallCut& cut);
  // Call last: geometries, order and checksums.
  void Finish();

  void WriteSource(const std::string& folder) const;
  // The bytes that the target's files must hold, by their paths.
  std::map<std::string, std::string> ExpectedFiles() const;
  // "a fp32 float32 DIGEST" for each tensor and state of the target, of its elements in order.
  std::vector<std::string> ExpectedDigests() const;

  Plan& plan() { return plan_; }
  std::map<std::string, std::string>& source_contents() { return source_contents_; }

 private:
  void AddTensors();
  void AddSide(const SmallCut& cut, bool is_source, ReadRole role, const std::string& prefix);
  ProductSet SetOf(const SmallTensor& tensor, const SmallCut& cut, std::int64_t rank) const;
  SetId AddSet(const ProductSet& set);
  void AddBlobs(FileId file, const std::vector<bool>& holds_element);

  std::vector<SmallTensor> tensors_;
  std::vector<std::string> states_;
  SmallCut target_cut_;
  Plan plan_;
  std::map<std::string, std::string> source_contents_;
  std::map<std::string, std::string> target_contents_;
};

// The weight that this master should give, found the slow way.
std::uint16_t SlowBFloat16(float value);

// The bytes of every file below a folder, by its path there.
std::map<std::string, std::string> FilesUnder(const std::string& folder);

}  // namespace ucp
