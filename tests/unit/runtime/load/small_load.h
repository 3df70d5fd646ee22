// The start of the tests of loading: a conversion as a plan to load by, its source in a folder, and what each record
// must hold.
#pragma once

#include <map>
#include <random>
#include <string>
#include <vector>

#include "runtime/load_plan/load_plan.h"
#include "tests/unit/compiler/formats/testing/checkpoint_copy.h"
#include "tests/unit/runtime/executor/small_conversion.h"

namespace ucp {

struct SmallLoad {
  // Of a conversion that is finished. Its plan is verified.
  explicit SmallLoad(SmallConversion finished);

  // By SmallConversion's slow rules.
  std::map<RecordId, std::string> Expected(const std::vector<RecordId>& records) const;
  std::map<RecordId, std::string> Expected() const { return Expected(records); }

  testing::TemporaryFolder folder;
  LoadPlan load;
  std::vector<RecordId> records;  // All of them.

 private:
  std::map<std::string, std::string> files_;
};

// Two cuts of three small tensors. `target` may be weights of masters.
SmallConversion RandomCuts(std::mt19937& random);

// One tensor of 4.8 MB, of which every rank wants all.
SmallConversion OneLargeTensor();

// A real checkpoint as a plan, and what an ordinary conversion by this plan writes.
struct ConvertedLoad {
  LoadPlan load;
  std::vector<RecordId> records;
  std::map<RecordId, std::string> expected;
};
ConvertedLoad Convert(const std::string& fixture, const std::string& target);

}  // namespace ucp
